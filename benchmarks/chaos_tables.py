"""The table of docs/reliability.md, from the figures of ``make chaos``: promised, found, and if it holds."""

from typing import Any

NUMBERS = {
    "float32": "float32 without forgetting",
    "float32_with_memory": "float32 with a memory of 50",
    "float64": "float64",
}
BEGIN, END = "<!-- chaos -->", "<!-- end -->"
Row = tuple[str, str, bool]


def killed_rows(found: dict[str, Any]) -> list[Row]:
    equal, killed = found["trainings_equal"], found["trainings_killed"]
    indexers, compared = found["indexers"], found["comparisons"]
    return [
        ("Trainings killed at random moments end as the undisturbed one", f"{equal} of {killed}",
         equal == killed >= 20),
        ("Killed indexers leave a whole index, old or new", f"{indexers['kills'] - indexers['wrong']} of "
         f"{indexers['kills']}", not indexers["wrong"]),
        (f"A comparison killed {compared['kills']} times has the results of an undisturbed one",
         "equal" if compared["tables_equal"] and compared["runs_equal"] else "different",
         compared["tables_equal"] and compared["runs_equal"]),
        *_file_rows(found),
    ]  # fmt: skip


def _file_rows(found: dict[str, Any]) -> list[Row]:
    taught, features, fetched = found["teaching"], found["features"], found["downloads"]
    return [
        ("Killed `teach` has taught all or nothing", f"{taught['kills'] - taught['wrong']} of "
         f"{taught['kills']}", not taught["wrong"]),
        (f"Features killed {features['kills']} times, {features['half_done']} times half done",
         "equal" if features["equal"] else "different", features["equal"]),
        ("Killed downloads leave a whole file or none", f"{fetched['kills'] - fetched['wrong']} of "
         f"{fetched['kills']}", not fetched["wrong"]),
    ]  # fmt: skip


def scarce_rows(found: dict[str, Any]) -> list[Row]:
    disks = [one for one in found.get("small_disks", ()) if one["line"]]
    went_on = sum(one["then"] == "went on" for one in disks)
    lines = [*found.get("read_only", {}).values(), found["killed_worker"], found["vanished_image"]]
    said = (
        f"{len(disks)} of {len(found.get('small_disks', ()))} filled up, all with one line; {went_on} went on"
    )
    return [
        ("A disk that fills up is one line, and what was kept goes on", said, bool(disks)),
        ("Read-only folders, a killed data worker and a vanished image are one line", f"{len(lines)} cases",
         bool(found["mounts"])),
    ]  # fmt: skip


def hostile_rows(found: dict[str, Any]) -> list[Row]:
    number, defects = found["mutations"], len(found["defects"])
    believed = found["found"].get("believed", 0)
    return [
        ("Damaged files without a traceback, a hang or code that runs", f"{number - defects:,} of {number:,}",
         not defects),
        ("Damaged files with a checksum that were believed", f"{believed}", not believed),
        ("Messages of a database's own about a crash inside of it", f"{found['panics_on_stderr']}",
         not found["panics_on_stderr"]),
        ("Largest process, at most 2,000 MB", f"{found['peak_megabytes']:,} MB",
         found["peak_megabytes"] <= 2000),
    ]  # fmt: skip


def served_rows(found: dict[str, Any]) -> list[Row]:
    load, described, again = found["load"], found["description"], found["reindex"]
    wrong = load["wrong_answers"] + load["wrong_after"]
    lessons = load.get("lessons", 0)
    who = f"{load['clients']} clients, {lessons} lessons and {load['idle_connections']} idle connections"
    return [
        (f"Errors of {who} in {load['seconds_of_load']} s, {load['reindexed']} reindexes meanwhile",
         f"{load['errors']} of {load['answers']:,}", not load["errors"] and lessons > 0),
        (f"Answers that are not those computed offline, {load.get('answers_of_taught_run', 0):,} of them of a"
         " taught run", f"{wrong} of {load['searches']:,}", not wrong and lessons > 0),
        *_times(load, "99th percentile, at most 5 medians"),
        ("Longest time in which clients waited and none was answered, at most 200 ms",
         f"{load['longest_pause_milliseconds']:,.0f} ms", load["longest_pause_milliseconds"] <= 200),
        *([] if "without_pauses" not in found else
          _times(found["without_pauses"], "99th percentile where all ask again at once, at most 5 medians")),
        ("Growth of memory after warm-up, below 5%", f"{100 * load['memory_growth']:.1f}%",
         load["memory_growth"] < 0.05),
        ("Requests by the OpenAPI that are answered otherwise than described",
         f"{described['problems']} of {described['cases']:,}", not described["problems"]),
        (f"Longest answer while an index grows to {again['items']:,} items, at most 200 ms",
         f"{again['longest_milliseconds']:,.0f} ms", again["longest_milliseconds"] <= 200),
    ]  # fmt: skip


def _times(found: dict[str, Any], what: str) -> list[Row]:
    median, p99 = found["median_milliseconds"], found["p99_milliseconds"]
    said = f"{found['p99_over_median']:.1f} medians: {p99:,.0f} ms, median {median:,.0f} ms"
    return [(what, said, found["p99_over_median"] <= 5)]


def together_rows(found: dict[str, Any]) -> list[Row]:
    one, compared, indexers = found["trainings"], found["comparisons"], found["indexers"]
    right = sum(pair["codes"] == [0, 1] and pair["named"] for pair in compared)
    trained = one["named"] and one["refused"] and one["taken_over"] and not one["rows_twice"]
    return [
        ("A second training is refused by the name of the first; a dead one's lock is taken over",
         "yes" if trained else "no", trained),
        ("Of two comparisons in one folder one finishes and one names the other",
         f"{right} of {len(compared)}", right == len(compared)),
        ("Two indexers at once leave every item once", f"{indexers['rounds'] - indexers['wrong']} of "
         f"{indexers['rounds']}", not indexers["wrong"]),
    ]  # fmt: skip


def numbers_rows(found: dict[str, Any]) -> list[Row]:
    out = []
    for key, what in NUMBERS.items():
        one = found[key]
        worst = max(one["mean"], one["scatter"])
        number = one.get("updates", found["updates"])
        out.append(
            (f"Relative error after {number:,} updates, {what}, below 1e-6", f"{worst:.1e}", worst < 1e-6)
        )
    return out


PARTS = {"killed": killed_rows, "scarce": scarce_rows, "hostile": hostile_rows, "served": served_rows,
         "together": together_rows, "numbers": numbers_rows}  # fmt: skip


def table(found: dict[str, Any]) -> str:
    """Return the table of every part that was measured; what was not is a row that says so."""
    lines = ["| promise | measured | holds | load before |", "|---|---|---|---|"]
    for part, rows in PARTS.items():
        if part not in found:
            lines.append(f"| {part} | not measured | no | |")
            continue
        load = f"{found[part]['load_before']:.1f}"
        lines += [f"| {what} | {value} | {'yes' if holds else '**no**'} | {load} |"
                  for what, value, holds in rows(found[part])]  # fmt: skip
    if "all" in found:
        minutes = found["all"]["minutes"]
        holds = "yes" if minutes < 30 else "**no**"
        lines.append(
            f"| All of this on {found['cores']} cores, below 30 minutes | {minutes} minutes | {holds} | |"
        )
    return "\n".join(lines)


def fill(text: str, found: dict[str, Any]) -> str:
    """Return a document with its table renewed."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table(found)}\n{END}{rest.partition(END)[2]}"
