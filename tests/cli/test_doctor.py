import resource
import subprocess
import sys
from importlib import metadata

import pytest
from typer.testing import CliRunner

import bayestriplet
from bayestriplet.cli import doctor
from bayestriplet.cli.app import app


@pytest.fixture
def without(monkeypatch):
    """A function that makes packages look as if they were not installed."""

    def hide(*names):
        def version(name, real=metadata.version):
            if name in names:
                raise metadata.PackageNotFoundError(name)
            return real(name)

        monkeypatch.setattr(metadata, "version", version)

    return hide


def test_doctor_prints_versions_extras_and_caches(tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "file").write_bytes(bytes(2500))
    monkeypatch.setenv("BAYESTRIPLET_DATA", str(tmp_path))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0, done.output
    for part in (
        bayestriplet.__version__,
        metadata.version("torch"),
        "OMP_NUM_THREADS",
        "CPU",
        str(tmp_path),
    ):
        assert part in done.output
    assert "mnist  2.5 kB" in done.output


def test_a_missing_package_is_named_with_the_command_that_installs_it(without):
    without("umap-learn")
    lines = {line.split()[0]: line for line in doctor.describe_extras()}
    command = "without umap-learn; to install:  pip install 'bayestriplet[figures]'"
    assert lines["figures"].endswith(command)
    assert "without umap-learn" in lines["serve"]  # it includes figures
    assert lines["h5"].endswith("complete")
    assert "umap-learn               not installed" in doctor.describe_versions()


def test_doctor_works_without_torch(without, monkeypatch):
    without("torch")
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it raises ImportError
    monkeypatch.delitem(sys.modules, "bayestriplet.model.devices", raising=False)
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0, done.output
    assert "torch cannot be imported" in done.output


def test_extras_are_unknown_where_the_package_was_not_installed(monkeypatch):
    def requires(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert doctor.describe_extras() == ["unknown, as bayestriplet was not installed by pip"]


def test_a_cache_that_is_not_there_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESTRIPLET_DATA", str(tmp_path / "none"))
    assert doctor.describe_caches()[1:] == ["nothing is kept yet"]


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 bytes"), (999, "999 bytes"), (11_600_000, "11.6 MB"), (2e15, "2000.0 TB")]
)
def test_sizes_are_in_units(number, text):
    assert doctor.in_units(number) == text


def test_doctor_answers_in_under_three_seconds():
    taken = []
    for _ in range(3):
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        code = "import sys; from bayestriplet.cli.app import main; sys.argv[1:] = ['doctor']; main()"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
    assert min(taken) < 3  # of a core: other processes may hold it up
