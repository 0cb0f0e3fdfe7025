"""The tables of the documents, made from the committed figures and the table of methods.

A table stands between ``<!-- NAME -->`` and ``<!-- end -->``. ``python benchmarks/tables.py`` renews them;
a test checks that they are what the JSON says.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from ablation_tables import ablation_tables, bold, recipe_table
from overview import overview_table
from resampling import holm, in_words
from scipy.stats import ttest_rel
from teach_tables import teach_tables
from unseen_tables import few_shot_table, unseen_tables
from worth import Setting, settings_of, worth_figure, worth_table

from bayestriplet.evaluation.paired import Difference, Row, difference, rank, rows_of
from bayestriplet.methods import METHODS
from bayestriplet.report.figure import save_figure
from bayestriplet.report.methods_figures import learning_figure, regimes_figure
from bayestriplet.report.methods_table import (
    cells,
    floor_cells,
    leader,
    paper_recall,
    title_of,
    to_markdown,
)

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PICTURES = ROOT / "docs" / "images"
DOCUMENTS = (
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("results", "experiments", "method", "cli", "scale", "guides/unseen")
    ),
)
OURS = ("bunca", "but")
SECONDS = 7  # a column of ``cells`` that depends on what else the machine did


def methods_table(controls: bool = False) -> str:
    """Return the methods that are compared, or the controls, with their options and what they need."""
    heads = ("method", "what", "own option", "default", "paper", "learned parameters")
    table = [[*heads, "needs two items of a class in a batch"]]
    for name, method in METHODS.items():
        if method.control != controls:
            continue
        option = method.strength
        values = [f"{method.values(recipe)[option]:g}" for recipe in ("default", "paper")]
        needs = "yes" if method.needs_positives else "no"
        table.append([f"`{name}`", method.what, f"`--{option}`", *values, method.learned or "none", needs])
    return to_markdown(table)


def main_table(summary: dict[str, Any]) -> str:
    """Return the table of a main setting: nine methods, floors, the paper's figures."""
    table = [*cells(rows_of(summary), summary["data"]), *floor_cells(summary["floors"])]
    return to_markdown([row[:SECONDS] + row[SECONDS + 1 :] for row in table])


def summary_table(main: dict[str, Any]) -> str:
    """Return Recall@1 of all methods in the main settings beside the paper's, the best mean first."""
    settings = {data: {row.method: row for row in rows_of(summary)} for data, summary in main.items()}
    means = {
        method: float(np.mean([rows[method].mean("recall@1") for rows in settings.values()]))
        for method in next(iter(settings.values()))
        if all(method in rows for rows in settings.values())
    }
    best = {data: leader(list(rows.values())) for data, rows in settings.items()}
    table = [["method", *(cell for data in settings for cell in (f"{data} R@1", "paper"))]]
    for method in sorted(means, key=lambda name: -means[name]):
        cells_of = []
        for data, rows in settings.items():
            cells_of += [_recall_beside(rows[method], best[data]), paper_recall(method, data)]
        table.append([title_of(method), *cells_of])
    floors = {name for summary in main.values() for name in summary["floors"]}
    for name in sorted(floors):
        recalls = [f"{summary['floors'][name]['recall@1']:.2f}" for summary in main.values()]
        table.append([name, *(cell for recall in recalls for cell in (recall, ""))])
    return to_markdown(table)


def variations_table(main: dict[str, Any], other: dict[str, Any]) -> str:
    """Return Recall@1 of all methods with and without variations of the images, searched each time."""
    columns = {}
    for data in other:
        for summary in (main[data], other[data]):
            way = "as they are" if summary["settings"].get("augment") is False else "varied"
            columns[f"{data}, {way}"] = {row.method: row for row in rows_of(summary)}
    best = {name: leader(list(rows.values())) for name, rows in columns.items()}
    table = [["method", *columns]]
    for method in (name for name in next(iter(columns.values())) if all(name in c for c in columns.values())):
        table.append(
            [title_of(method), *(_recall_beside(rows[method], best[name]) for name, rows in columns.items())]
        )
    return to_markdown(table)


def search_table(main: dict[str, Any]) -> str:
    """Return how many runs the search of every method took, and how many of them broke down."""
    table = [["method", *(cell for data in main for cell in (f"{data}, runs", "broke down"))]]
    for method in next(iter(main.values()))["methods"]:
        cells_of: list[str] = []
        for summary in main.values():
            tried = [run["validation"] for run in summary["searched"].get(method, ())]
            cells_of += [str(len(tried)), str(tried.count(None))] if tried else ["", ""]
        table.append([title_of(method), *cells_of])
    return to_markdown(table)


def regime_table(regimes: dict[str, Any]) -> str:
    """Return who wins where: Recall@1 of each method, and our best less the best other, paired by seed."""
    methods = list(dict.fromkeys(method for summary in regimes.values() for method in summary["methods"]))
    table = [["regime", *map(title_of, methods), "ours - best other", "p", "first"]]
    chances = holm([p_value(rows_of(summary)) for summary in regimes.values()])
    for (name, summary), chance in zip(regimes.items(), chances, strict=True):
        rows = {row.method: row for row in rows_of(summary)}
        gap = lead(list(rows.values()))
        best = leader(list(rows.values())).method
        verdict = f"**{best}**" if gap.is_clear else f"{best}, tied"
        recalls = [_recall(rows[m]) if m in rows else "no positives" for m in methods]
        table.append([name, *recalls, f"{gap.value:+.2f}±{gap.half_width:.2f}", in_words(chance), verdict])
    floors = next(iter(regimes.values()))["floors"]
    untrained, pixels = (floors[name]["recall@1"] for name in ("untrained", "raw pixels"))
    return to_markdown(table) + (
        f"\nThe test items are the same in all of them: raw pixels find {pixels:.2f}, an untrained network "
        f"about {untrained:.0f}.\n"
    )


def lower_rate_table(regimes: dict[str, Any], slower: dict[str, Any]) -> str:
    """Return the regimes with the others at a lower rate too, and ours less the best other at either."""
    entries = {m: entry for summary in slower.values() for m, entry in summary["methods"].items()}
    heads = [f"{method}, lr {entry['chosen']['lr']:g}" for method, entry in entries.items()]
    table = [["regime", "ours", *heads, "best other at either rate", "ours - best other", "p"]]
    rows = {name: [*rows_of(regimes[name]), *rows_of(summary)] for name, summary in slower.items()}
    chances = holm([p_value(either) for either in rows.values()])
    for (name, summary), chance in zip(slower.items(), chances, strict=True):
        lower = {row.method: row for row in rows_of(summary)}
        ours, other = contenders(rows[name])
        best = f"{other.method} {_recall(other)}"
        recalls = [_recall(lower[method]) if method in lower else "no positives" for method in entries]
        gap = bold(difference(ours, other))
        table.append([name, f"{ours.method} {_recall(ours)}", *recalls, best, gap, in_words(chance)])
    return to_markdown(table)


def _recall(row: Row) -> str:
    return f"{row.mean('recall@1'):.2f}±{row.half_width('recall@1'):.2f}"


def _recall_beside(row: Row, best: Row) -> str:
    """Return the recall, in bold where it is statistically tied with the best."""
    return _recall(row) if difference(row, best).is_clear else f"**{_recall(row)}**"


def contenders(rows: list[Row]) -> tuple[Row, Row]:
    """Return our best method and the best other one; controls are neither."""
    ranked = [row for row in rank(rows) if not METHODS[row.method].control]
    ours = next(row for row in ranked if row.method in OURS)
    return ours, next(row for row in ranked if row.method not in OURS)


def lead(rows: list[Row]) -> Difference:
    """Return our best method less the best other one."""
    return difference(*contenders(rows))


def p_value(rows: list[Row]) -> float:
    """Return the two-sided p-value of a lead, paired by seed."""
    ours, other = contenders(rows)
    return float(ttest_rel(ours.values["recall@1"], other.values["recall@1"]).pvalue)


def long_table(runs: dict[str, Any]) -> str:
    """Return the long runs: one seed each, trained until they no longer improve."""
    heads = ("data", "method", "learning rate", "temperature", "steps", "validation R@1", "R@1", "R@4", "R@8")
    table = [[*heads, "R@16"]]
    for name, run in runs.items():
        chosen = [f"{run['options'][option]:g}" for option in ("lr", "temperature")]
        recalls = [f"{run['test'][f'recall@{k}']:.2f}" for k in (1, 4, 8, 16)]
        steps, validation = f"{run['steps']:,}", f"{run['validation']:.2f}"
        table.append([name, run["method"], *chosen, steps, validation, *recalls])
    return to_markdown(table)


def searching_table(searches: dict[str, Any]) -> str:
    """Return what a batch of queries costs beside raw FAISS, by the number of items."""
    about = (
        "**What it costs** (`make bench`, two cores). Batches of 100 queries for their ten nearest of "
        "so many vectors of 128 numbers, with all that is said of them, beside FAISS alone: its flat "
        "index for exact searches, HNSW with a recall of at least 0.99 for approximate ones, and the same "
        "cells over 1,000,000 vectors, where HNSW does not get there.\n\n"
    )
    table = [["items", "search", "ms", "raw FAISS, ms", "ratio", "recall@10", "MB in memory", "s to prepare"]]
    for number, kinds in searches.items():
        for kind, row in kinds.items():
            times = f"{row['milliseconds']:.1f}", f"{row['raw_milliseconds']:.1f}", f"{row['ratio']:.2f}"
            recall = f"{row['recall@10']:.4f}" if "recall@10" in row else "1"
            costs = f"{row['megabytes']:,.0f}", f"{row['prepared_seconds']:.0f}"
            table.append([f"{int(number):,}", kind, *times, recall, *costs])
    return about + to_markdown(table)


def indexing_table(encoders: dict[str, Any]) -> str:
    """Return the images a second of indexing beside those of the encoder alone."""
    about = (
        "Indexing of TIFF files beside the encoder alone. Files are decoded while the encoder works; a "
        "small encoder is faster than reading files can be on two cores, and waits for them.\n\n"
    )
    table = [["encoder", "indexing, images/s", "encoder alone, images/s", "share"]]
    for name, row in encoders.items():
        speeds = f"{row['images_per_second']:,.0f}", f"{row['encoder_images_per_second']:,.0f}"
        table.append([name, *speeds, f"{row['share_of_encoder']:.0%}"])
    return about + to_markdown(table)


def quality_tables(quality: dict[str, Any]) -> dict[str, str]:
    """Return the main tables, their summary and the regimes, as far as there are figures."""
    out = {name: main_table(summary) for name, summary in quality["main"].items()}
    out["summary"] = summary_table(quality["main"])
    if quality["regimes"]:
        out["regimes"] = regime_table(quality["regimes"])
    if quality["lower rate"]:
        out["lower rate"] = lower_rate_table(quality["regimes"], quality["lower rate"])
    if quality["other way"]:
        out["variations"] = variations_table(quality["main"], quality["other way"])
    if all(summary["searched"] for summary in quality["main"].values()):
        out["search"] = search_table(quality["main"])
    return out


def pretrained_tables(found: dict[str, Any]) -> dict[str, str]:
    """Return what heads on frozen features find of a few hundred photographs, beside what else there is."""
    if "methods" not in found:
        return {}
    heads = ("embedding", "R@1 against the training items", "R@1 among the test items")
    against = {
        name: Row(name, {"recall@1": tuple(seeds[seed] for seed in sorted(seeds))}, 0.0, {})
        for name, seeds in found["methods"]["against"].items()
    }
    among = {row.method: row for row in rows_of(found["methods"])}
    trained = [against[method] for method in among]
    best, best_among = leader(trained), leader(list(among.values()))
    table = [[*heads]]
    for row in rank(trained):
        cells_of = _recall_beside(row, best), _recall_beside(among[row.method], best_among)
        table.append([f"{title_of(row.method)}, linear head", *cells_of])
    for name, scores in found["methods"]["floors"].items():
        table.append([name, f"{against[name].mean('recall@1'):.2f}", f"{scores['recall@1']:.2f}"])
    for name, run in found.get("scratch", {}).items():
        title = f"from scratch, {name}, {run['minutes']:.0f} minutes of a core, {run['steps']:,} steps"
        table.append([title, f"{run['against']:.2f}", f"{run['among']:.2f}"])
    out = {"pretrained": to_markdown(table)}
    return out | ({"pretrained speed": _speed_of_features(found["speed"])} if "speed" in found else {})


def _speed_of_features(speed: dict[str, float]) -> str:
    table = [
        ["what", "measured"],
        ["features with decoding, images/s", f"{speed['features_images_per_second']:.1f}"],
        ["the network alone, images/s", f"{speed['network_images_per_second']:.1f}"],
        ["share of the network's speed", f"{speed['ratio']:.0%}"],
        [f"features of {speed['images']:,} images the second time, s", f"{speed['second_run_seconds']:.2f}"],
        [f"training the head, {speed['head_steps']:,} steps, s", f"{speed['head_seconds']:.1f}"],
    ]
    return to_markdown(table)


def scale_table(found: dict[str, Any]) -> str:
    """Return what a step costs by the number of classes, and the peak memory of a process."""
    random, fixed = found["random batches"], found["64 fixed classes"]
    keys = ("milliseconds", "times_100", "slowest_over_median")
    heads = ("classes", "structure", "random, ms", "times that of 100", "slowest / median")
    table = [[*heads, "fixed, ms", "times that of 100", "slowest / median", "peak memory, MB"]]
    for classes, memory in found["memory"].items():
        cells_of = [f"{int(classes):,}"]
        if classes in random:
            cells_of.append(str(random[classes]["structure"]))
            for row in (random[classes], fixed[classes]):
                cells_of += [f"{row[key]:.2f}" for key in keys]
        else:
            cells_of += [str(memory["structure"]), f"{memory['milliseconds']:.0f}", *[""] * 5]
        table.append([*cells_of, f"{memory['megabytes']:,.0f}"])
    beside = found["times_batch_hard"]
    small, large, blocks = (beside[name] for name in ("b50_k10", "b512_k100", "b50_k10_blocks"))
    text = (
        "\nBeside batch-hard, as pytorch-metric-learning has it, a step of BUNCA takes "
        f"{small['median']:.2f} times as long with 50 items of 10 classes, and {large['median']:.2f} times "
        "with 512 items of 100 classes. Single steps of the two take turns; these are medians of seven "
        f"processes, which span {small['least']:.2f} to {small['most']:.2f} for the small batch. "
        f"In blocks of 50 steps the small batch takes {blocks['median']:.2f} times as long.\n"
        f"A training step of a network at a quarter of its width on 1,200 classes of glyphs takes "
        f"{found['end_to_end']['ratio']:.2f} times as long as with batch-hard, "
        "from reading images to the optimiser.\n"
    )
    return to_markdown(table) + text + (_run_of_many(found["run"]) if "run" in found else "")


def _run_of_many(run: dict[str, float]) -> str:
    return (
        f"Such a run on {run['classes']:,} classes takes {run['megabytes']:.0f} MB on the disk. "
        f"`evaluate` takes {run['evaluate_seconds']:.0f} s and `figures` {run['figures_seconds']:.0f} s.\n"
    )


def many_classes_table(found: dict[str, Any]) -> str:
    """Return Recall@1 of steps that touch only what they need, beside what it was before."""
    table = [["what", "before, or all classes in full", "now", "difference"]]
    for name, row in found.items():
        gap = f"{row['difference']:+.2f}±{row['half_width']:.2f}"
        table.append([name, f"{row['old']:.2f}", f"{row['new']:.2f}", gap])
    return to_markdown(table)


def blocks() -> dict[str, str]:
    """Return every table that there are figures for, by name."""
    out = {"methods": methods_table(), "controls": methods_table(controls=True)}
    if (path := RESULTS / "quality.json").is_file():
        out |= quality_tables(json.loads(path.read_text(encoding="utf-8")))
    if (path := RESULTS / "ablation.json").is_file():
        settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
        out |= ablation_tables(settings) if "mnist" in settings else {}
    if (path := RESULTS / "ablation-validation.json").is_file():
        out["ablation validation"] = recipe_table(json.loads(path.read_text(encoding="utf-8"))["settings"])
    if (path := RESULTS / "long.json").is_file():
        out["long"] = long_table(json.loads(path.read_text(encoding="utf-8")))
    if (path := RESULTS / "scale.json").is_file():
        out["scale"] = scale_table(json.loads(path.read_text(encoding="utf-8")))
    if (path := RESULTS / "many_classes.json").is_file():
        out["many classes"] = many_classes_table(json.loads(path.read_text(encoding="utf-8")))
    if (path := RESULTS / "pretrained.json").is_file():
        out |= pretrained_tables(json.loads(path.read_text(encoding="utf-8")))
    if (path := RESULTS / "unseen.json").is_file():
        out |= unseen_tables(json.loads(path.read_text(encoding="utf-8")))
    if (path := RESULTS / "few_shot.json").is_file():
        out["few shot"] = few_shot_table(json.loads(path.read_text(encoding="utf-8")))
    if (path := RESULTS / "teach.json").is_file():
        out |= teach_tables(json.loads(path.read_text(encoding="utf-8")))
    if (path := RESULTS / "search.json").is_file():
        search = json.loads(path.read_text(encoding="utf-8"))
        out["searching"] = searching_table(search.get("search", {}))
        out["indexing"] = indexing_table(search.get("indexing", {}))
    if settings := settings_with_controls():
        out["worth"] = worth_table(settings)
    of_overview = [RESULTS / f"{name}.json" for name in ("quality", "pretrained", "teach", "unseen")]
    if all(path.is_file() for path in of_overview[:3]):
        out["overview"] = overview_table(
            *(json.loads(path.read_text(encoding="utf-8")) for path in of_overview if path.is_file())
        )
    return out


def settings_with_controls() -> list[Setting]:
    """Return every setting in which BUNCA was measured beside its controls, if all three files are there."""
    files = [RESULTS / f"{name}.json" for name in ("quality", "pretrained", "unseen")]
    if not all(path.is_file() for path in files):
        return []
    return settings_of(*(json.loads(path.read_text(encoding="utf-8")) for path in files))


def fill(text: str, tables: dict[str, str]) -> str:
    """Return a document with its tables renewed."""

    def renew(match: re.Match[str]) -> str:
        name = match.group(1)
        return f"<!-- {name} -->\n{tables[name]}<!-- end -->" if name in tables else match.group(0)

    return re.sub(r"<!-- ([a-z ]+) -->\n(?:.*?\n)??<!-- end -->", renew, text, flags=re.DOTALL)


def draw_pictures(folder: Path = PICTURES) -> None:
    """Draw the pictures of docs/results.md and docs/experiments.md."""
    if settings := settings_with_controls():
        save_figure(worth_figure(settings), folder / "worth.png")
    path = RESULTS / "quality.json"
    if not path.is_file():
        return
    quality = json.loads(path.read_text(encoding="utf-8"))
    if quality["regimes"]:
        regimes = {name: rows_of(summary) for name, summary in quality["regimes"].items()}
        save_figure(regimes_figure(regimes), folder / "regimes.png")
    if "curves" in quality:  # of PathMNIST alone
        save_figure(learning_figure(quality["curves"], seconds=False), folder / "learning.png")


def fill_documents() -> None:
    """Renew the tables and pictures of all documents."""
    draw_pictures()
    for path in DOCUMENTS:
        if path.is_file():
            path.write_text(fill(path.read_text(encoding="utf-8"), blocks()), encoding="utf-8")


if __name__ == "__main__":
    fill_documents()
