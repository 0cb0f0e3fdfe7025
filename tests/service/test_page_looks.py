"""How the page looks and what it hands out: colours, contrast, names for screen readers, files."""

import csv
import io
import re
from importlib import resources

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image

from bayestriplet.data.images import SUFFIXES
from tests.service.browsers import PHONE
from tests.service.servers import HOSTILE, save_scan, wait_until

BACKGROUND = "getComputedStyle(document.querySelector('.panel')).backgroundColor"


def violations(page):
    """What axe-core finds wrong, with the elements; plotly's drawing is described by its label."""
    found = Axe().run(page, {"exclude": [[".js-plotly-plot .plotly"]]}).response["violations"]
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]
    ]


def ask(page, tmp_path, number=300):
    page.set_input_files("#file", save_scan(number, tmp_path / "my scan.png"))
    page.wait_for_selector("#results button")


@pytest.mark.parametrize("size", [None, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_and_names_pass_axe_in_every_state(server, visit, tmp_path, scheme, size):
    page = visit(server.address, color_scheme=scheme, **({"size": size} if size else {}))
    states = {"empty": violations(page)}
    ask(page, tmp_path)
    page.wait_for_timeout(300)  # colours of a waiting answer fade
    states["answered"] = violations(page)
    page.locator("#results button").first.click()
    page.wait_for_selector("#enlarged[open]")
    states["enlarged"] = violations(page)
    page.keyboard.press("Escape")
    page.set_input_files("#file", {"name": "no.png", "mimeType": "image/png", "buffer": b"none"})
    page.wait_for_selector("#trouble:not([hidden])")
    states["refused"] = violations(page)
    assert states == {name: [] for name in states}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_groups_vectors_and_the_api_pass_axe(grouped, vectors, visit, scheme):
    page = visit(grouped.address, color_scheme=scheme)
    page.locator("#examples button").first.click()
    page.wait_for_selector("#left-out:not([hidden])")
    assert violations(page) == []
    page = visit(vectors.address, color_scheme=scheme)
    page.locator("#examples button").first.click()
    page.wait_for_selector("#results button")
    assert violations(page) == []
    assert (
        violations(visit(f"{vectors.address}/docs", ready="#operations section", color_scheme=scheme)) == []
    )


def test_axe_can_fail(server, visit):
    page = visit(server.address)
    page.evaluate(
        "document.getElementById('served').className = 'x'; document.getElementById('k').id = 'unnamed'"
    )
    assert any(one.startswith("label") for one in violations(page))


def test_dark_and_light_follow_the_system_while_the_page_is_open(server, visit):
    page = visit(server.address, color_scheme="dark")
    assert page.evaluate(BACKGROUND) == "rgb(24, 35, 41)"
    ground = "document.querySelector('#map .main-svg')?.style.background"
    wait_until(lambda: page.evaluate(ground) == "rgb(24, 35, 41)")
    page.emulate_media(color_scheme="light")
    wait_until(lambda: page.evaluate(ground) == "rgb(255, 255, 255)")
    assert page.evaluate(BACKGROUND) == "rgb(255, 255, 255)"


def test_a_long_name_leaves_room_for_the_other_examples(server, visit):
    page = visit(server.address)
    widths = page.eval_on_selector_all("#examples li", "all => all.map((one) => one.clientWidth)")
    names = page.eval_on_selector_all("#examples button span", "all => all.map((one) => one.textContent)")
    assert HOSTILE in names
    assert max(widths) - min(widths) <= 1


WHOLE_PARTS = """
[...document.querySelectorAll("#enlarged-name, #asked-name, dd")].flatMap((place) =>
  [...place.childNodes].filter((part) => part.nodeType === Node.TEXT_NODE).map((part) => {
    const range = document.createRange();
    range.selectNodeContents(part);
    const lines = [...range.getClientRects()];
    return [part.data, lines.length, lines.reduce((sum, line) => sum + line.width, 0) <= place.clientWidth];
  }))
"""


@pytest.mark.parametrize("size", [None, PHONE], ids=["desktop", "phone"])
def test_paths_break_between_folders(server, visit, size):
    page = visit(server.address, **({"size": size} if size else {}))
    page.locator("#examples button").first.click()
    page.wait_for_selector("#asked-facts dd")
    page.wait_for_selector("#results button")
    page.locator("#results button").first.click()
    page.wait_for_selector("#enlarged[open]")
    parts = page.evaluate(WHOLE_PARTS)
    assert [name for name, _, _ in parts if "/" in name[:-1]] == []
    assert len([name for name, _, _ in parts if name.endswith("/")]) >= 8
    assert [name for name, lines, fits in parts if fits and lines > 1 and not set(name) & set(" -")] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_answer_is_saved_as_a_table(server, visit, tmp_path):
    page = visit(server.address)
    assert page.is_disabled("#save-csv")
    with page.expect_response("**/api/search") as asked:
        ask(page, tmp_path)
    answer = asked.value.json()
    with page.expect_download() as saved:
        page.click("#save-csv")
    assert saved.value.suggested_filename == "answer my_scan.png.csv"
    content = saved.value.path().read_bytes()
    assert content.startswith("\ufeff".encode())
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert {row["query"] for row in rows} == {"my scan.png"}
    assert [float(row["value"]) for row in rows if row["kind"] == "novelty"] == [answer["novelty"]]
    shares = {row["label"]: float(row["value"]) for row in rows if row["kind"] == "probability"}
    assert shares == answer["probabilities"]
    near = [row for row in rows if row["kind"] == "distance"]
    assert [(int(row["rank"]), row["id"], row["label"], row["path"]) for row in near] == [
        (one["rank"], one["id"], one["label"], one["path"]) for one in answer["neighbours"]
    ]
    assert [float(row["value"]) for row in near] == [one["distance"] for one in answer["neighbours"]]


def test_the_page_offers_every_kind_of_image_that_is_read():
    page = resources.files("bayestriplet.service").joinpath("static", "page.html").read_text()
    offered = re.findall(r'accept="([^"]+)"', page)
    assert len(offered) == 2
    for kinds in offered:
        assert set(SUFFIXES) <= set(kinds.split(","))


def test_what_a_spreadsheet_would_run_stays_text(server, visit):
    page = visit(server.address)
    text = page.evaluate(
        """async () => (await import("/static/download.js")).toCsv({ novelty: null,
        probabilities: { "-1": 0.5 },
        neighbours: [{ rank: 1, label: "=1+1", distance: 0.5, id: 'a "b", c', path: "@x" }],
        }, "-q")"""
    )
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[1] == ["'-q", "probability", "", "-1", "0.5", "", ""]
    assert rows[2] == ["'-q", "distance", "1", "'=1+1", "0.5", 'a "b", c', "'@x"]


def test_an_answer_is_saved_as_a_picture(server, visit, tmp_path):
    page = visit(server.address)
    ask(page, tmp_path)
    with page.expect_download() as saved:
        page.click("#save-png")
    assert saved.value.suggested_filename == "answer my_scan.png.png"
    with Image.open(saved.value.path()) as picture:
        pixels = np.asarray(picture.convert("L"), float)
    assert pixels.shape[1] == 1104
    assert pixels[16:216, 16:216].std() > 40  # the query
    top = pixels.shape[0] - 2 * 178
    for number in range(10):  # every neighbour has its picture, and words below it
        left, high = 16 + (number % 8) * 136, top + (number // 8) * 178
        assert pixels[high : high + 100, left : left + 120].std() > 40
        assert pixels[high + 122 : high + 160, left : left + 120].min() < 120
    with page.expect_download() as saved:
        page.click("#save-png")  # again, and of a neighbour whose label is a script
    assert HOSTILE not in saved.value.suggested_filename


def test_vectors_are_saved_with_their_ids(vectors, visit):
    page = visit(vectors.address)
    page.locator("#examples button").first.click()
    page.wait_for_selector("#results button")
    for button, kind in (("#save-csv", "csv"), ("#save-png", "png")):
        with page.expect_download() as saved:
            page.click(button)
        assert saved.value.suggested_filename.endswith(kind)
        assert saved.value.path().stat().st_size > 200
