"""The page in a real browser: what people see and do, and that nothing of it breaks the policy."""

import io
import json
import shutil
import time

import numpy as np
import pytest
from PIL import Image

from bayestriplet.retrieval.index import Index
from tests.service.browsers import DESKTOP, PATIENCE, PHONE
from tests.service.servers import HOSTILE, Server, fill_folder, save_scan


def upload(page, path):
    page.set_input_files("#file", path)


def results(page):
    page.wait_for_selector("#results button")
    return page.locator("#results button")


def wait(page, condition, given=None):
    """Wait until a condition holds in the page; Playwright's own way needs eval, which the policy refuses."""
    end = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(condition, given):
        assert time.monotonic() < end, f"waited in vain for {condition}"
        page.wait_for_timeout(30)


def text(page, selector):
    return page.locator(selector).inner_text()


def click_point(page, number):
    """Click a point of the map, where the browser has drawn it."""
    page.wait_for_selector("#map .points path")
    spot = page.locator("#map .points path").nth(number).bounding_box()
    page.mouse.click(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)


def test_an_upload_shows_neighbours_classes_novelty_and_its_place(server, visit, indexed, tmp_path):
    query = save_scan(1003, tmp_path / "query.png")
    page = visit(server.address)
    assert "Nothing is searched for yet" in text(page, "#empty")
    assert "run · 200 indexed images" in text(page, "#served")
    upload(page, query)
    cards = results(page)
    expected = Index.open(indexed).search(query, 10)[0]
    assert cards.count() == 10
    for place, one in enumerate(expected.neighbours):
        said = cards.nth(place).inner_text().split("\n")
        same = "✓ same label" if one.label == expected.vote.label else "✗ other label"
        assert said == [one.label, f"{one.distance:.4f}", same]
        assert cards.nth(place).get_attribute("aria-label").startswith(f"Rank {place + 1}: {one.label}, ")
    wait(page, "[...document.querySelectorAll('#results img')].every((i) => i.naturalWidth > 0)")
    agree = round(expected.vote.share * 10)
    assert text(page, "#verdict") == f"{expected.vote.label}: {agree} of 10 neighbours"
    likely = sorted(expected.probabilities.items(), key=lambda pair: -pair[1])
    assert text(page, "#bars li:first-child .name") == likely[0][0]
    assert text(page, "#bars li:first-child .share") == f"{100 * likely[0][1]:.1f}%"
    assert page.locator("#bars li").count() == 10
    assert f"more novel than {expected.novelty:.1f}% of validation images" in text(page, "#novelty")
    assert page.locator("#gauge").get_attribute("aria-valuenow") == f"{expected.novelty:.1f}"
    assert page.locator("#map text", has_text="query").count() == 1
    assert text(page, "#asked-name") == "query.png"
    assert page.locator("#status").inner_text().startswith("10 nearest images.")


def test_mismatches_are_told_by_sign_and_frame(server, visit):
    page = visit(server.address)
    page.fill("#k", "60")
    page.locator("#examples button").nth(1).click()
    wait(page, "document.querySelectorAll('#results button').length === 60")
    for kind, sign, frame in (("match", "✓ same label", "solid"), ("mismatch", "✗ other label", "dashed")):
        card = page.locator(f"#results .{kind}").first
        assert card.locator(".sign").inner_text() == sign
        assert card.evaluate("(node) => getComputedStyle(node).borderTopStyle") == frame
    assert "own label, " in text(page, "#legend")


def test_a_picture_can_be_dropped_and_pasted(server, visit, tmp_path):
    content = list(save_scan(1004, tmp_path / "query.png").read_bytes())
    page = visit(server.address)
    for event, carrier in (("drop", "dataTransfer"), ("paste", "clipboardData")):
        page.evaluate(
            """([content, kind, carrier]) => {
                const data = new DataTransfer();
                data.items.add(new File([new Uint8Array(content)], `${kind}.png`, { type: "image/png" }));
                const event = new Event(kind, { bubbles: true, cancelable: true });
                Object.defineProperty(event, carrier, { value: data });
                document.body.dispatchEvent(event);
            }""",
            [content, event, carrier],
        )
        wait(page, f"document.getElementById('asked-name').textContent === '{event}.png'")
        assert results(page).count() == 10


def test_clicking_a_point_of_the_map_shows_the_item_and_searches_from_it(server, visit):
    page = visit(server.address)
    click_point(page, 5)
    page.wait_for_selector("#results button")
    name = text(page, "#asked-name")
    known = server.get("/api/map")[1]
    assert name in known["ids"]
    assert f"label\n{known['labels'][known['ids'].index(name)]}" in text(page, "#asked-facts")
    assert "file\n" in text(page, "#asked-facts")
    assert (
        page.locator("#asked-image").evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 8
    )
    assert name in page.evaluate("decodeURIComponent(location.hash)")


def test_what_is_asked_and_typed_before_the_map_is_there_stays(server, visit):
    page, held = visit(server.address), []
    page.goto("about:blank")  # or the page as it was may still ask for its map, and that be the one held
    page.route("**/api/map", lambda route: held.append(route))
    page.goto(server.address)
    page.locator("#examples button").first.click()
    results(page)
    page.fill("#k", "3")
    held[0].continue_()
    page.wait_for_selector("#map .points path")
    page.press("#k", "Enter")
    wait(page, "document.querySelectorAll('#results button').length === 3")
    wait(page, "location.hash.endsWith('k=3')")


def test_k_and_label_narrow_the_search(server, visit):
    page = visit(server.address)
    page.locator("#examples button").first.click()
    results(page)
    page.fill("#k", "3")
    page.press("#k", "Enter")
    wait(page, "document.querySelectorAll('#results button').length === 3")
    page.select_option("#label", "4")
    wait(
        page, "[...document.querySelectorAll('#results .name')].map((n) => n.textContent).join() === '4,4,4'"
    )
    page.fill("#k", "0")
    page.press("#k", "Tab")
    page.wait_for_selector("#trouble:not([hidden])")
    assert text(page, "#trouble-text") == "K must be at least 1; got 0."


def test_a_link_reproduces_the_view(server, visit, tmp_path):
    page = visit(server.address)
    page.fill("#k", "4")
    upload(page, save_scan(1005, tmp_path / "query.png"))
    results(page)
    wait(page, "location.hash.includes('replay')")
    page.select_option("#label", "3")
    wait(page, "location.hash.includes('label=3')")
    results(page)
    shown, gauge = page.locator("#results").inner_text(), text(page, "#novelty")
    again = visit(page.url, ready="#results button")
    assert again.locator("#results").inner_text() == shown
    assert text(again, "#novelty") == gauge
    assert (again.input_value("#k"), again.input_value("#label")) == ("4", "3")
    assert text(again, "#asked-name") == "query.png"
    assert (
        again.locator("#asked-image").evaluate("(image) => image.decode().then(() => image.naturalWidth)")
        == 8
    )
    page.go_back()
    wait(page, "!location.hash.includes('label=3')")
    wait(page, "document.getElementById('label').value === ''")
    broken = visit(f"{server.address}/#replay=nonsense&k=4", ready="#trouble:not([hidden])")
    assert "Replay must be what an earlier answer" in text(broken, "#trouble-text")


def test_the_link_can_be_copied(server, visit):
    page = visit(server.address, permissions=["clipboard-read", "clipboard-write"])
    page.locator("#examples button").first.click()
    results(page)
    page.wait_for_selector("#copy:enabled")
    page.click("#copy")
    wait(page, "document.getElementById('copy').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == page.url


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("note.png", b"just text", "The file is not an image."),
        ("cut.png", None, "The file is truncated."),
        (
            "drawing.svg",
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
            "The file is not an image.",
        ),
        ("large.tif", bytes(33 * 2**20), "The image is larger than 32 MB; shrink it."),
    ],
)
def test_a_bad_file_is_told_in_words_and_the_next_one_works(server, visit, tmp_path, name, content, message):
    if content is None:
        whole = io.BytesIO()
        noise = np.random.default_rng(0).integers(0, 255, (50, 50), np.uint8)
        Image.fromarray(noise).save(whole, "PNG")
        content = whole.getvalue()[:900]
    (tmp_path / name).write_bytes(content)
    page = visit(server.address)
    upload(page, tmp_path / name)
    page.wait_for_selector("#trouble:not([hidden])")
    assert text(page, "#trouble-text") == message
    assert page.locator("#retry").is_hidden()
    assert page.locator("#empty").is_visible()
    upload(page, save_scan(1006, tmp_path / "good.png"))
    assert results(page).count() == 10
    assert page.locator("#trouble").is_hidden()


def test_a_failed_upload_leaves_nothing_of_the_last_query_beside_its_error(server, visit, tmp_path):
    (tmp_path / "note.png").write_bytes(b"just text")
    page = visit(server.address)
    upload(page, save_scan(1006, tmp_path / "good.png"))
    assert results(page).count() == 10
    upload(page, tmp_path / "note.png")
    page.wait_for_selector("#trouble:not([hidden])")
    assert page.locator("#asked").is_hidden()
    assert page.locator("#asked-image").get_attribute("src") is None
    assert "good.png" not in page.locator("main").inner_text()
    assert page.locator("#results button").count() == 0
    assert text(page, "#verdict") == ""
    assert page.locator("#map text", has_text="query").count() == 0
    upload(page, tmp_path / "good.png")
    results(page)
    assert text(page, "#asked-name") == "good.png"
    page.fill("#k", "0")  # what fails is of the query that is shown
    page.press("#k", "Tab")
    page.wait_for_selector("#trouble:not([hidden])")
    assert text(page, "#asked-name") == "good.png"


def test_a_tie_is_shown_as_one(tied, visit, tmp_path):
    page = visit(tied.address)
    upload(page, save_scan(1003, tmp_path / "query.png"))
    cards = results(page)
    tie = " and ".join(tied.search((tmp_path / "query.png").read_bytes())[1]["vote"]["tied"])
    assert text(page, "#verdict") == f"tie: {tie}, 5 of 10 neighbours each"
    assert f"tie: {tie}, 5 of 10 neighbours each" in text(page, "#status")
    assert text(page, "#legend").startswith(f"✓ and a solid frame: one of the tied labels, {tie}. ")
    assert {cards.nth(i).locator(".sign").inner_text() for i in range(10)} == {"✓ tied label"}
    assert "one of the tied labels" in cards.first.get_attribute("aria-label")
    page.fill("#k", "1")
    page.press("#k", "Enter")
    wait(page, "document.getElementById('verdict').textContent.endsWith(': 1 of 1 neighbours')")


def test_the_patient_of_an_item_is_left_out_and_can_be_included_again(grouped, visit):
    page = visit(f"{grouped.address}/#item=item+0&k=60", ready="#results button")
    left_out = "Items of group P7 (patient or slide) are left out."
    assert text(page, "#left-out-text") == left_out
    assert results(page).count() == 45
    assert left_out in text(page, "#status")
    page.get_by_role("button", name="Include them").click()
    wait(page, "document.querySelectorAll('#results button').length === 59")  # all but the query itself
    assert text(page, "#left-out-text") == "Items of group P7 (patient or slide) are included."
    again = visit(page.url, ready="#results button")
    assert results(again).count() == 59
    again.get_by_role("button", name="Leave them out").click()
    wait(again, "document.querySelectorAll('#results button').length === 45")
    assert "own-group" not in again.url
    page.go_back()
    wait(page, "document.querySelectorAll('#results button').length === 45")
    none = visit(f"{grouped.address}/#item=item+3&k=60", ready="#results button")
    assert none.locator("#left-out").is_hidden()
    hostile = visit(f"{grouped.address}/#item=item+2&k=60", PHONE, ready="#results button")
    assert text(hostile, "#left-out-text") == f"Items of group {HOSTILE} (patient or slide) are left out."
    assert hostile.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_group_can_be_asked_for_and_is_kept_in_the_link(grouped, server, visit, tmp_path):
    page = visit(grouped.address)
    assert page.evaluate("[...document.querySelectorAll('#groups option')].map((n) => n.value)") == [
        HOSTILE, "P7", "P8"
    ]  # fmt: skip
    assert page.get_by_label("Only group (patient or slide)").get_attribute("placeholder") == "all groups (3)"
    page.fill("#k", "60")
    upload(page, save_scan(1003, tmp_path / "query.png"))
    wait(page, "document.querySelectorAll('#results button').length === 60")
    page.fill("#group", "P7")
    page.press("#group", "Enter")
    wait(page, "document.querySelectorAll('#results button').length === 15")
    wait(page, "location.hash.includes('group=P7')")
    assert page.locator("#left-out").is_hidden()
    again = visit(page.url, ready="#results button")
    assert (results(again).count(), again.input_value("#group")) == (15, "P7")
    again.locator("#results button").first.click()
    again.click("#enlarged-search")  # an item of P7: the group that is asked for is searched
    wait(again, "location.hash.includes('item=')")
    assert results(again).count() == 14
    assert again.locator("#left-out").is_hidden()
    page.fill("#group", "P9")
    page.press("#group", "Tab")
    page.wait_for_selector("#trouble:not([hidden])")
    assert text(page, "#trouble-text") == "No item of the index has group=P9."
    page.fill("#group", "")
    page.press("#group", "Enter")
    wait(page, "document.querySelectorAll('#results button').length === 60")
    assert visit(server.address).locator("#group").is_hidden()  # an index without groups


def test_scripts_in_labels_and_file_names_stay_text(server, visit):
    page = visit(server.address)
    page.locator("#examples button", has_text=HOSTILE[:10]).click()
    results(page)
    wait(page, "document.getElementById('asked-name').textContent.includes('<b>')")
    assert HOSTILE in text(page, "#asked-facts")
    assert page.locator("#verdict strong").inner_text() == HOSTILE
    assert page.locator("#results img[src='x'], #map img[src='x'], #bars img, main b").count() == 0
    assert page.locator("#map text", has_text="<img src=x").count() >= 1
    assert HOSTILE in page.locator("#label").inner_text()


def test_it_can_be_used_by_keyboard_alone(server, visit, tmp_path):
    page = visit(server.address)
    page.wait_for_selector("#map .points path")
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate("document.activeElement.id || document.activeElement.closest('ul')?.id || ''")
        )
        if seen[-1] == "map":
            break
    for place in ("file", "k", "label", "self", "examples", "map"):
        assert place in seen, seen
    ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"
    page.keyboard.press("ArrowRight")
    wait(page, "document.getElementById('status').textContent.includes('scans/')")
    first = text(page, "#point-text")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    wait(page, "(first) => document.getElementById('point-text').textContent !== first", given=first)
    wanted = text(page, "#point-text").split(" · ")[1]
    page.keyboard.press("Enter")
    wait(page, "(name) => document.getElementById('asked-name').textContent === name", given=wanted)
    results(page)
    page.focus("#results button >> nth=2")
    name = page.locator("#results button").nth(2).get_attribute("title")
    page.keyboard.press("Enter")
    page.wait_for_selector("#enlarged[open]")
    page.focus("#enlarged-search")
    page.keyboard.press("Enter")
    wait(page, "(path) => document.getElementById('asked-facts').textContent.includes(path)", given=name)


def test_a_neighbour_is_enlarged_beside_the_query_by_keyboard_and_focus_returns(server, visit, tmp_path):
    page = visit(server.address)
    upload(page, save_scan(1003, tmp_path / "query.png"))
    cards = results(page)
    ids = [one["id"] for one in server.search((tmp_path / "query.png").read_bytes())[1]["neighbours"]]
    cards.nth(8).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#enlarged[open]")
    assert text(page, "#enlarged-title") == "Neighbour 9 of 10"
    assert (text(page, "#enlarged-query-name"), text(page, "#enlarged-name")) == ("query.png", ids[8])
    wait(page, "[...document.querySelectorAll('#enlarged img')].every((i) => i.naturalWidth === 8)")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # there is no further one
    assert text(page, "#enlarged-name") == ids[9]
    assert page.locator("#enlarged-next").is_disabled()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert text(page, "#enlarged-name") == ids[7]
    page.keyboard.press("Escape")
    assert page.locator("#enlarged").is_hidden()
    assert cards.nth(8).evaluate("(node) => node === document.activeElement")
    cards.first.click()
    page.click("#enlarged-search")
    wait(page, "(id) => document.getElementById('asked-name').textContent === id", given=ids[0])
    phone = visit(page.url, PHONE, ready="#results button")
    phone.locator("#results button").first.click()
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_screen_reader_finds_names_and_states(server, visit):
    page = visit(server.address)
    assert page.locator("html").get_attribute("lang") == "en"
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, input, select, [role=application], [role=meter]')]
        .filter((n) => !n.hidden && !n.closest('[hidden], dialog'))
        .filter((n) => !(n.ariaLabel || n.getAttribute('aria-labelledby') || n.labels?.length
          || n.textContent.trim()))
        .map((n) => n.outerHTML)"""
    )
    assert unnamed == []
    assert page.locator("main section").count() == page.locator("main section[aria-labelledby]").count()
    assert page.locator("img:not([alt])").count() == 0
    assert page.locator("[role=status][aria-live=polite]").count() == 1
    assert page.locator("[role=alert]").count() >= 1


@pytest.mark.parametrize(
    "size", [PHONE, {"width": 820, "height": 1180}, DESKTOP], ids=["phone", "tablet", "desktop"]
)
def test_nothing_sticks_out_at_any_size(server, visit, size):
    page = visit(server.address, size)
    page.locator("#examples button", has_text=HOSTILE[:10]).click()
    results(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if size is PHONE:
        small = page.evaluate(
            "[...document.querySelectorAll('#results button, #examples button')]"
            ".map((n) => n.getBoundingClientRect()).filter((r) => r.width < 44 || r.height < 44).length"
        )
        assert small == 0


def test_the_description_of_the_api_is_readable(server, visit):
    page = visit(f"{server.address}/docs", ready="section.panel")
    assert page.locator("section.panel").count() == 9
    assert "POST /api/search" in page.locator("#operations").inner_text()


def test_a_server_that_is_gone_and_comes_back(indexed, visit, tmp_path):
    server = Server(indexed)
    page = visit(server.address)
    server.stop()
    upload(page, save_scan(1007, tmp_path / "query.png"))
    page.wait_for_selector("#trouble:not([hidden])")
    assert "The server does not answer" in text(page, "#trouble-text")
    assert page.locator("#empty").is_visible()
    again = Server(indexed, "--port", str(server.port))
    try:
        page.click("#retry")
        assert results(page).count() == 10
        assert page.locator("#trouble").is_hidden()
    finally:
        again.stop()


def test_no_index_yet_and_then_one(digits_run, visit, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("*.ckpt"))
    server = Server(run)
    try:
        page = visit(server.address, ready="#trouble:not([hidden])")
        assert f"has no index yet: `bayestriplet index {run} IMAGES` makes one." in text(
            page, "#trouble-text"
        )
        Index.open(run).update(str(fill_folder(tmp_path / "scans", range(20))))
        page.click("#retry")
        page.locator("#examples button").first.click()
        assert results(page).count() == 10
    finally:
        server.stop()


def test_files_that_moved_are_told_and_a_changed_index_is_followed(digits_run, visit, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("*.ckpt"))
    scans = fill_folder(tmp_path / "scans", range(20))
    Index.open(run).update(str(scans))
    server = Server(run)
    try:
        page = visit(server.address)
        scans.rename(tmp_path / "elsewhere")
        page.locator("#examples button").first.click()
        page.wait_for_selector("#asked-note:not([hidden])")
        assert "is no longer where it was indexed; the thumbnail is kept" in text(page, "#asked-note")
        assert page.locator("#asked-image").evaluate("(i) => i.decode().then(() => i.naturalWidth)") == 8
        Index.open(run).update(str(fill_folder(tmp_path / "scans", range(30))))
        served = page.locator("#served")
        end = time.monotonic() + PATIENCE / 1000
        while "30 indexed images" not in served.inner_text():  # the last index answers until this one is open
            assert time.monotonic() < end
            page.locator("#examples button").nth(2).click()
            page.wait_for_timeout(300)
    finally:
        server.stop()


def test_a_token_is_asked_for(indexed, visit):
    server = Server(indexed, "--token", "open-sesame")
    try:
        page = visit(server.address, ready="#login[open]")
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#login-trouble:not([hidden])")
        assert text(page, "#login-trouble") == "This is not the token."
        page.fill("#token", "open-sesame")
        page.keyboard.press("Enter")
        page.locator("#examples button").first.click()
        assert results(page).count() == 10
        wait(page, "[...document.querySelectorAll('#results img')].every((i) => i.naturalWidth > 0)")
        assert "open-sesame" not in json.dumps(
            page.evaluate("[location.href, {...localStorage}, document.cookie]")
        )
    finally:
        server.stop()


def test_picture_words_and_answer_are_of_one_query_also_when_a_picture_comes_late(server, visit):
    page = visit(server.address)
    held = []
    page.route("**/image", lambda route: held.append(route) if not held else route.continue_())
    page.locator("#examples button").nth(1).click()  # its picture is held back
    while not held:
        page.wait_for_timeout(30)
    page.locator("#examples button").nth(4).click()
    wait(page, "document.querySelectorAll('#results button:not(:disabled)').length === 10")
    name, verdict = text(page, "#asked-name"), text(page, "#verdict")
    picture = page.locator("#asked-image").get_attribute("src")
    held[0].continue_()
    page.wait_for_timeout(500)
    assert (text(page, "#asked-name"), text(page, "#verdict")) == (name, verdict)
    assert page.locator("#asked-image").get_attribute("src") == picture
    assert name == server.get("/api/info")[1]["examples"][4]["id"]


def test_items_whose_paths_go_up_and_down_are_shown(digits_run, visit, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index", "*.ckpt"))
    fill_folder(tmp_path / "scans", range(30))
    (tmp_path / "lists").mkdir()
    lines = [f"../scans/{i}/{i}.png,{i}" for i in range(7)]
    (tmp_path / "lists" / "list.csv").write_text("\n".join(["path,label", *lines]))
    index = Index.open(run)
    index.update(str(tmp_path / "lists" / "list.csv"))
    server = Server(run)
    try:
        page = visit(server.address)
        page.locator("#examples button").first.click()
        results(page)
        assert text(page, "#asked-name") == "list/../scans/0/0.png"
        wait(page, "[...document.querySelectorAll('#results img')].every((i) => i.naturalWidth > 0)")
    finally:
        server.stop()


def test_the_page_shows_ids_in_place_of_pictures(vectors, visit):
    page = visit(vectors.address)
    assert text(page, "#served") == "run · 100 indexed vectors"
    assert page.locator("#drop").is_hidden()
    assert "This run takes vectors of length 64 (from pixels)" in text(page, "#empty")
    assert page.locator("#examples img").count() == 0
    page.locator("#examples button").first.click()
    cards = results(page)
    assert cards.count() == 10
    assert text(page, "#answer-title") == "Nearest vectors"
    assert text(page, "#results li:first-child .tile").startswith("digits/")
    assert page.locator("#results img").count() == 0
    assert page.locator("#asked-image").is_hidden()
    assert text(page, "#asked-name").startswith("digits/tile")
    assert page.locator("#trouble").is_hidden()
    asked = text(page, "#asked-name")
    cards.first.click()
    wait(page, "(asked) => document.getElementById('asked-name').textContent !== asked", asked)
    click_point(page, 0)
    assert page.locator("#point-image").is_hidden()


def test_a_picture_is_taught_seen_in_the_probabilities_and_undone_with_one_click(indexed, visit, tmp_path):
    run = shutil.copytree(indexed, tmp_path / "run")
    server = Server(run)
    try:
        page = visit(server.address)
        assert not page.locator("#teach").is_visible()
        upload(page, save_scan(30, tmp_path / "query.png"))
        results(page)
        page.fill("#teach-class", HOSTILE + " new")
        more = [save_scan(i, tmp_path / f"{i}.png") for i in (31, 32)]
        page.set_input_files("#teach-more", more)
        page.click("#teach-button")
        page.locator("#teach-note", has_text="Taught").wait_for()
        assert page.inner_text("#teach-note") == f"Taught: 3 pictures of {HOSTILE} new."
        assert HOSTILE + " new" in page.locator("#bars .name").all_inner_texts()
        page.click("#teach-undo")
        page.locator("#teach-note", has_text="Undone").wait_for()
        assert HOSTILE + " new" not in page.locator("#bars .name").all_inner_texts()
        assert not page.locator("#teach-undo").is_visible()
        page.fill("#teach-class", "0 ")
        page.click("#teach-button")
        page.locator("#teach-note", has_text="Taught").wait_for()
    finally:
        server.stop()


def test_two_people_who_teach_at_once_in_two_browsers_lose_nothing(indexed, visit, tmp_path):
    run = shutil.copytree(indexed, tmp_path / "run")
    server = Server(run)
    try:
        pages = [visit(server.address) for _ in range(2)]
        for number, page in enumerate(pages):
            upload(page, save_scan(30 + number, tmp_path / f"{number}.png"))
            results(page)
            page.fill("#teach-class", f"of person {number}")
        for page in pages:  # a click waits for no answer
            page.click("#teach-button")
        for page in pages:
            page.locator("#teach-note", has_text="Taught").wait_for()
        taught = [f"of person {number}" for number in range(2)]
        upload(pages[0], save_scan(32, tmp_path / "2.png"))
        pages[0].locator("#bars .name", has_text=taught[1]).wait_for()
        assert set(taught) <= set(pages[0].locator("#bars .name").all_inner_texts())
        pages[1].click("#teach-undo")
        pages[1].locator("#teach-note", has_text="Undone").wait_for()
        names = pages[1].locator("#bars .name").all_inner_texts()
        assert (taught[0] in names, taught[1] in names) == (True, False)
    finally:
        server.stop()


def test_a_novel_picture_of_the_index_is_unlike_the_classes_and_the_page_says_what_that_rests_on(
    indexed, visit, tmp_path
):
    run = shutil.copytree(indexed, tmp_path / "run")
    (tmp_path / "blank").mkdir()
    white = tmp_path / "blank" / "white.png"
    Image.new("L", (8, 8), 255).save(white)
    Index.open(run).update(str(tmp_path / "blank"))
    server = Server(run)
    try:
        page = visit(server.address)
        page.uncheck("#self")
        upload(page, white)
        cards = results(page)
        assert cards.first.inner_text().split("\n")[1] == "0.0000"
        said = text(page, "#novelty")
        assert said.startswith("Unlike the classes trained on: more novel than 100.0% of validation images")
        assert said.endswith("ot measured on held-out classes.")
    finally:
        server.stop()


def test_a_page_that_is_read_only_offers_no_teaching(indexed, visit, tmp_path):
    server = Server(indexed, "--read-only")
    try:
        page = visit(server.address)
        upload(page, save_scan(30, tmp_path / "query.png"))
        results(page)
        assert page.locator("#says").is_visible()
        assert not page.locator("#teach").is_visible()
    finally:
        server.stop()
