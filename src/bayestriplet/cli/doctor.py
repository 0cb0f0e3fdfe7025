"""``bayestriplet doctor``: what is installed, what is missing, and what is kept where."""

import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path

import typer

import bayestriplet
from bayestriplet.errors import reason_of

PACKAGE = "bayestriplet"
SHOWN = (
    "torch", "numpy", "faiss-cpu", "lightning", "monai", "pytorch-metric-learning", "scikit-learn", "onnx",
    "onnxruntime", "lancedb", "pymilvus", "matplotlib", "umap-learn", "fastapi",
)  # fmt: skip
NOT_FOR_USERS = ("all", "dev", "docs")
UNITS = ("bytes", "kB", "MB", "GB", "TB")


def doctor() -> None:
    """Print versions, threads, devices, extras that are missing, and the sizes of caches."""
    for title, lines in (
        ("Versions", describe_versions()),
        ("Threads and devices", describe_machine()),
        ("Extras", describe_extras()),
        ("Caches", describe_caches()),
    ):
        typer.echo("\n".join([title, *(f"  {line}" for line in lines)]))


def describe_versions() -> list[str]:
    """Return a line for Python, this package, and each library that matters."""
    rows = {"Python": f"{platform.python_version()}, {platform.system()} {platform.machine()}"}
    rows[PACKAGE] = bayestriplet.__version__
    rows |= {name: version_of(name) or "not installed" for name in SHOWN}
    return _columns(rows)


def version_of(name: str) -> str | None:
    """Return the version of a package, without importing it; None where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def describe_machine() -> list[str]:
    """Return the cores, the limit of threads, and the devices of torch."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS")
    rows = {"cores": str(cores), "OMP_NUM_THREADS": limit or "not set: libraries choose their threads"}
    try:
        from bayestriplet.model.devices import describe_devices

        rows["devices"] = "; ".join(describe_devices())
    except (ImportError, OSError, RuntimeError) as error:  # absent, or one that does not load on this machine
        rows["devices"] = f"unknown, as torch cannot be imported: {reason_of(error)}"
    return _columns(rows)


def describe_extras() -> list[str]:
    """Return a line for each extra: complete, or what is missing and the command that installs it."""
    wanted = read_extras()
    if not wanted:
        return [f"unknown, as {PACKAGE} was not installed by pip"]
    rows = {}
    for extra, names in wanted.items():
        missing = sorted(name for name in names if version_of(name) is None)
        command = f"pip install '{PACKAGE}[{extra}]'"
        rows[extra] = f"without {', '.join(missing)}; to install:  {command}" if missing else "complete"
    return _columns(rows)


def read_extras() -> dict[str, set[str]]:
    """Return the packages of each extra, with those of the extras that it includes."""
    try:
        lines = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return {}
    named: dict[str, list[str]] = {}
    for line in lines:
        extra = re.search(r"""extra == ["']([\w-]+)["']""", line)
        excluded = re.search(r"""sys_platform != ["'](\w+)["']""", line)
        if extra and not (excluded and excluded[1] == sys.platform):
            named.setdefault(extra[1], []).append(line)
    return {extra: _packages(extra, named) for extra in named if extra not in NOT_FOR_USERS}


def _packages(extra: str, named: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    for line in named.get(extra, []):
        name, inner = re.match(r"([\w.-]+)(?:\[([\w,\s-]+)\])?", line).groups()  # type: ignore[union-attr]
        if name == PACKAGE:
            found |= {package for part in inner.split(",") for package in _packages(part.strip(), named)}
        else:
            found.add(name)
    return found


def describe_caches() -> list[str]:
    """Return where downloads and features are kept, and the size of each part."""
    from bayestriplet.data.download import cache_folder

    folder = cache_folder()
    parts = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    rows = {path.name: in_units(size_of(path)) for path in parts}
    where = f"{folder} (BAYESTRIPLET_DATA names another)"
    return [where, *(_columns(rows) or ["nothing is kept yet"])]


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder; those that cannot be looked at count as none."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(Path(root) / name).st_size
            except OSError:  # removed meanwhile
                continue
    return total


def in_units(number: float) -> str:
    """Return a number of bytes as text: 11.6 MB."""
    for unit in UNITS:
        if number < 1000 or unit == UNITS[-1]:
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == UNITS[0] else f"{number:.1f} {unit}"


def _columns(rows: dict[str, str]) -> list[str]:
    width = max(map(len, rows), default=0)
    return [f"{name:{width}}  {value}" for name, value in rows.items()]
