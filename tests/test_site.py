"""The documentation site: built, complete, and free of anything from elsewhere."""

import html
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bayestriplet.cli.app import app

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "site"))

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="MkDocs is not installed: pip install '.[docs]'"
)


def build(folder, out):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def text_of(path):
    """Return the words of a page as a reader sees them."""
    return html.unescape(re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8")))


def test_every_document_is_a_page(site):
    made = {"index", "changelog", "contributing", "reference/commands", "reference/api"}
    documents = {str(path.relative_to(ROOT / "docs"))[:-3] for path in (ROOT / "docs").rglob("*.md")}
    pages = {str(path.relative_to(site))[:-5] for path in site.rglob("*.html")} - {"404"}
    assert pages == made | documents
    assert not list(site.rglob("*.py"))


def test_every_command_has_its_help_text(site):
    shown = text_of(site / "reference" / "commands.html")

    def names(command, prefix=()):
        for name, one in getattr(command, "commands", {}).items():
            yield from names(one, (*prefix, name)) if hasattr(one, "commands") else [(*prefix, name)]

    found = list(names(typer.main.get_command(app)))
    assert len(found) >= 15
    for words in found:
        size = {"COLUMNS": "100", "TERM": "dumb"}
        said = CliRunner().invoke(app, [*words, "--help"], env=size, prog_name="bayestriplet").output
        said = "\n".join(line.rstrip() for line in said.strip("\n").splitlines())
        assert said in shown, words


def test_every_public_name_has_its_place(site):
    from names import docstring_of, public_names

    page = (site / "reference" / "api.html").read_text(encoding="utf-8")
    for name, value in public_names():
        assert f'id="{name}"' in page
        assert docstring_of(value), name


def test_formulas_are_drawn_without_a_script(site):
    page = (site / "method.html").read_text(encoding="utf-8")
    written = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
    assert page.count('class="formula"') == written.count("$$") // 2
    assert page.count('class="formula-number"') == written.count(r"\tag{")
    assert "arithmatex" not in page
    assert "\\frac" not in text_of(site / "method.html")


def test_a_formula_that_cannot_be_drawn_is_an_error():
    from formulas import draw_formulas

    with pytest.raises(ValueError, match="nosuchsign cannot be drawn"):
        draw_formulas(r'<span class="arithmatex">\(a \nosuchsign b\)</span>')


def test_broken_links_fail_the_build(tmp_path):
    """One build shows all: a heading, a page and a picture that do not exist, in docs and in the README."""
    for name in ("mkdocs.yml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name, link in {
        "docs/faq.md": "[this](glossary.md#no-such-word) and [that](no-such-page.md)",
        "README.md": "[this](docs/no-such-guide.md) and ![that](docs/images/no-such-picture.png)",
    }.items():
        page = tmp_path / name
        page.write_text(f"{page.read_text()}\nSee {link}.\n")
    done = build(tmp_path, tmp_path / "out")
    assert done.returncode != 0
    said = done.stdout + done.stderr
    for missing in ("no-such-word", "no-such-page", "no-such-guide", "no-such-picture"):
        assert missing in said


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_load_nothing_from_elsewhere_and_follow_the_systems_colours(site, browser, scheme):
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    handler.log_message = lambda *_: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        asked, wrong = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        for name in ("index", "reference/api", "method"):
            page.goto(f"{address}/{name}.html", wait_until="networkidle")  # the next one would break it off
            page.wait_for_selector("h1")
        cut = page.eval_on_selector_all(
            ".formula", "all => all.filter(f => f.scrollHeight > f.clientHeight).map(f => f.textContent)"
        )
        page.locator("input[name=query]").press_sequentially("novelty")  # the search listens to keys
        page.wait_for_selector(".md-search-result__item")
        colours = page.get_attribute("body", "data-md-color-scheme")
        context.close()
        server.shutdown()
    assert [url for url in asked if not url.startswith((address, f"blob:{address}"))] == []
    assert wrong == []
    assert cut == []
    assert colours == {"light": "default", "dark": "slate"}[scheme]


def test_public_names_have_examples_that_run():
    """At least 95 of 100; pytest runs every example, so here they are only counted."""
    from names import docstring_of, public_names

    without = [name for name, value in public_names() if ">>>" not in docstring_of(value)]
    assert len(without) <= 0.05 * len(list(public_names())), without
    skipped = [name for name, value in public_names() if "doctest: +SKIP" in docstring_of(value)]
    assert skipped == []
