"""The short form of what ``make chaos`` measures; what is tested elsewhere is not repeated."""

import shutil

import pytest

from tests.chaos import hostile, killed, killed_files, scarce, served
from tests.chaos.commands import error_of, run
from tests.chaos.runs import Made, make_run


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A run of eight dimensions with an index."""
    return make_run(tmp_path_factory.mktemp("chaos"))


@pytest.fixture
def copied(made, tmp_path):
    return Made(shutil.copytree(made.run, tmp_path / "run"), shutil.copytree(made.scans, tmp_path / "scans"))


def test_three_hundred_damaged_files_are_refused_or_opened_and_never_believed(made, tmp_path):
    found = hostile.measure(tmp_path / "hostile", seed=1, mutations=300, made=made)
    assert found["defects"] == []
    assert sum(found["found"].values()) == 300
    assert found["peak_megabytes"] < hostile.MOST_MEGABYTES


def test_a_killed_training_goes_on_or_says_that_nothing_was_kept(tmp_path):
    found = killed.kill_trainings(tmp_path, kills=1, devices=1, seed=3)
    assert (found["kills"], found["unequal"]) == (1, [])


def test_killed_teaching_is_all_or_nothing(made, tmp_path):
    assert killed_files.kill_teaching(tmp_path, made.run, kills=2, seed=1)["wrong"] == 0


def test_killed_downloads_leave_a_whole_file_or_none(tmp_path):
    assert killed_files.kill_downloads(tmp_path, kills=3, seed=1)["wrong"] == 0


@pytest.mark.skipif(not scarce.can_mount(), reason="this machine lets nobody mount a file system")
def test_a_full_disk_and_a_read_only_one_are_one_line_and_lose_nothing(copied, tmp_path):
    assert scarce.export_in_small_room(tmp_path / "room", copied).startswith("encoder.onnx cannot be written")
    said = scarce.inside(scarce.read_only_script(copied, "export", copied.run, "--backbone", scarce.BACKBONE))
    assert error_of(said).endswith("Read-only file system")


def test_want_of_memory_is_one_line(copied, tmp_path):
    found = scarce.little_memory(tmp_path, copied, [1500], names=["train"])
    assert set(found.values()) == {"Error: there is not enough memory for this: free some, or ask for less"}


def test_a_data_worker_that_is_killed_is_one_line_and_so_is_a_disk_that_became_read_only(tmp_path):
    from tests.data.pictures import make_folder

    pictures = make_folder(tmp_path / "pictures", {"cat": 20, "dog": 20})
    line = scarce.kill_worker(tmp_path, pictures)
    assert line.startswith("Error: a process that loads images was killed; fewer --workers need less memory")
    if scarce.can_mount():
        assert scarce.resume_read_only(tmp_path / "worker") == "Read-only file system"


def test_clients_of_every_kind_are_answered_while_the_index_grows(copied, tmp_path):
    found = served.load(tmp_path, copied, seed=0, seconds=6, clients=16, every=1.0, idle=500, think=0.2)
    assert (found["errors"], found["wrong_answers"], found["wrong_after"]) == (0, 0, 0)
    assert found["exit_code"] == 0
    assert found["reindexed"] >= 1
    assert found["lessons"] >= 2
    assert found["answers_of_taught_run"] >= 2
    assert found["searches"] > 20
    assert found["idle_connections"] > 400


def test_the_service_does_what_its_description_says(copied):
    found = served.check_description(copied, examples=10)
    assert found["first_problems"] == []
    assert found["cases"] > 30
    assert run("search", copied.run, copied.scans / "1" / "1.png", "-k", "1").returncode == 0
