"""Checks how documents read: ``python tests/prose.py`` names long sentences, and words to avoid."""

import re
import sys
import textwrap
from pathlib import Path

MOST_WORDS = 25  # of a sentence
MOST_LINES = 5  # of a paragraph, as written and at this width
WIDTH = 120
MOST_LINES_IN_ALL = 120  # of the README
ROOT = Path(__file__).parent.parent
AVOID = {
    "not clearly behind": "statistically tied",
    "items a class": "items per class",
    "told": "known, or named",
}


def documents() -> list[Path]:
    """Return the documents that are checked: the README and docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def faults(text: str, most_lines: int | None = MOST_LINES_IN_ALL) -> list[str]:
    """Return what is wrong with a document, a line for each."""
    number = len(text.splitlines())
    found = [f"{number} lines; at most {most_lines}"] if most_lines and number > most_lines else []
    for paragraph in paragraphs(text):
        if max(paragraph.count("\n") + 1, len(textwrap.wrap(paragraph, WIDTH))) > MOST_LINES:
            found.append(f"a paragraph of over {MOST_LINES} lines: {_begin(paragraph)}")
        for sentence in re.split(r"(?<=[.!?:])\s+", _plain(paragraph)):
            if len(sentence.split()) > MOST_WORDS:
                found.append(f"a sentence of {len(sentence.split())} words: {_begin(sentence)}")
    for part in [*paragraphs(text), *tables(text)]:
        for words, better in AVOID.items():
            if re.search(rf"\b{words}\b", part):
                found.append(f"{words!r}, in place of {better!r}: {_begin(part)}")
    return found


def tables(text: str) -> list[str]:
    """Return the rows of all tables, those that a program has written included."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for line in text.splitlines() if line.lstrip().startswith("|")]


def paragraphs(text: str) -> list[str]:
    """Return the prose of a document, each point of a list by itself.

    No code, formulas, tables, headings, pictures or comments, and nothing that a program has written.
    """
    text = re.sub(r"^(```|\$\$).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^<!-- [a-z ]+ -->$.*?^<!-- end -->$", "", text, flags=re.DOTALL | re.MULTILINE)
    kept = [line for line in text.splitlines() if not line.lstrip().startswith(("|", "#", "<!--", "!["))]
    return [part for part in re.split(r"\n\s*\n|\n(?=(?:-|\d+\.) )", "\n".join(kept)) if part.strip()]


def _plain(paragraph: str) -> str:
    """Return a paragraph with the targets of its links left out, and each formula as one word."""
    return re.sub(r"\$[^$]+\$", "x", re.sub(r"\]\([^)]*\)", "]", paragraph))


def _begin(text: str) -> str:
    return " ".join(text.split())[:70]


def main() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in documents()
        for fault in faults(path.read_text("utf-8"), MOST_LINES_IN_ALL if path.name == "README.md" else None)
    ]
    print("\n".join(wrong), end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
