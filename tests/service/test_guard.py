"""Who is turned away before a request costs anything."""

import hmac
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.datastructures import Headers

from bayestriplet.service import guard
from bayestriplet.service.guard import Failures, is_own_request, knows_token, name_of
from tests.service.servers import Server, make_form, save_scan


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost", "localhost"),
        ("LOCALHOST:8000", "localhost"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]:80", "::1"),
        ("[::1]", "::1"),
    ],
)
def test_a_host_is_named_without_its_port(host, name):
    assert name_of(host) == name


@pytest.mark.parametrize(
    "host",
    [
        "[127.0.0.1]evil.com",
        "[127.0.0.1]",
        "[::1]evil.com",
        "[::1]:80.evil.com",
        "[::1",
        "127.0.0.1:80.evil.com",
        "127.0.0.1:80@evil.com",
        "localhost:evil.com",
        "localhost:",
        "user@localhost",
        "",
    ],
)
def test_a_host_that_is_not_well_formed_has_no_name(host):
    assert name_of(host) == ""


@pytest.mark.parametrize("host", ["[127.0.0.1]evil.com", "[::1]evil.com", "127.0.0.1:80.evil.com"])
def test_a_host_that_only_begins_like_this_machine_is_refused(server, host):
    assert server.request("GET", "/api/info", headers={"host": host})[0] == 403


OWN, FOREIGN = "http://localhost:8000", "http://evil.example"


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({}, True),
        ({"origin": OWN}, True),
        ({"origin": OWN.upper()}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"origin": "https://search.example", "sec-fetch-site": "same-origin"}, True),  # a proxy's other name
        ({"origin": FOREIGN}, False),
        ({"origin": "http://localhost:9000"}, False),
        ({"origin": "http://localhost"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site", "origin": OWN}, False),
    ],
)
def test_a_request_of_another_site_is_told_by_its_headers(headers, own):
    assert is_own_request({"host": "localhost:8000", **headers}) is own


def test_the_default_port_may_be_left_out_of_an_origin():
    assert is_own_request({"host": "localhost:80", "origin": "http://localhost"})
    assert is_own_request({"host": "search.example", "origin": "https://search.example:443"})


@pytest.mark.parametrize(
    "headers", [{"origin": FOREIGN}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_searches_that_other_sites_send_are_refused(server, tmp_path, headers):
    image = save_scan(3, tmp_path / "query.png").read_bytes()
    refusal = {"message": "requests that pages of other sites send are not answered"}
    assert server.search(image, headers=headers) == (403, refusal)
    assert server.request("POST", "/api/session", headers=headers)[0] == 403
    assert server.get("/api/map", **headers) == (403, refusal)


def test_searches_of_the_own_page_are_answered(server, tmp_path):
    image = save_scan(3, tmp_path / "query.png").read_bytes()
    body, kind = make_form(image)
    for headers in ({"origin": server.address}, {"origin": server.address, "sec-fetch-site": "same-origin"}):
        answered = server.request("POST", "/api/search", body, {"content-type": kind, **headers})
        assert answered[0] == 200


def test_wrong_tokens_wait_the_longer_the_more_there_were_and_a_minute_later_no_more():
    failures = Failures()
    assert [round(failures.note(float(second)), 1) for second in range(3)] == [0.2, 0.4, 0.6]
    assert max(failures.note(3.0) for _ in range(1000)) == guard.SLOWEST
    assert len(failures._moments) < 100
    assert round(failures.note(100.0), 1) == 0.2


def test_tokens_and_cookies_are_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    assert knows_token(Headers({"authorization": "Bearer secret"}), "secret")
    assert not knows_token(Headers({"authorization": "Bearer secre"}), "secret")
    assert not knows_token(Headers({"cookie": "bayestriplet=secret"}), "secret")
    assert len(compared) == 3


def test_guesses_are_slowed_down_and_who_knows_the_token_is_not(indexed):
    server = Server(indexed, "--token", "open-sesame")
    wrong, right = ({"authorization": f"Bearer {one}"} for one in ("guess", "open-sesame"))
    try:
        with ThreadPoolExecutor(8) as pool:
            began = time.monotonic()
            guesses = [pool.submit(server.request, "GET", "/api/info", None, wrong) for _ in range(8)]
            answers = []
            while not all(one.done() for one in guesses):
                asked = time.monotonic()
                answers.append((server.request("GET", "/api/info", None, right)[0], time.monotonic() - asked))
            took = time.monotonic() - began
        assert {one.result()[0] for one in guesses} == {401}
        assert took > 8 * guard.SLOWER
        assert {status for status, _ in answers} == {200}
        assert sorted(seconds for _, seconds in answers)[len(answers) // 2] < guard.SLOWER
    finally:
        server.stop()
