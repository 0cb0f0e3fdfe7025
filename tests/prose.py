"""Checks how documents read: ``python tests/prose.py README.md`` names long sentences, and words to avoid."""

import re
import sys
from pathlib import Path

MOST_WORDS = 25  # of a sentence
MOST_LINES = 5  # of a paragraph
MOST_LINES_IN_ALL = 120
AVOID = {
    "not clearly behind": "statistically tied",
    "items a class": "items per class",
    "told": "known, or named",
}


def faults(text: str) -> list[str]:
    """Return what is wrong with a document, a line for each."""
    lines = text.splitlines()
    found = [f"{len(lines)} lines; at most {MOST_LINES_IN_ALL}"] if len(lines) > MOST_LINES_IN_ALL else []
    for paragraph in paragraphs(text):
        if paragraph.count("\n") >= MOST_LINES:
            found.append(f"a paragraph of over {MOST_LINES} lines: {_begin(paragraph)}")
        for sentence in re.split(r"(?<=[.!?:])\s+", _plain(paragraph)):
            if len(sentence.split()) > MOST_WORDS:
                found.append(f"a sentence of {len(sentence.split())} words: {_begin(sentence)}")
        for words, better in AVOID.items():
            if re.search(rf"\b{words}\b", paragraph):
                found.append(f"{words!r}, in place of {better!r}: {_begin(paragraph)}")
    return found


def paragraphs(text: str) -> list[str]:
    """Return the prose of a document: no code, tables, headings, pictures or comments."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    kept = [line for line in text.splitlines() if not line.lstrip().startswith(("|", "#", "<!--", "!["))]
    return [part for part in re.split(r"\n\s*\n", "\n".join(kept)) if part.strip()]


def _plain(paragraph: str) -> str:
    """Return a paragraph with the targets of its links left out."""
    return re.sub(r"\]\([^)]*\)", "]", paragraph)


def _begin(text: str) -> str:
    return " ".join(text.split())[:70]


def main() -> None:
    wrong = [f"{name}: {fault}" for name in sys.argv[1:] for fault in faults(Path(name).read_text("utf-8"))]
    print("\n".join(wrong), end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
