"""Small tables that users write: CSV files whose first line names the columns."""

import csv
import io
from pathlib import Path

from bayestriplet.errors import DataError

SEPARATORS = (",", ";", "\t")


def read_table(
    source: Path, needed: tuple[str, ...], layout: str
) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Return the columns of a CSV file, and every row with its line; values are stripped, missing ones empty.

    Columns are separated by commas, semicolons or tabs. ``layout`` says which ones there may be.
    """
    try:
        with source.open(newline="", encoding="utf-8-sig") as file:
            text = file.read()
        separator, columns = _read_header(text, needed)
        if missing := [name for name in needed if name not in columns]:
            raise DataError(
                f"{source} lacks the column {' and '.join(missing)}; its first line must name {layout}, "
                f"separated by commas, semicolons or tabs"
            )
        reader = csv.DictReader(_lines(text), columns, restval="", skipinitialspace=True, delimiter=separator)
        next(reader)  # the header, as columns are given
        rows = [(reader.line_num, {name: values[name].strip() for name in columns}) for values in reader]
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{source} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except csv.Error as error:
        raise DataError(f"{source} cannot be read as CSV: {error}") from error
    return columns, rows


def _lines(text: str) -> io.StringIO:
    return io.StringIO(text, newline="")


def _read_header(text: str, needed: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the separator that gives most of the needed columns (commas before others), and all columns."""
    found = {}
    for separator in SEPARATORS:
        header = next(csv.reader(_lines(text), skipinitialspace=True, delimiter=separator), [])
        found[separator] = [name.strip() for name in header]
    best = max(found, key=lambda separator: len(set(needed) & set(found[separator])))
    return best, found[best]
