"""Who is turned away before a request costs anything."""

import pytest

from bayestriplet.service.guard import is_own_request, name_of
from tests.service.servers import make_form, save_scan


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
