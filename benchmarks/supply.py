"""What the package is made of and whether it builds the same way twice.

    python benchmarks/supply.py sbom [--out bayestriplet.cdx.json]
    python benchmarks/supply.py extras
    python benchmarks/supply.py pythons
    python benchmarks/supply.py hashes

The first writes a bill of materials in CycloneDX's form. The second builds wheel and source archive twice,
compares them, and installs every extra into an environment of its own. The third installs the wheel for
every Python that is here, without torch, whose wheels for all of them take gigabytes, and searches an
index. The last writes hashes.txt after constraints.txt has changed: the packages whose one file serves
every platform, each with its SHA-256.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
SINCE = "1735689600"  # the time of every file in an archive


def licence_of(found: metadata.Distribution) -> str:
    """Return the licence that a distribution names, by its expression, its classifiers or its text."""
    about = found.metadata
    kinds = [one.rpartition(" :: ")[2] for one in about.get_all("Classifier") or () if "License ::" in one]
    classifiers = [one for one in kinds if one != "OSI Approved"]
    text = (about.get("License") or "").strip().splitlines()
    return about.get("License-Expression") or " AND ".join(classifiers) or (text[0][:100] if text else "")


def dependencies(extra: str) -> dict[str, metadata.Distribution]:
    """Return every distribution that the package needs with an extra, as far as it is installed."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [("bayestriplet", frozenset({extra}))]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            one = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform
        found[name] = one
        waiting += [(other, more) for other, more in _requirements(one, extras)]
    found.pop("bayestriplet", None)
    return dict(sorted(found.items()))


def _requirements(one: metadata.Distribution, extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    out = []
    for text in one.requires or ():
        wanted = re.search(r"extra\s*==\s*['\"]([^'\"]+)", text)
        if wanted and wanted[1] not in extras:
            continue
        parts = re.match(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?", text)
        if parts:
            name = re.sub(r"[-_.]+", "-", parts[1]).lower()
            out.append((name, frozenset(filter(None, re.split(r"\s*,\s*", parts[2] or "")))))
    return out


def bill() -> dict[str, Any]:
    """Return the bill of materials of what users install."""
    components = [
        {
            "type": "library", "name": name, "version": one.version, "purl": f"pkg:pypi/{name}@{one.version}",
            "licenses": [{"license": {"name": licence_of(one) or "unknown"}}],
        }
        for name, one in dependencies("all").items()
    ]  # fmt: skip
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {"type": "library", "name": own["name"], "version": own["version"],
                                   "licenses": [{"license": {"id": own["license"]}}]}},
        "components": components,
    }  # fmt: skip


def build(folder: Path) -> dict[str, str]:
    """Build wheel and source archive; return their digests."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": SINCE}
    source = folder / "source"
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    for name in names.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
            (source / name).chmod(0o644)
            os.utime(source / name, (int(SINCE), int(SINCE)))
    for kind in ("wheel", "sdist"):
        code = f"import setuptools.build_meta as b, sys; b.build_{kind}(sys.argv[1])"
        subprocess.run(  # noqa: S603
            [sys.executable, "-c", code, str(folder)], cwd=source, env=environment, check=True,
            capture_output=True,
        )  # fmt: skip
    for path in folder.glob("*.tar.gz"):
        _pack_again(path)
    files = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _pack_again(path: Path) -> None:
    """Write a source archive without the times and owners of this machine, which setuptools keeps."""
    content = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=content, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = int(SINCE), 0, 0, "", ""
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    path.write_bytes(gzip.compress(content.getvalue(), mtime=int(SINCE)))


def try_extras() -> dict[str, str]:
    """Install the wheel with each extra into an empty environment and import the package without warnings."""
    out = {}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        (wheel,) = Path(folder).glob("*.whl")
        for extra in ("", *(name for name in extras if name not in ("dev", "all"))):
            place = Path(folder) / f"environment-{extra}"
            venv.create(place, with_pip=True)
            python, named = place / "bin" / "python", f"{wheel}[{extra}]" if extra else str(wheel)
            constraints = ["--constraint", str(ROOT / "constraints.txt")]
            for command in (
                [python, "-m", "pip", "install", "--quiet", *constraints, named],
                [python, "-W", "error", "-c", "import bayestriplet"],
                [place / "bin" / "bayestriplet", "--version"],
            ):
                done = subprocess.run([*map(str, command)], capture_output=True, text=True)  # noqa: S603
                out[extra or "none"] = done.stderr.strip()[-200:] if done.returncode else "works"
                if done.returncode:
                    break
            print(f"{extra or 'no extra'}: {out[extra or 'none']}", flush=True)
    return out


def find_pythons() -> dict[str, str]:
    """Return the programs of the Pythons that are promised, empty for one that is not here."""
    found = {}
    for version in PYTHONS:
        own = sys.executable if f"{sys.version_info[0]}.{sys.version_info[1]}" == version else ""
        places = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        found[version] = own or (str(places[-1]) if places else shutil.which(f"python{version}") or "")
    return found


def try_pythons() -> dict[str, str]:
    """Install the wheel and what a search needs for each Python, and search the index of the kept run."""
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [one for one in own["dependencies"] if not one.startswith("torch")]
    needed += own["optional-dependencies"]["search"]
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        (wheel,) = Path(folder).glob("*.whl")
        with tarfile.open(ROOT / "tests" / "fixtures" / "run-0.1.0.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        query = ROOT / "docs" / "images" / "query.png"
        for version, program in find_pythons().items():
            place = Path(folder) / version
            python, pip = place / "bin" / "python", ["-m", "pip", "install", "--quiet"]
            search = [place / "bin" / "bayestriplet", "search", Path(folder) / "run", query, "-k", "3"]
            for command in (
                [program, "-m", "venv", place],
                [python, *pip, "--constraint", ROOT / "constraints.txt", *needed],
                [python, *pip, "--no-deps", wheel],
                [python, "-W", "error", "-c", "import bayestriplet"],
                search,
            ):
                if not program:
                    out[version] = "untried: it is not here"
                    break
                done = subprocess.run([*map(str, command)], capture_output=True, text=True)  # noqa: S603
                # 3: it was answered, with the paths of another machine.
                failed = done.returncode not in ((0, 3) if command is search else (0,))
                out[version] = done.stderr.strip()[-300:] if failed else "works"
                if failed:
                    break
            print(f"Python {version}: {out[version]}", flush=True)
    return out


def pure() -> list[str]:
    """Return the lines of constraints.txt whose installed wheel is for every platform."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if "==" in line and _serves_all(line.partition("==")[0])]


def _serves_all(name: str) -> bool:
    try:
        wheel = metadata.distribution(name).read_text("WHEEL") or ""
    except metadata.PackageNotFoundError:  # for another platform
        return False
    return any(line.startswith("Tag: ") and line.endswith("-none-any") for line in wheel.splitlines())


def write_hashes(path: Path) -> int:
    """Write the SHA-256 of every file that serves all platforms, as the package index names it."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, report = Path(folder) / "wanted.txt", Path(folder) / "report.json"
        wanted.write_text("\n".join(pure()) + "\n")
        command = [
            sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps",
            "--only-binary", ":all:", "-r", str(wanted), "--report", str(report),
        ]  # fmt: skip
        subprocess.run(command, check=True)  # noqa: S603
        found = json.loads(report.read_text())["install"]
    lines = [_with_hash(one) for one in found if one["download_info"]["url"].endswith("-none-any.whl")]
    head = "# What serves every platform: pip install --no-deps --require-hashes -r hashes.txt"
    path.write_text("\n".join([head, *sorted(lines)]) + "\n")
    return len(lines)


def _with_hash(found: dict[str, Any]) -> str:
    about, file = found["metadata"], found["download_info"]["archive_info"]
    return f"{about['name'].lower()}=={about['version']} --hash=sha256:{file['hashes']['sha256']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("sbom", "extras", "pythons", "hashes"))
    parser.add_argument("--out", type=Path, default=Path("bayestriplet.cdx.json"))
    arguments = parser.parse_args()
    if arguments.what == "sbom":
        arguments.out.write_text(json.dumps(bill(), indent=1) + "\n")
        print(f"{arguments.out}: {len(bill()['components'])} components")
        return
    if arguments.what == "hashes":
        print(f"hashes.txt: {write_hashes(ROOT / 'hashes.txt')} packages")
        return
    if arguments.what == "pythons":
        if not set(try_pythons().values()) <= {"works", "untried: it is not here"}:
            raise SystemExit(1)
        return
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        same = build(Path(one)) == build(Path(two))
    print(f"two builds are {'equal' if same else 'different'}")
    if not same or set(try_extras().values()) != {"works"}:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
