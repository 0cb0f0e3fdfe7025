"""What class distributions are worth, setting by setting: BUNCA beside its controls and the best baseline."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from resampling import Interval
from unseen_tables import compare_with

from bayestriplet.evaluation.paired import Row, difference, rank, rows_of
from bayestriplet.methods import METHODS
from bayestriplet.report.figure import new_figure
from bayestriplet.report.methods_table import title_of, to_markdown
from bayestriplet.report.style import INK, NORMAL, SMALL, import_drawing, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CANDIDATE = "bunca"
OURS = ("bunca", "but")
CONTROLS = tuple(name for name, method in METHODS.items() if method.control)
BASELINE = "best baseline"
UNSEEN = {
    "omniglot": "Omniglot, unseen characters",
    "cub": "CUB, unseen bird species",
    "parity": "MNIST trained on parity, digits asked for",
    "tissues": "PathMNIST trained on groups, tissues asked for",
}
TRAINED = {"mnist": "MNIST, trained digits", "pathmnist": "PathMNIST, trained tissues"}
PHOTOGRAPHS = "photographs of 20 trained bird species"
HEADS = (
    "setting", "first", "statistically tied", "less vertices only", "less class means only",
    "less the rule without noise",
)  # fmt: skip
COLOURS = {"vertices": "#003F66", "means": "#7A8FB8", "no-noise": "#3E8E8E", BASELINE: "#D55E00"}
TICKS = (-20, -5, -2, -1, 0, 1, 2, 5, 20)


@dataclass(frozen=True)
class Setting:
    """A table of Recall@1: its best method, those tied with it, and what the candidate is ahead of."""

    name: str
    first: str
    tied: tuple[str, ...]
    leads: dict[str, Interval]


def settings_of(quality: dict[str, Any], pretrained: dict[str, Any], unseen: dict[str, Any]) -> list[Setting]:
    """Return the settings with figures of all methods and controls, classes never trained on first."""
    return [*_of_unseen(unseen), *_of_trained(quality, pretrained)]


def _of_unseen(found: dict[str, Any]) -> Iterator[Setting]:
    for name, title in UNSEEN.items():
        part = found.get("parts", {}).get(name, {})
        if part.get("methods", {}).keys() != METHODS.keys():
            continue  # not measured, or under way
        values, gaps = compare_with(part, CANDIDATE)
        ranked = sorted((m for m in values if not METHODS[m].control), key=lambda m: -values[m].value)
        of_first = compare_with(part, ranked[0])[1]
        tied = tuple(m for m in ranked[1:] if not of_first[m].is_clear)
        other = next(m for m in ranked if m not in OURS)
        leads = {
            key: Interval(-gaps[m].value, -gaps[m].high, -gaps[m].low)
            for key, m in {**{c: c for c in CONTROLS}, BASELINE: other}.items()
        }
        yield Setting(title, ranked[0], tied, leads)


def _of_trained(quality: dict[str, Any], pretrained: dict[str, Any]) -> Iterator[Setting]:
    against = pretrained.get("methods", {}).get("against", {})
    photographs = [
        Row(name, {"recall@1": tuple(seeds[seed] for seed in sorted(seeds))}, 0.0, {})
        for name, seeds in against.items()
        if name in METHODS
    ]
    tables = {TRAINED[name]: rows_of(summary) for name, summary in quality["main"].items()}
    tables |= {PHOTOGRAPHS: photographs}
    tables |= {f"MNIST, {name}": rows_of(summary) for name, summary in quality["regimes"].items()}
    for name, rows in tables.items():
        if set(CONTROLS) <= {row.method for row in rows}:
            yield _of_rows(name, rows)


def _of_rows(name: str, rows: list[Row]) -> Setting:
    by_name = {row.method: row for row in rows}
    first, *others = (row for row in rank(rows) if not METHODS[row.method].control)
    tied = tuple(row.method for row in others if not difference(row, first).is_clear)
    other = next(row for row in (first, *others) if row.method not in OURS)
    beside = {**{control: by_name[control] for control in CONTROLS}, BASELINE: other}
    gaps = {key: difference(by_name[CANDIDATE], row) for key, row in beside.items()}
    return Setting(
        name,
        first.method,
        tied,
        {
            key: Interval(gap.value, gap.value - gap.half_width, gap.value + gap.half_width)
            for key, gap in gaps.items()
        },
    )


def worth_table(settings: list[Setting]) -> str:
    """Return the best methods of every setting, and BUNCA less each of its controls."""
    table = [[*HEADS]]
    for one in settings:
        leads = [_in_words(one.leads[control]) for control in CONTROLS]
        table.append([one.name, title_of(one.first), ", ".join(one.tied) or "none", *leads])
    return to_markdown(table)


def _in_words(lead: Interval) -> str:
    text = f"{lead.value:+.2f} [{lead.low:+.2f}, {lead.high:+.2f}]"
    return f"**{text}**" if lead.is_clear else text


def worth_figure(settings: list[Setting]) -> "Figure":
    """Draw how far BUNCA is ahead of its controls and of the best baseline, setting by setting."""
    figure = new_figure(
        0.9 + 0.62 * len(settings),
        "BUNCA's Recall@1 less that of its controls and of the best baseline, in points",
        "Right of 0: BUNCA finds more. Bars: 95% intervals. Hollow: it holds 0, so statistically tied. "
        "The scale is logarithmic beyond 1 point.",
    )
    axes = figure.subplots()
    for place, one in enumerate(reversed(settings)):
        for line, (key, lead) in enumerate(one.leads.items()):
            bars = [[lead.value - lead.low], [lead.high - lead.value]]
            style: dict[str, Any] = {
                "color": COLOURS[key],
                "marker": "D" if key == BASELINE else "o",
                "ms": 6,
            }
            fill = COLOURS[key] if lead.is_clear else "white"
            axes.errorbar(lead.value, place + 0.27 - 0.18 * line, xerr=bars, lw=1.4, mfc=fill, **style)
    axes.set_xscale("symlog", linthresh=1.0, linscale=1.2)
    ticks = import_drawing("matplotlib.ticker")
    axes.xaxis.set_major_locator(ticks.FixedLocator(TICKS))
    axes.xaxis.set_major_formatter(ticks.StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_locator(ticks.NullLocator())
    axes.set_yticks(range(len(settings)), [one.name for one in reversed(settings)])
    axes.set_ylim(-0.6, len(settings) - 0.4)
    axes.axvline(0, color=INK, lw=1)
    tidy(axes)
    axes.tick_params(axis="y", labelsize=NORMAL, colors=INK)
    for key, colour in COLOURS.items():
        title = METHODS[key].title if key in METHODS else key
        axes.plot([], [], ls="", marker="D" if key == BASELINE else "o", color=colour, label=f"less {title}")
    figure.legend(fontsize=SMALL, frameon=False, loc="outside lower center", ncols=4, columnspacing=1.2)
    return figure
