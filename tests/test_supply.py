"""What the package depends on, and that it builds the same way twice."""

import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import supply

ALLOWED = re.compile(
    r"\b(MIT|0?BSD|Apache|ISC|PSF|Python Software Foundation|HPND|MPL[- ]2\.0|Mozilla Public License 2\.0"
    r"|Unlicense|Zlib|CC0)\b",
    re.IGNORECASE,
)
REFUSED = re.compile(r"GPL|proprietary|commercial", re.IGNORECASE)


def test_the_licences_of_all_dependencies_are_compatible():
    found = {name: supply.licence_of(one) for name, one in supply.dependencies("all").items()}
    assert len(found) > 50
    assert {name: text for name, text in found.items() if REFUSED.search(text)} == {}
    assert {name: text for name, text in found.items() if not ALLOWED.search(text)} == {}


def test_the_bill_of_materials_names_every_dependency_with_its_version():
    bill = supply.bill()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    named = {one["name"]: one["version"] for one in bill["components"]}
    assert {"torch", "lancedb", "fastapi", "lightning", "numpy"} <= set(named)
    assert all(one["purl"].endswith(f"@{one['version']}") for one in bill["components"])


def test_what_serves_every_platform_is_installed_by_its_hash():
    lines = (supply.ROOT / "hashes.txt").read_text().splitlines()[1:]
    assert all(re.fullmatch(r"\S+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    hashed = {_normal(line.partition(" ")[0]) for line in lines}
    constrained = (supply.ROOT / "constraints.txt").read_text().splitlines()
    assert hashed <= {_normal(line) for line in constrained}
    # Those of one platform only say so in the name of their file, which is not kept.
    assert {_normal(line) for line in supply.pure()} - hashed <= {"playwright==1.65.0"}
    assert "--require-hashes --only-binary :all: -r hashes.txt" in (supply.ROOT / "Makefile").read_text()


def _normal(line):
    return re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() + "==" + line.partition("==")[2]


def test_two_builds_are_equal(tmp_path):
    one, two = supply.build(tmp_path / "one"), supply.build(tmp_path / "two")
    assert len(one) == 2
    assert one == two


def test_importing_the_package_warns_of_nothing():
    done = subprocess.run([sys.executable, "-W", "error", "-c", "import bayestriplet"], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
