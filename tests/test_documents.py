"""What the documents show is run and checked."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from bayestriplet import BUT
from bayestriplet.cli.app import app

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
    readme = readme[readme.index("| criterion | ms a step |") :]
    measured = json.loads((ROOT / "benchmarks" / "results" / "speed.json").read_text())
    for name, row in measured["b50_k10_d128"].items():
        line = next(line for line in readme.splitlines() if line.startswith(f"| {name} |"))
        assert line == f"| {name} | {row['milliseconds']:.2f} | {row['times_bh']:.2f} |"


def test_the_readme_quotes_the_measured_training_figures():
    text = " ".join((ROOT / "README.md").read_text().split())
    results = ROOT / "benchmarks" / "results"
    training, recall = (json.loads((results / f"{name}.json").read_text()) for name in ("training", "recall"))
    assert f"costs {training['steps']['ratio']:.2f} times that of a bare loop" in text
    assert f"waits {100 * training['loader']['share_waiting']:.1f}% of the time for data" in text
    assert f"{recall['ratio']:.2f} times a raw FAISS search" in text


def test_the_documents_quote_the_measured_service():
    measured = json.loads((ROOT / "benchmarks" / "results" / "service.json").read_text())
    one, many = measured["one_client"], measured["many_clients"]
    text = " ".join((ROOT / "docs" / "service.md").read_text().split())
    assert f"{one['milliseconds']:.1f} ms from upload to answer" in text
    assert f"{one['encoder_and_search_milliseconds']:.1f} ms of it encoder and search" in text
    assert f"a median of {many['median_milliseconds']:.0f} ms" in text
    assert f"a 99th percentile of {many['p99_milliseconds']:.0f} ms" in text
    assert f"{many['requests_per_second']:.0f} requests a second" in text


def test_the_tables_of_results_are_what_the_figures_say():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import tables

    known, shown = tables.blocks(), set()
    for path in tables.DOCUMENTS:
        text = path.read_text()
        assert tables.fill(text, known) == text, f"{path.name}: run python benchmarks/tables.py"
        shown |= set(re.findall(r"<!-- ([a-z ]+) -->", text)) - {"end"}
    assert shown == set(known)


def test_the_pictures_of_results_are_drawn_from_the_figures(tmp_path):
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import tables

    tables.draw_pictures(tmp_path)
    for drawn in tmp_path.iterdir():
        with Image.open(drawn) as new, Image.open(tables.PICTURES / drawn.name) as committed:
            away = np.abs(np.asarray(new, float) - np.asarray(committed, float)).mean()
        assert away < 0.002, f"{drawn.name} is stale: run python benchmarks/tables.py"
    assert {path.name for path in tmp_path.iterdir()} == {"learning.png", "regimes.png"}


def test_the_verdicts_of_the_documents_are_those_of_the_figures():
    """Sentences beside the tables: how many regimes are won, on which seeds, after how many steps."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import tables

    found = json.loads((tables.RESULTS / "quality.json").read_text())
    results, readme = (
        " ".join((ROOT / name).read_text().split()) for name in ("docs/results.md", "README.md")
    )
    leads = {name: tables.lead(tables.rows_of(entry)) for name, entry in found["regimes"].items()}
    won = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")[
        sum(gap.is_clear and gap.value > 0 for gap in leads.values())
    ]
    assert f"clearly first in {won} of the eight" in results
    assert f"clearly first in {won} of eight" in readme
    seeds = {}
    for kind in ("main", "regimes", "lower rate"):
        lists = {tuple(m["seeds"]) for entry in found[kind].values() for m in entry["methods"].values()}
        (seeds[kind],) = lists  # the same for every method
    main, regimes = seeds["main"], seeds["regimes"]
    assert seeds["lower rate"] == regimes
    assert (
        f"{main[0]} to {main[-1]} in the main tables, {regimes[0]} to {regimes[-1]} in the regimes" in results
    )
    for kind, steps in (("main", 800), ("regimes", 400), ("lower rate", 400)):
        assert {entry["settings"]["max_steps"] for entry in found[kind].values()} == {steps}
        assert f"({steps}, Adam" in results or f"- {steps} steps." in results
    level = {}  # the best first, then those that are not clearly behind
    for name, entry in found["main"].items():
        first, *others = tables.rank(tables.rows_of(entry))
        level[name] = [first.method, *(r.method for r in others if not tables.difference(r, first).is_clear)]
    assert level == {"mnist": ["bunca", "nca", "proxy-nca"], "pathmnist": ["bunca", "but"]}
    assert (
        "BUNCA is first on both sets: on MNIST not clearly ahead of proxy-NCA and NCA, on PathMNIST" in readme
    )
    assert "clearly ahead of all but BUT" in readme
    assert (
        "On MNIST proxy-NCA and NCA are not clearly behind, on PathMNIST BUT is not; all others are"
        in results
    )


def test_the_method_quotes_the_measured_probabilities_and_novelty():
    text = (ROOT / "docs" / "method.md").read_text()
    measured = json.loads((ROOT / "benchmarks" / "results" / "calibration.json").read_text())
    assert measured["recipe"] == BUT.sampling["default"], "run python benchmarks/calibration.py"
    sets = [measured["probabilities"][name]["mean"] for name in ("mnist", "pathmnist")]
    for way in sets[0]:
        cells = [f"{mean[way][key]:.4f}" for mean in sets for key in ("log_loss", "ece")]
        assert f"| {way} | {' | '.join(cells)} |" in text
    novelty = measured["novelty"]
    for way, mean in novelty["mean"].items():
        cells = [f"{run['novelty'][way]:.4f}" for run in novelty["runs"].values()]
        assert f"| {way} | {' | '.join(cells)} | {mean:.4f} |" in text


def commands(app, prefix=()):
    """Every command of the command line with its options."""
    for name, command in app.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*prefix, name))
        else:
            options = [
                flag for p in command.params for flag in (*p.opts, *p.secondary_opts) if flag[:2] == "--"
            ]
            yield (*prefix, name), options


def test_every_command_and_option_is_in_the_documentation():
    text = (ROOT / "docs" / "cli.md").read_text()
    for name, options in commands(typer.main.get_command(app)):
        assert re.search(rf"^#+ {' '.join(name)}\b", text, re.MULTILINE), name
        for option in options:
            assert option == "--help" or f"`{option}`" in text, f"{' '.join(name)} {option}"


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", ROOT / "docs" / "cli.md", ROOT / "docs" / "service.md"],
    ids=lambda p: p.name,
)
def test_every_documented_command_exists_with_its_options(path):
    known = dict(commands(typer.main.get_command(app)))
    shown = [
        line for block in blocks(path, "console") for line in block.splitlines() if "bayestriplet" in line
    ]
    shown = [line.split("#")[0].split() for line in shown if re.match(r"\$ |  ?\S*bayestriplet ", line)]
    assert len(shown) >= 2
    for words in shown:
        words = words[next(i for i, word in enumerate(words) if word.endswith("bayestriplet")) + 1 :]
        name = next(name for name in known if tuple(words[: len(name)]) == name)
        assert {word for word in words if word.startswith("--")} <= set(known[name]), words


def test_the_makefiles_targets_are_those_the_readme_names():
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE).group(1).split()
    for named in re.findall(
        r"make (\w+)", (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    ):
        assert named in targets or named in ("and", "are"), named
