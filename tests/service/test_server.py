"""The service as clients meet it: a real server, real requests."""

import asyncio
import base64
import io
import itertools
import json
import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from bayestriplet.retrieval.index import Index
from bayestriplet.service.app import make_app
from bayestriplet.service.catalogue import Catalogue
from tests.data.test_images import png_header
from tests.service.servers import (
    DIGITS,
    HOSTILE,
    Server,
    fill_folder,
    item_path,
    make_form,
    save_scan,
    wait_until,
)

MEGABYTE = 2**20
HEAD = "POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"


@pytest.fixture
def query(tmp_path):
    return save_scan(1003, tmp_path / "query.png")


def assert_like(found, answer):
    """What the service answered is what ``bayestriplet search`` prints."""
    expected = json.loads(json.dumps(answer.to_json()))
    for key in ("neighbours", "vote", "probabilities", "novelty"):
        if key == "neighbours":
            near = [{**one, "distance": pytest.approx(one["distance"], rel=1e-4)} for one in expected[key]]
            assert found[key] == near
        elif key == "probabilities":
            assert found[key] == pytest.approx(expected[key], rel=1e-3, abs=1e-6)
        else:
            assert found[key] == expected[key]


def test_an_upload_gets_the_answer_of_a_search(server, indexed, query):
    status, found = server.search(query.read_bytes(), k=7)
    assert status == 200
    assert found["query"] == "query.png"
    assert len(found["neighbours"]) == 7
    assert_like(found, Index.open(indexed).search(query, 7)[0])
    assert found["unlike"] is (found["novelty"] > 99)
    with Image.open(io.BytesIO(base64.b64decode(found["thumbnail"]))) as seen, Image.open(query) as sent:
        np.testing.assert_array_equal(np.asarray(seen), np.asarray(sent))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "BMP"])
def test_every_format_of_the_command_line_is_read(server, kind):
    out = io.BytesIO()
    Image.new("RGB", (40, 30), "white").save(out, kind)
    assert server.search(out.getvalue(), k=1)[0] == 200


def test_an_item_is_searched_from_by_its_id_and_can_be_left_out(server, indexed):
    own = server.get("/api/info")[1]["examples"][0]["id"]
    status, found = server.search(item=own, k=5)
    assert status == 200
    assert found["neighbours"][0]["id"] == own
    assert found["neighbours"][0]["distance"] == 0
    assert found["thumbnail"] is None
    stored = Index.open(indexed).store.find([own])[own]
    assert_like(found, Index.open(indexed).search(stored.vector, 5)[0])
    others = server.search(item=own, k=4, exclude_self="true")[1]["neighbours"]
    assert [one["id"] for one in others] == [one["id"] for one in found["neighbours"][1:]]


def test_a_replay_asks_the_same_again(server, indexed):
    own = server.get("/api/info")[1]["examples"][1]["id"]
    path = Index.open(indexed).store.find([own])[own].item.path
    first = server.search(Path(path).read_bytes(), exclude_self="true")[1]
    again = server.search(replay=first["replay"], exclude_self="true")[1]
    for key in ("neighbours", "vote", "probabilities", "novelty", "place"):
        assert again[key] == pytest.approx(first[key]) if key == "place" else again[key] == first[key]
    for bad in (
        "",
        "nonsense",
        "%%%",
        first["replay"][:-8],
        first["replay"] + "AAAA",
        base64.b64encode(b"\xff" * 80).decode(),
    ):
        status, found = server.search(replay=bad)
        assert (status, found["message"][:34]) == (422, "replay must be what an earlier ans"), bad


def test_filters_narrow_the_search(server):
    status, found = server.search(item=server.get("/api/info")[1]["examples"][0]["id"], label="3", k=50)
    assert status == 200
    assert {one["label"] for one in found["neighbours"]} == {"3"}
    assert server.search(item=found["neighbours"][0]["id"], source="scans", label="3")[0] == 200


def numbers(found):
    return {int(one["id"].removeprefix("item ")) for one in found["neighbours"]}


def test_the_group_of_an_item_is_left_out_unless_asked_for(grouped):
    found = grouped.search(item="item 0", k=60)[1]
    assert found["excluded_group"] == "P7"
    assert numbers(found) == {i for i in range(60) if i % 4 != 0}
    found = grouped.search(item="item 0", k=60, exclude_group="")[1]
    assert (found["excluded_group"], numbers(found)) == (None, set(range(60)))
    found = grouped.search(item="item 0", k=60, exclude_group="P8")[1]
    assert (found["excluded_group"], len(numbers(found))) == ("P8", 45)
    found = grouped.search(item="item 0", k=60, group="P7")[1]
    assert (found["excluded_group"], numbers(found)) == (None, set(range(0, 60, 4)))
    found = grouped.search(item="item 3", k=60)[1]  # of no group
    assert (found["excluded_group"], numbers(found)) == (None, set(range(60)))
    found = grouped.search(item="item 2", k=60, label="a")[1]
    assert (found["excluded_group"], numbers(found)) == (HOSTILE, set(range(0, 60, 4)))
    status, found = grouped.search(item="item 0", group="P7", exclude_group="P7")
    assert (status, found["message"][:42]) == (422, "group 'P7' is both asked for and excluded;")


def test_an_upload_has_no_group_and_one_can_be_left_out(grouped, query):
    found = grouped.search(query.read_bytes(), k=60)[1]
    assert (found["excluded_group"], numbers(found)) == (None, set(range(60)))
    found = grouped.search(query.read_bytes(), k=60, exclude_group="P7")[1]
    assert (found["excluded_group"], len(numbers(found))) == ("P7", 45)
    again = grouped.search(replay=found["replay"], k=60, exclude_group="P7")[1]
    assert again["neighbours"] == found["neighbours"]
    assert grouped.search(query.read_bytes(), k=60, exclude_group="")[1]["excluded_group"] is None


def test_info_names_at_most_a_thousand_groups(grouped, server, digits_run, tmp_path):
    info = grouped.get("/api/info")[1]
    assert (info["groups"], info["group_count"]) == ([HOSTILE, "P7", "P8"], 3)
    info = server.get("/api/info")[1]
    assert (info["groups"], info["group_count"]) == ([], 0)
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index", "*.ckpt"))
    pixels = np.random.default_rng(0).integers(0, 256, (1200, 8, 8), np.uint8)
    groups = [f"P{i:04}" for i in range(1200)]
    Index.open(run).add(pixels, ids=groups, groups=groups)
    many = Server(run)
    try:
        info = many.get("/api/info")[1]
        assert (info["groups"], info["group_count"]) == (groups[:1000], 1200)
        assert many.search(item="P0003", group="P1199")[1]["neighbours"][0]["id"] == "P1199"
    finally:
        many.stop()


def test_items_and_their_pictures(server, scans):
    name = f"scans/{HOSTILE}/<b>7&.png"
    status, item = server.get(item_path(name))
    assert (status, item["id"], item["label"], item["source"]) == (200, name, HOSTILE, "scans")
    assert item["path"] == str(scans / HOSTILE / "<b>7&.png")
    with Image.open(item["path"]) as file:
        pixels = np.asarray(file)
    for query in ("", "?thumbnail=true"):
        status, headers, content = server.request("GET", f"{item_path(name)}/image{query}")
        assert (status, headers["content-type"]) == (200, "image/png")
        with Image.open(io.BytesIO(content)) as picture:
            np.testing.assert_array_equal(np.asarray(picture), pixels)
        again = server.request(
            "GET", f"{item_path(name)}/image{query}", headers={"if-none-match": headers["etag"]}
        )
        assert again[0] == 304
        assert again[2] == b""


def test_an_id_may_hold_the_end_of_a_line(digits_run, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index", "*.ckpt"))
    names = ["a\nb", "c\n", "\r\nd"]
    Index.open(run).add([save_scan(i, tmp_path / f"{i}.png") for i in range(3)], ids=names)
    server = Server(run)
    try:
        for name in names:
            assert server.get(item_path(name))[1]["id"] == name
            assert server.request("GET", item_path(name) + "/image?thumbnail=true")[0] == 200
            assert server.search(item=name)[0] == 200
        assert server.get(item_path("a\nc"))[1]["message"] == "the index holds no item 'a\\nc'"
    finally:
        server.stop()


def test_info_and_map_tell_of_the_whole_index(server):
    info = server.get("/api/info")[1]
    assert (info["run"], info["items"], sum(info["labels"].values())) == ("run", 200, 200)
    assert (info["size"], info["channels"], info["dim"]) == (8, 1, 16)
    assert len({one["label"] for one in info["examples"]}) == len(info["examples"]) == 10
    drawn = server.get("/api/map")[1]
    assert drawn["total"] == 200
    assert {len(drawn[key]) for key in ("ids", "labels", "x", "y")} == {200}
    own = drawn["ids"].index(info["examples"][0]["id"])
    place = server.search(item=info["examples"][0]["id"], k=1)[1]["place"]
    assert (drawn["way"], drawn["pending"]) == ("umap", False)
    assert place == pytest.approx([drawn["x"][own], drawn["y"][own]], abs=1e-2)


def test_the_description_names_every_address(server):
    status, description = server.get("/openapi.json")
    assert status == 200
    assert set(description["paths"]) == {
        "/healthz", "/api/session", "/api/info", "/api/map", "/api/search", "/api/classes", "/api/teach",
        "/api/items/{id}", "/api/items/{id}/image",
    }  # fmt: skip
    search = description["paths"]["/api/search"]["post"]["responses"]
    statuses = {"400", "401", "403", "404", "408", "409", "413", "415", "422", "503"}
    assert set(search) == {"200"} | statuses
    for path in ("/api/items/{id}", "/api/items/{id}/image", "/api/info", "/api/map"):
        assert {"401", "403", "404", "409", "503"} <= set(description["paths"][path]["get"]["responses"])
    assert "410" in description["paths"]["/api/items/{id}/image"]["get"]["responses"]
    status, headers, content = server.request("GET", "/docs")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"https:" not in content
    assert b"openapi.json" in content


def test_every_answer_carries_the_policy(server):
    for path in (
        "/",
        "/docs",
        "/static/page.js",
        "/static/plotly.js",
        "/api/info",
        "/healthz",
        "/nothing",
        "/api/items/x",
    ):
        headers = server.request("GET", path)[1]
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def bad_images():
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 60), np.uint8)).save(whole, "PNG")
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    return {
        "not an image": (b"just text", "is not an image"),
        "empty": (b"", "is empty"),
        "truncated": (whole.getvalue()[:200], "is truncated"),
        "a bomb": (png_header(60_000, 60_000), "has 60000 x 60000 pixels, more than 64 million"),
        "a small bomb": (png_header(9_000, 9_000), "has 9000 x 9000 pixels, more than 64 million"),
        "an SVG": (svg, "is not an image"),
    }


@pytest.mark.parametrize("kind", bad_images())
def test_a_bad_image_is_answered_in_words(server, kind):
    content, message = bad_images()[kind]
    status, answer = server.search(content)
    assert status == 422
    assert message in answer["message"]
    assert server.is_running


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"k": "0"}, 422, "k must be at least 1; got 0"),
        ({"k": "-3"}, 422, "k must be at least 1; got -3"),
        ({"k": "1000000"}, 422, "k must be at most 10000; got 1000000"),
        ({"k": "ten"}, 422, "k must be a whole number; got 'ten'"),
        ({"k": "9" * 5000}, 422, "k must be at most 10000"),
        ({"k": ["1", "2"]}, 422, "k is given 2 times"),
        ({"label": "TUM"}, 422, "no item of the index has label=TUM"),
        ({"label": "' OR 1=1 --"}, 422, "no item of the index has"),
        ({"lable": "1"}, 422, "there is no field 'lable'; did you mean 'label'?"),
        ({"item": "../../etc/passwd"}, 404, "holds no item '../../etc/passwd'"),
        ({"item": "x" * 5000}, 404, "holds no item 'xxx"),
        ({"item": b"a file"}, 422, "item must be text, not a file"),
        ({"exclude_self": "maybe"}, 422, "exclude_self must be true or false"),
        ({"label": "x" * 100_000}, 400, "the form cannot be read"),
    ],
)  # fmt: skip
def test_a_bad_option_is_answered_in_words(server, fields, status, message):
    if "item" not in fields:
        fields = {"item": server.get("/api/info")[1]["examples"][0]["id"], **fields}
    found = server.search(**fields)
    assert found[0] == status, found
    assert message in found[1]["message"]
    assert server.is_running


def test_a_form_must_hold_one_query(server):
    assert "got none" in server.search(k=3)[1]["message"]
    both = server.search(b"x", item="y")
    assert (both[0], "got image and item" in both[1]["message"]) == (422, True)
    assert "image must be a file" in server.search(image="text")[1]["message"]
    two = server.search(image=[b"one", b"two"])
    assert (two[0], "the form cannot be read: too many files" in two[1]["message"]) == (400, True)
    body, _ = make_form(b"x")
    for kind, status in (
        ("application/json", 415),
        ("", 415),
        ("multipart/form-data", 400),
        ("multipart/form-data; boundary=other", 400),
    ):
        found = server.request("POST", "/api/search", body, {"content-type": kind})
        assert found[0] == status, kind
        assert json.loads(found[2])["message"]
    assert server.is_running


@pytest.mark.parametrize(
    "path", ["/api/items/nothing", "/api/items/../../etc/passwd", "/api/items/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
             "/api/items/..%2f..%2fconfig.toml/image", "/api/items//etc/passwd/image", "/api/items/%00",
             "/api/items/", "/static/../server.py", "/static/%2e%2e%2fapp.py", "/static/app.py", "/nothing"],
)  # fmt: skip
def test_nothing_but_indexed_items_and_the_page_is_served(server, path):
    status, _, content = server.request("GET", path)
    assert status == 404
    assert json.loads(content)["message"]
    assert server.is_running


def test_other_methods_and_parameters_are_refused_in_words(server):
    status, _, content = server.request("DELETE", "/api/info")
    assert (status, json.loads(content)["message"]) == (
        405,
        "DELETE is not for this address; /docs lists what is",
    )
    name = quote(server.get("/api/info")[1]["examples"][0]["id"])
    status, answer = server.get(f"/api/items/{name}/image?thumbnail=perhaps")
    assert status == 422
    assert answer["message"].startswith("thumbnail: ")


def test_a_declared_length_that_is_too_large_is_refused_before_it_is_read(server):
    with socket.create_connection((server.host, server.port), timeout=60) as line:
        line.sendall(f"{HEAD}Content-Length: {2 * 2**30}\r\n\r\n".encode())
        assert_refused_as_too_large(line)
    assert server.is_running


def test_an_undeclared_length_is_cut_off_and_neither_memory_nor_disk_grow(server):
    before, rest = resident_megabytes(server), shutil.disk_usage("/tmp").used  # noqa: S108
    with socket.create_connection((server.host, server.port), timeout=60) as line:
        line.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        part = b'--b\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\n'
        line.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        chunk = f"{MEGABYTE:x}\r\n".encode() + bytes(MEGABYTE) + b"\r\n"
        sent = 0
        try:
            while sent < 2048:  # 2 GB, were they let in
                line.sendall(chunk)
                sent += 1
        except OSError:
            pass
        assert sent < 2000
        assert_refused_as_too_large(line)
    assert server.is_running
    assert resident_megabytes(server) < before + 120
    assert shutil.disk_usage("/tmp").used < rest + 500 * MEGABYTE  # noqa: S108


def assert_refused_as_too_large(line):
    answer = b""
    while b"}" not in answer:
        got = line.recv(65536)
        if not got:
            break
        answer += got
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"the upload is larger than 32 MB" in answer


def resident_megabytes(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def test_an_upload_that_stops_half_way_leaves_the_server_as_it_was(server):
    with socket.create_connection((server.host, server.port), timeout=60) as line:
        line.sendall(f"{HEAD}Content-Length: 1000\r\n\r\n--b\r\n".encode())
    assert server.is_running


def test_only_names_of_this_machine_are_answered_to(server):
    for host, status in (
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("", 403),
    ):
        assert server.request("GET", "/api/info", headers={"host": host})[0] == status, host


def test_thirty_two_clients_at_once_get_what_a_search_gives(server, indexed, tmp_path):
    files = [save_scan(1000 + i, tmp_path / f"{i}.png") for i in range(32)]
    expected = Index.open(indexed).search(files, 10)
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda file: server.search(file.read_bytes(), file.name), files))
    for (status, found), file, answer in zip(answers, files, expected, strict=True):
        assert (status, found["query"]) == (200, file.name)
        assert_like(found, answer)


def test_a_changed_index_is_picked_up_without_a_restart(digits_run, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("*.ckpt"))
    server = Server(run)
    try:
        for path in ("/api/info", "/api/map", "/api/items/x"):
            status, answer = server.get(path)
            assert (status, answer["message"]) == (
                409,
                f"{run} has no index yet: `bayestriplet index {run} IMAGES` makes one",
            )
        query = save_scan(5, tmp_path / "query.png").read_bytes()
        assert server.search(query)[0] == 409
        scans = fill_folder(tmp_path / "scans", range(20))
        Index.open(run).update(str(scans))
        status, found = server.search(query, k=1)
        assert (status, found["neighbours"][0]["id"]) == (200, "scans/5/5.png")
        assert server.get("/api/info")[1]["items"] == 20
        save_scan(21, scans / "1" / "new.png")
        (scans / "5" / "5.png").unlink()
        Index.open(run).update(str(scans))
        wait_until(lambda: server.get("/api/info")[1]["index"] != found["index"])
        changed = server.search(query, k=1)[1]
        assert changed["neighbours"][0]["id"] != "scans/5/5.png"
        assert changed["index"] != found["index"]
        assert server.get(item_path("scans/5/5.png"))[0] == 404
        assert server.get("/api/map")[1]["total"] == 20
        assert server.request("GET", item_path("scans/1/new.png") + "/image?thumbnail=true")[0] == 200
    finally:
        code, said, log = server.stop()
    assert (code, said[-1]) == (0, "Stopped.")
    assert log[-1]["event"] == "stopped"


def damaged_tiff():
    out = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(out, "TIFF", compression="tiff_lzw")
    content = bytearray(out.getvalue())
    for place in range(500, len(content) - 2000, 37):
        content[place] ^= 255
    return bytes(content)


def test_files_that_moved_or_changed_are_told_and_the_thumbnail_kept(digits_run, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("*.ckpt"))
    scans = fill_folder(tmp_path / "scans", range(12))
    Index.open(run).update(str(scans))
    server = Server(run)
    try:
        (scans / "3" / "3.png").rename(tmp_path / "moved.png")
        save_scan(99, scans / "4" / "4.png")
        (scans / "5" / "5.png").unlink()
        (scans / "5" / "5.png").symlink_to(run / "config.toml")
        (scans / "6" / "6.png").write_bytes(damaged_tiff())  # of which libtiff complains: not in the log
        for name, message in (
            ("3/3", "no longer where it was"),
            ("4/4", "has changed since"),
            ("5/5", "can no longer be read"),
            ("6/6", "can no longer be read"),
        ):
            status, answer = server.get(item_path(f"scans/{name}.png") + "/image")
            assert status == 410
            assert message in answer["message"]
            assert server.request("GET", item_path(f"scans/{name}.png") + "/image?thumbnail=true")[0] == 200
        assert server.search(item="scans/3/3.png", k=3)[0] == 200
    finally:
        server.stop()


def test_a_token_is_asked_for_and_a_cookie_stands_for_it(indexed):
    server = Server(indexed, "--host", "0.0.0.0", "--token", "open-sesame")  # noqa: S104
    try:
        server.host = "127.0.0.1"
        for path in ("/", "/static/page.js", "/docs", "/openapi.json", "/healthz"):
            assert server.request("GET", path)[0] == 200
        guarded = ("/api/info", "/api/map", "/api/items/x", "/api/items/x/image")
        for path in guarded:
            assert server.get(path) == (
                401,
                {"message": "the token is missing: send it as `Authorization: Bearer TOKEN`"},
            )
        wrong = (
            "Bearer open", "Bearer", "Basic open-sesame", "open-sesame", "Bearer open-sesame2", "Bearer \xe9",
        )  # fmt: skip
        for path, sent in zip(
            itertools.cycle(guarded), wrong, strict=False
        ):  # each takes longer than the last
            status, answer = server.get(path, authorization=sent)
            assert (status, answer["message"][:18]) == (401, "the token is wrong")
        assert server.search(b"x")[0] == 401
        right = {"authorization": "Bearer open-sesame"}
        assert server.get("/api/info", **right)[0] == 200
        assert server.search(item="x", headers=right)[0] == 404
        assert server.request("POST", "/api/session")[0] == 401
        status, headers, _ = server.request("POST", "/api/session", headers=right)
        cookie = headers["set-cookie"]
        assert status == 204
        assert "open-sesame" not in cookie
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        for other in ("", 'prefs={"dark":true}; '):  # of another program on this machine
            assert server.get("/api/info", cookie=other + cookie.split(";")[0])[0] == 200
        assert server.get("/api/info", cookie="bayestriplet=open-sesame")[0] == 401
    finally:
        _, _, log = server.stop()
    assert "open-sesame" not in json.dumps(log)


def test_the_log_is_json_and_tells_nothing_of_the_images(indexed, query):
    server = Server(indexed)
    name = server.get("/api/info")[1]["examples"][0]["id"]
    server.search(query.read_bytes(), "patient-42.png")
    server.get(item_path(name))
    server.search(b"not an image", "patient-43.png")
    code, _, log = server.stop()
    assert code == 0
    requests = [entry for entry in log if entry["event"] == "request"]
    assert [(entry["route"], entry["status"]) for entry in requests] == [
        ("/api/info", 200), ("/api/search", 200), ("/api/items/{id}", 200), ("/api/search", 422),
    ]  # fmt: skip
    assert all(entry["ms"] >= 0 and entry["level"] == "info" for entry in requests)
    assert "patient" not in json.dumps(log)
    assert name not in json.dumps(log)


def test_requests_under_way_are_finished_before_it_stops(indexed):
    server = Server(indexed)
    queries = [save_bytes(i) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(server.search, one) for one in queries]
        wait_until(lambda: any(answer.done() for answer in answers), 30)
        began = time.monotonic()
        code, said, _ = server.stop()
    assert (code, said) == (0, ["Stopped."])
    assert time.monotonic() - began < 20
    finished = [answer for answer in answers if answer.exception() is None]
    assert finished
    assert all(answer.result()[0] == 200 for answer in finished)


def save_bytes(number):
    out = io.BytesIO()
    Image.fromarray(np.rint(DIGITS.images[number] * 15).astype(np.uint8)).resize((600, 600)).save(out, "PNG")
    return out.getvalue()


def test_an_index_that_cannot_be_read_is_not_the_fault_of_the_query(digits_run, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index", "*.ckpt"))
    Index.open(run).update(str(fill_folder(tmp_path / "scans", range(20))))
    server = Server(run)
    try:
        assert server.search(item="scans/3/3.png")[0] == 200
        for path in (run / "index" / "items.lance" / "_versions").glob("*.manifest"):
            path.write_bytes(path.read_bytes()[:100])
        wait_until(lambda: server.search(item="scans/3/3.png")[0] == 503)
        status, answer = server.search(item="scans/3/3.png")
        assert status == 503
        assert "is damaged" in answer["message"]
    finally:
        server.stop()


def test_a_replay_of_huge_numbers_is_refused_in_words(server):
    reply = server.search(item="scans/3/3.png")[1]["replay"]
    content = base64.urlsafe_b64decode(reply + "=" * (-len(reply) % 4))
    huge = content[:16] + np.full((len(content) - 16) // 4, 1e19, "<f4").tobytes()
    status, answer = server.search(replay=base64.urlsafe_b64encode(huge).rstrip(b"=").decode())
    assert (status, answer["message"][:22]) == (422, "replay must be what an")


def test_a_tie_names_all_labels_that_are_tied(tied, query):
    vote = tied.search(query.read_bytes())[1]["vote"]
    assert (vote["share"], set(vote["tied"])) == (0.5, {"three", HOSTILE})
    assert vote["label"] == vote["tied"][0]
    assert tied.search(query.read_bytes(), k=1)[1]["vote"]["tied"] == []


class WatchedStore:
    """A store that notes in which threads it is asked."""

    def __init__(self, store):
        self.store, self.threads = store, set()

    def __getattr__(self, name):
        value = getattr(self.store, name)
        if not callable(value):
            return value

        def call(*arguments):
            self.threads.add(threading.current_thread())
            return value(*arguments)

        return call


async def ask_app(app, method, path, body=b"", kind="text/plain"):
    """Send a request to an application in this event loop; return the status."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", kind.encode())]
    target, _, search = path.partition("?")
    scope = {
        "type": "http", "method": method, "path": target, "raw_path": target.encode(), "headers": headers,
        "query_string": search.encode(), "http_version": "1.1", "scheme": "http", "client": ("127.0.0.1", 1),
        "server": ("localhost", 80), "root_path": "", "asgi": {"version": "3.0"},
    }  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"]


def test_the_store_is_never_asked_in_the_event_loop(indexed, query):
    catalogue = Catalogue(indexed)
    catalogue.edition()
    catalogue.index.store = catalogue._source = WatchedStore(catalogue.index.store)
    app = make_app(catalogue)
    body, kind = make_form(query.read_bytes())
    path = "/api/items/scans/3/3.png"

    async def ask_all():
        for request in (
            ("GET", "/api/info"),
            ("GET", "/api/map"),
            ("GET", path),
            ("GET", f"{path}/image"),
            ("GET", f"{path}/image?thumbnail=true"),
            ("POST", "/api/search", body, kind),
            ("POST", "/api/search", *make_form(fields={"item": "scans/3/3.png"})),
        ):
            catalogue.index.store.threads.clear()
            assert await ask_app(app, *request) == 200, request
            assert catalogue.index.store.threads, request
            assert threading.current_thread() not in catalogue.index.store.threads, request

    with ThreadPoolExecutor(1) as own:  # a browser that is driven has an event loop in the main thread
        own.submit(asyncio.run, ask_all()).result()
    catalogue.close()


def test_a_relabelled_item_of_milvus_is_noticed(digits_run, tmp_path):
    run = shutil.copytree(digits_run, tmp_path / "run", ignore=shutil.ignore_patterns("index", "*.ckpt"))
    store = str(tmp_path / "index.db")
    index, files = Index.open(run, store), [save_scan(i, tmp_path / f"{i}.png") for i in range(5)]
    index.add(files, labels=["a"] * 5)
    catalogue = Catalogue(run, store)
    before = catalogue.edition()
    assert before.labels == {"a": 5}
    index.add(files[:1], labels=["b"])
    wait_until(lambda: catalogue.edition().version != before.version)
    assert catalogue.edition().labels == {"a": 4, "b": 1}
    catalogue.close()
