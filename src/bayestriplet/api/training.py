"""Training one method, or comparing several: the engine of the commands, without a console."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayestriplet.api.run import FileName, Run
from bayestriplet.checks import check_seeds, check_whole
from bayestriplet.config import TrainConfig, make_config
from bayestriplet.data.sources import absolute_data
from bayestriplet.errors import InputError
from bayestriplet.methods import COMPARED, check_methods
from bayestriplet.runs.config_file import read_toml
from bayestriplet.runs.folder import check_begun, check_free
from bayestriplet.runs.unfreezing import with_frozen_run
from bayestriplet.training.events import OnEvent, ignore

if TYPE_CHECKING:
    from bayestriplet.report.results import ComparisonResult


def train(
    data: str | None = None,
    *,
    out: FileName | None = None,
    config: FileName | None = None,
    resume: FileName | None = None,
    on_event: OnEvent = ignore,
    **options: Any,
) -> Run:
    """Train an encoder on labelled images, measure it on the test split, and return its run.

    Args:
        data: mnist, digits, pathmnist:FILE.npz, crc:FOLDER, vectors:FILE, a folder, or a CSV manifest.
        out: the folder of the run, new or empty.
        config: a TOML file with any of the options; those given here win.
        resume: the folder of a run that was stopped, to go on with it; a backbone that is code,
            package:factory, is run only if it is given here again.
        on_event: called with every step, validation, phase and warning; ``print`` will do.
        **options: every option of ``bayestriplet train``, with underscores: method="nca", max_steps=500.

    With ``devices`` above 1 the script is started once per process, as Lightning does; only the first
    returns.

    >>> run = bt.train("photos", out="runs/more", width=0.25, dim=8, max_steps=20)
    >>> run.results["status"], run.classes
    ('finished', ('0', '1', '2'))

    """
    checked, folder = _check_training(data, out, config, resume, options)
    from bayestriplet.training.processes import sharing_failures
    from bayestriplet.training.run import TrainingRun

    with sharing_failures():
        training = TrainingRun(checked, folder, on_event)
        training.fit(resume=resume is not None)
    if not training.is_first:
        raise SystemExit(0)  # this process was started to help with the training
    training.finish()
    return Run(folder)


def _check_training(
    data: str | None, out: FileName | None, config: FileName | None, resume: FileName | None,
    options: Mapping[str, Any],
) -> tuple[TrainConfig, Path]:  # fmt: skip
    """Return the options and the folder of a training, checked before anything heavy is imported."""
    values = {name: value for name, value in {"data": data, **options}.items() if value is not None}
    source: Path | None = None
    if "data" in values:
        values["data"] = absolute_data(str(values["data"]))
    if resume is not None:
        if out is not None or config is not None:
            raise InputError("--resume takes out and options from the run: do not give --out or --config")
        check_begun(Path(resume))
        out, source = resume, Path(resume) / "config.toml"
    elif config is not None:
        source = Path(config)
    given = set(values)
    if source is not None:
        values = read_toml(source) | values
    if "unfreeze_from" in values and resume is None:
        values = with_frozen_run(values, given)
    checked = make_config(values, str(source or "train"))
    if checked.is_code and "backbone" not in given:  # a file names it
        raise InputError(
            f"{source or checked.unfreeze_from} needs the backbone {checked.backbone!r}, which is code: "
            f"give --backbone {checked.backbone} to run it"
        )
    if out is None:
        raise InputError("--out is missing: name a folder for the run, such as --out runs/first")
    if resume is None and "LOCAL_RANK" not in os.environ:
        check_free(Path(out))  # before any image is read; a further process finds what the first has begun
    return checked, Path(out)


def compare(
    data: str,
    *,
    out: FileName,
    methods: Sequence[str] | None = None,
    seeds: int | Sequence[int] = 5,
    jobs: int = 1,
    tune: bool = True,
    on_event: OnEvent = ignore,
    **options: Any,
) -> "ComparisonResult":
    """Train and measure methods under one budget, tuned alike, on several seeds; write tables and plots.

    ``seeds`` is how many, or which. Other options are those of :func:`train`, but for what is tuned.
    Runs that are in ``out`` already are not repeated.

    >>> options = {"width": 0.25, "dim": 8, "max_steps": 20, "tune": False}
    >>> result = bt.compare("photos", out="comparison", methods=["but", "bh"], seeds=1, **options)
    >>> sorted(row.method for row in result.rows)
    ['bh', 'but']
    """
    names = check_methods(COMPARED if methods is None else methods)
    numbers = check_seeds(range(check_whole("seeds", seeds, 1)) if isinstance(seeds, int) else seeds)
    values = {name: value for name, value in options.items() if value is not None}
    base = make_config({"data": absolute_data(data), **values}, "compare")
    if base.unfreeze_from is not None:
        raise InputError("compare begins every run alike: unfreeze_from is an option of train alone")
    from bayestriplet.report.results import ComparisonResult, write_comparison
    from bayestriplet.report.style import import_drawing
    from bayestriplet.training.comparison import Comparison

    import_drawing("matplotlib.figure")  # better now than after hours of runs
    summary = Comparison(base, names, numbers, tune).run(Path(out), jobs, on_event)
    result = ComparisonResult.of(summary)
    write_comparison(result, summary, Path(out))
    return result
