"""What MkDocs does not do by itself: pages made from the README and the code, and formulas."""

import logging
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

from commands import write_commands
from formulas import draw_formulas
from names import write_names

ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./)+(?:benchmarks|examples|LICENSE)[^)]*\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made: the start, the commands and the names."""
    pages = {
        "index.md": read_start(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        "contributing.md": within_docs((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")),
        "reference/commands.md": write_commands(),
        "reference/api.md": write_names(),
    }
    logging.getLogger("markdown").setLevel(logging.WARNING)
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def read_start() -> str:
    """Return the README as a page of the site."""
    text = within_docs((ROOT / "README.md").read_text(encoding="utf-8"))
    return text.replace("](CHANGELOG.md)", "](changelog.md)").replace(
        "](CONTRIBUTING.md)", "](contributing.md)"
    )


def within_docs(text: str) -> str:
    """Return a document of the root folder with the links that a page of the site has."""
    return re.sub(r"\]\((?:docs/)([^)]+)\)", r"](\1)", text)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Name files of the repository that are not part of the site, without a link."""
    return OUTSIDE.sub(r"\1", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Draw the formulas."""
    return draw_formulas(html)
