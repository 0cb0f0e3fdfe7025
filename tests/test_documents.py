"""What the documents show is run and checked."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

import bayestriplet
from bayestriplet import BUT
from bayestriplet.cli.app import app
from bayestriplet.methods import METHODS
from tests.data.pictures import make_folder, save_picture
from tests.data.vector_samples import write_npz
from tests.test_package import LAYERS

ROOT = Path(__file__).parent.parent


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("name", "number"), [("README.md", 1), ("docs/library.md", 4), ("docs/guides/vectors.md", 1)]
)
def test_every_python_block_runs(tmp_path, monkeypatch, name, number):
    found = blocks(ROOT / name, "python")
    assert len(found) == number
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)  # where a run is written
    namespace = {}
    for block in found:
        exec(compile(block, name, "exec"), namespace)  # noqa: S102


@pytest.fixture
def python_page(tmp_path, monkeypatch):
    """The blocks of docs/python.md to run, in a folder with the files that it shows and speaks of."""
    page = ROOT / "docs" / "python.md"
    scripts = blocks(page, "python")
    files = {re.match(r"# (\S+)\n", text).group(1): text for text in blocks(page, "toml")}
    files |= {found.group(1): text for text in scripts if (found := re.match(r"# (\w+\.py)\n", text))}
    assert set(files) == {"train.toml", "my_network.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    make_folder(tmp_path / "photos", {"cat": 20, "dog": 20, "horse": 20})
    for name, seed in (("query.png", 1), ("new.png", 2)):
        save_picture(tmp_path / name, seed=seed)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return [block for block in scripts if block not in files.values()]


def test_every_python_block_about_a_run_runs(python_page, tmp_path):
    namespace = {}
    for block in python_page:
        if "bt.compare(" not in block:
            exec(compile(block, "python.md", "exec"), namespace)  # noqa: S102
    assert [step for step, _ in namespace["curve"]] == [20, 40]
    assert namespace["run"].results["status"] == "finished"
    assert {path.name for path in tmp_path.iterdir()} >= {"photos.npz", "photos.csv"}


def test_the_python_block_about_comparisons_runs(python_page, capsys):
    (block,) = (block for block in python_page if "bt.compare(" in block)
    exec(compile(block, "python.md", "exec"), {"__name__": "__main__", "bt": bayestriplet})  # noqa: S102
    assert "test recall in percent, 2 seeds, best first" in capsys.readouterr().out


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.name
)
def test_links_between_documents_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        assert target.startswith("https://") or (path.parent / target).exists(), target


def test_the_library_quotes_the_measured_speeds():
    page = (ROOT / "docs" / "library.md").read_text()
    page = page[page.index("| criterion | ms per step |") :]
    measured = json.loads((ROOT / "benchmarks" / "results" / "speed.json").read_text())
    for name, row in measured["b50_k10_d128"].items():
        line = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
        assert line == f"| {name} | {row['milliseconds']:.2f} | {row['times_bh']:.2f} |"


def test_the_library_quotes_the_measured_training_figures():
    text = " ".join((ROOT / "docs" / "library.md").read_text().split())
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


def read_results():
    """Return the text of both pages of results, in one line."""
    pages = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("results", "experiments"))
    return " ".join(" ".join(pages).split())


def test_the_table_of_reliability_is_what_was_measured():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import chaos_tables

    text = (ROOT / "docs" / "reliability.md").read_text()
    found = json.loads((ROOT / "benchmarks" / "results" / "chaos.json").read_text())
    assert chaos_tables.fill(text, found) == text, "run make chaos"


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
    assert {path.name for path in tmp_path.iterdir()} == {"learning.png", "regimes.png", "worth.png"}


def test_the_verdicts_of_the_documents_are_those_of_the_figures():
    """Sentences beside the tables: how many regimes are won, on which seeds, after how many steps."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import tables

    found = json.loads((tables.RESULTS / "quality.json").read_text())
    results = read_results()
    leads = {name: tables.lead(tables.rows_of(entry)) for name, entry in found["regimes"].items()}
    won = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")[
        sum(gap.is_clear and gap.value > 0 for gap in leads.values())
    ]
    assert f"clearly first in {won} of the eight" in results
    beside = {
        control: {
            name
            for name, rows in found["regimes"].items()
            if (gap := lead_over(rows, control)).is_clear and gap.value > 0
        }
        for control in ("vertices", "means", "no-noise")
    }
    assert beside["vertices"] == beside["no-noise"] == {"one item per class in a batch"}
    assert len(beside["means"]) == 5
    assert "Class means alone are clearly behind in five of the eight" in results
    floor = found["main"]["mnist"]["floors"]["raw pixels"]["recall@1"]
    best = [max(r.mean("recall@1") for r in compared(entry)) for entry in found["regimes"].values()]
    assert sum(recall < floor for recall in best) == 5
    assert f"no method reaches raw pixels ({floor:.2f}) in five of the eight" in results
    seeds = {}
    for kind in ("main", "other way", "regimes", "lower rate"):
        for name, entry in found[kind].items():
            (seeds[kind, name],) = {tuple(m["seeds"]) for m in entry["methods"].values()}  # the same for all
    mnist, pathmnist = seeds["main", "mnist"], seeds["main", "pathmnist"]
    assert seeds["other way", "pathmnist"] == pathmnist
    (regimes,) = {values for (kind, _), values in seeds.items() if kind in ("regimes", "lower rate")}
    assert (
        f"{mnist[0]} to {mnist[-1]} on MNIST, {pathmnist[0]} to {pathmnist[-1]} on PathMNIST, "
        f"{regimes[0]} to {regimes[-1]} in the regimes" in results
    )
    for kind, steps in (("main", 800), ("other way", 800), ("regimes", 400), ("lower rate", 400)):
        assert {entry["settings"]["max_steps"] for entry in found[kind].values()} == {steps}
        assert f"({steps}, Adam" in results or f"- {steps} steps." in results
    as_they_are, varied = (found[kind]["pathmnist"] for kind in ("main", "other way"))
    means = [{r.method: r.mean("recall@1") for r in tables.rows_of(e)} for e in (as_they_are, varied)]
    assert all(mean < means[0][method] for method, mean in means[1].items())
    first, *others = tables.rank(compared(varied))
    near = {r.method for r in others if not tables.difference(r, first).is_clear}
    assert (first.method, near) == ("bunca", {"but", "proxy-nca"})
    assert "BUNCA is first here too, statistically tied with BUT and proxy-NCA" in results
    best = [
        max(run["validation"] or 0 for run in entry["searched"]["proxy-nca"])
        for entry in (varied, as_they_are)
    ]
    assert f"search is lower ({best[0]:.2f} against {best[1]:.2f})" in results
    tiles = found["main"]["pathmnist"]["methods"]
    ours, theirs = (
        np.mean([seed["validation"] for seed in tiles[method]["seeds"].values()])
        for method in ("bunca", "proxy-nca")
    )
    assert f"On the validation tiles the same trainings find {ours:.2f} and {theirs:.2f}." in results
    pixels = found["raw pixels"]
    assert f"Recall@1 is {pixels['val']:.2f} on 200 validation tiles per class" in results
    assert f"and {pixels['test']:.2f} on as many test tiles" in results
    for title, entry in (("MNIST", found["main"]["mnist"]), ("PathMNIST", found["main"]["pathmnist"])):
        first, *others = tables.rank(compared(entry))
        tied = [row.method for row in others if not tables.difference(row, first).is_clear]
        verdict = (
            f"is first, statistically tied with {in_a_row(tied)}"
            if tied
            else "is clearly ahead of all other methods"
        )
        assert f"On {title} `{first.method}` {verdict}." in results
        chances = [tables.ttest_rel(first.values["recall@1"], r.values["recall@1"]).pvalue for r in others]
        behind = [r.method for r, p in zip(others, tables.holm(chances), strict=True) if p < 0.05]
        verb = "is" if len(behind) == 1 else "are"
        assert f"On {title} {in_a_row(behind)} {verb} clearly behind after Holm's correction." in results


def lead_over(entry, control):
    """Return BUNCA's lead over a control."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import tables

    rows = {row.method: row for row in tables.rows_of(entry)}
    return tables.difference(rows["bunca"], rows[control])


def compared(entry):
    """Return the rows of a table but for the controls."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import tables

    return [row for row in tables.rows_of(entry) if not METHODS[row.method].control]


def in_a_row(names):
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def test_the_long_training_that_counts_is_the_best_by_validation():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import tables

    runs = json.loads((tables.RESULTS / "long.json").read_text())
    results = read_results()
    digits = {name: run for name, run in runs.items() if name.startswith("mnist")}
    best = max(digits, key=lambda name: digits[name]["validation"])
    found = digits[best]["test"]["recall@1"]
    short = best.partition(", ")[2]
    assert f"highest validation figure, *{short}*, finds **{found:.2f}**: two test images fewer" in results
    assert round(100 * (99.5 - found)) == 2
    highest = max(run["test"]["recall@1"] for run in digits.values())
    earlier = max((run for name, run in digits.items() if name != best), key=lambda run: run["validation"])
    assert f"the one that found {highest:.2f}" in results
    assert f"validation would have chosen {earlier['test']['recall@1']:.2f}" in results
    assert f"the one training finds {runs['pathmnist']['test']['recall@1']:.2f}" in results


def test_the_verdicts_on_the_ablations_are_those_of_the_figures():
    """Sentences beside the tables of what each part is worth."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import ablation
    import tables
    from ablation_tables import gap

    settings = json.loads((tables.RESULTS / "ablation.json").read_text())["settings"]
    validation = json.loads((tables.RESULTS / "ablation-validation.json").read_text())["settings"]
    results = read_results()
    whole, off_sphere = "whole", "not normalised, so without spread"
    sequence = [settings["classes in sequence"][group] for group in ablation.DEFAULT]
    changes = [gap(rows[row], rows[whole]) for rows in sequence for row in rows if row != whole]
    assert all(change.value > 0 for change in changes)
    clear = sum(change.is_clear for change in changes)
    assert f"has a higher mean, {clear} of {len(changes)} clearly" in results
    but, bunca = (np.mean(rows[off_sphere]) for rows in sequence)
    assert f"It found {bunca:.2f} in the [ablation]" in results
    assert f"and BUT off the sphere {but:.2f}." in results
    for found in (settings, validation):  # the sphere by itself
        for name in found.keys() & {"mnist", "pathmnist", "10 items per class"}:
            but, bunca = (
                gap(found[name][group]["spread 0"], found[name][group][off_sphere])
                for group in ablation.DEFAULT
            )
            assert not but.is_clear
            assert bunca.is_clear
            assert bunca.value > 0
    cases = {(name, group): rows[group] for name, rows in settings.items() for group in ablation.DEFAULT}
    assert len(cases) == 20
    vertices, means = (
        {case: gap(rows[row], rows[whole]) for case, rows in cases.items()}
        for row in ("spread 1, noise 0: vertices alone", "spread 0")
    )
    clear = [case for case, change in vertices.items() if change.is_clear]
    assert clear == [("one item per class in a batch", "default BUT")]
    assert vertices[clear[0]].value < 0
    assert "In 19 of 20 cases they find as much as the whole recipe" in results
    worse = sum(change.is_clear and change.value < 0 for change in means.values())
    better = [case for case, change in means.items() if change.is_clear and change.value > 0]
    assert better == [("classes in sequence", "default BUT")]
    assert f"clearly worse in {worse} of 20 cases and clearly better in one, BUT with classes" in results
    regimes = json.loads((tables.RESULTS / "quality.json").read_text())["regimes"]["30% wrong labels"]
    (searched,) = (row for row in tables.rows_of(regimes) if row.method == "bunca")
    ours = np.mean(cases["30% wrong labels", "default BUNCA"][whole])
    assert f"default BUNCA finds {ours:.2f} here, more than" in results
    assert f"for the table of regimes ({searched.mean('recall@1'):.2f})" in results


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


def test_the_layers_are_those_that_are_enforced():
    rows = re.findall(r"^\| (`[a-z`, ]+`) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert [set(re.findall(r"\w+", row)) for row in rows] == LAYERS


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


def section(text, title):
    """The part of a document below a heading that begins with a title, up to the next such heading."""
    found = re.search(rf"^(#+) {title}\b.*?(?=^\1 |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no section {title}"
    return found.group()


def test_every_option_is_in_the_section_of_its_command():
    text = (ROOT / "docs" / "cli.md").read_text()
    for name, options in commands(typer.main.get_command(app)):
        part = section(text, " ".join(name))
        if name == ("compare",):
            assert "All options of `train` are options of `compare` too" in part
            part += section(text, "train")
        for option in options:
            assert option == "--help" or f"`{option}`" in part, f"{' '.join(name)} {option}"


def test_the_table_of_methods_is_that_of_the_code():
    part = section((ROOT / "docs" / "cli.md").read_text(), "train")
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if re.match(r"\| `[a-z-]+` \|", line)]
    shown = {cells[0].strip("`"): cells[1:] for cells in rows if len(cells) == 7}
    assert list(shown) == list(METHODS)
    for name, (what, option, default, paper, learned, needs) in shown.items():
        method = METHODS[name]
        assert what == method.what
        assert {option.strip("`-"): float(default)} == method.default
        assert {option.strip("`-"): float(paper)} == method.paper
        assert learned == (method.learned or "none")
        assert needs == ("yes" if method.needs_positives else "no")


@pytest.mark.parametrize(
    "path",
    [
        *(ROOT / name for name in ("README.md", "docs/cli.md", "docs/service.md", "docs/teach.md")),
        *sorted((ROOT / "docs" / "guides").glob("*.md")),
    ],
    ids=lambda p: p.name,
)
def test_every_documented_command_exists_with_its_options(path):
    known = dict(commands(typer.main.get_command(app)))
    shown = [
        line for block in blocks(path, "console") for line in block.splitlines() if "bayestriplet" in line
    ]
    shown = [line.split("#")[0].split() for line in shown if re.match(r"\$ |  ?\S*bayestriplet ", line)]
    assert shown
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


@pytest.mark.parametrize("name", ["folder", "search", "compare"])
def test_the_output_that_a_guide_explains_is_that_of_the_documents(name):
    shown = "".join(blocks(ROOT / "docs" / "guides" / f"{name}.md", "text"))
    known = (ROOT / "README.md").read_text() + (ROOT / "docs" / "cli.md").read_text()
    figures = [line for line in shown.splitlines() if re.search(r"\d\.\d", line)]
    assert len(figures) >= 3
    assert [line for line in figures if line not in known] == []


SHORT = ["--max-steps", "40", "--validate-every", "20", "--dim", "8"]


def run_commands(block, small=()):
    """Run the commands of a block that end by themselves, trainings with fewer steps; return their words."""
    said = []
    for line in block.splitlines():
        words = line.removeprefix("$ bayestriplet ").split()
        if words[0] == "serve":
            continue
        more = [*SHORT, *small] if words[0] == "train" else []
        done = CliRunner().invoke(app, words + more)
        assert done.exit_code == 0, f"{line}: {done.output}{done.exception}"
        said.append(done.output)
    return said


def test_the_documented_commands_about_vectors_run(tmp_path, monkeypatch):
    (block,) = blocks(ROOT / "docs" / "guides" / "vectors.md", "console")
    write_npz(tmp_path / "birds.npz")
    monkeypatch.chdir(tmp_path)
    assert run_commands(block)[-1].startswith("birds/7: zero, ")


@pytest.mark.parametrize("name", ["folder", "search", "unseen"])
def test_the_commands_of_a_guide_run(tmp_path, monkeypatch, name):
    block = blocks(ROOT / "docs" / "guides" / f"{name}.md", "console")[0]
    counts = {f"species {i}": 6 for i in range(36)} if name == "unseen" else {"cat": 15, "dog": 15, "owl": 15}
    make_folder(tmp_path / "photos", counts)
    save_picture(tmp_path / "query.png")
    monkeypatch.chdir(tmp_path)
    if "train" not in block:
        run_commands("train photos --out runs/first", small=["--size", "8", "--width", "0.25"])
    said = run_commands(block, small=["--size", "8", "--width", "0.25"])
    if name == "unseen":
        assert "intervals resample classes" in said[-1]
        assert "5-way" in said[-1] or "5 classes" in said[-1]
    else:
        assert (tmp_path / "answer.png").exists()
