"""What the documents show is run and checked."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def test_every_python_block_of_the_readme_runs():
    found = blocks(ROOT / "README.md", "python")
    assert len(found) >= 4
    namespace = {}
    for block in found:
        exec(compile(block, "README.md", "exec"), namespace)  # noqa: S102


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name
)
def test_links_between_documents_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        assert target.startswith("https://") or (path.parent / target).exists(), target


def test_the_readme_quotes_the_measured_speeds():
    readme = (ROOT / "README.md").read_text()
    measured = json.loads((ROOT / "benchmarks" / "results" / "speed.json").read_text())
    for name, row in measured["b50_k10_d128"].items():
        line = next(line for line in readme.splitlines() if line.startswith(f"| {name} |"))
        assert line == f"| {name} | {row['milliseconds']:.2f} | {row['times_bh']:.2f} |"
