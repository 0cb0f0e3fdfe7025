"""Teaching over the network."""

import json
import shutil
import threading

import pytest
from PIL import Image

from bayestriplet.retrieval.teaching import Teacher
from tests.service.servers import Server, save_scan


@pytest.fixture(scope="module")
def taught(indexed, tmp_path_factory):
    """A server of a copy of the run, which may be taught, with a token."""
    run = shutil.copytree(indexed, tmp_path_factory.mktemp("teach") / "run")
    server = Server(run, "--token", "secret")
    server.run = run
    yield server
    server.stop()


HEADERS = {"authorization": "Bearer secret"}


def teach(server, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", **HEADERS, **headers}
    status, _, answer = server.request("POST", "/api/teach", content, sent)
    return status, json.loads(answer)


def replay_of(server, number, folder):
    picture = save_scan(number, folder / f"{number}.png").read_bytes()
    return server.search(picture, headers=HEADERS, k=1)[1]


def test_a_taught_picture_is_in_the_next_answer_and_gone_when_undone(taught, tmp_path):
    before = replay_of(taught, 7, tmp_path)
    status, found = teach(taught, {"label": "wedge", "replays": [before["replay"]]})
    assert (status, found["writable"], found["classes"][-1]) == (
        200, True, {"name": "wedge", "trained": 0, "taught": 1}
    )  # fmt: skip
    after = replay_of(taught, 7, tmp_path)
    assert after["probabilities"]["wedge"] > 0.1
    assert after["against"] == "trained on or taught"
    assert taught.get("/api/info", **HEADERS)[1]["classes"][-1] == "wedge"
    status, found = teach(taught, {"label": "wedge", "replays": [before["replay"]], "undo": True})
    assert status == 200
    assert "wedge" not in [one["name"] for one in found["classes"]]
    assert replay_of(taught, 7, tmp_path)["probabilities"] == before["probabilities"]


def test_a_replay_says_how_its_picture_looks_and_teaches_that_too(taught, tmp_path):
    picture = tmp_path / "white.png"
    Image.new("L", (8, 8), 255).save(picture)
    first = taught.search(picture.read_bytes(), headers=HEADERS, k=1)[1]
    again = taught.search(headers=HEADERS, replay=first["replay"], k=1)[1]
    assert again["novelty"] == first["novelty"] > 99
    teach(taught, {"label": "blank", "replays": [first["replay"]]})
    assert Teacher.open(taught.run).read().looks.count.tolist() == [1.0]
    assert taught.search(picture.read_bytes(), headers=HEADERS, k=1)[1]["novelty"] < 99
    teach(taught, {"label": "blank", "replays": [first["replay"]], "undo": True})
    assert not taught.run.joinpath("taught.safetensors").exists()
    assert taught.search(picture.read_bytes(), headers=HEADERS, k=1)[1]["novelty"] == first["novelty"]


def test_two_who_teach_at_once_lose_nothing(taught, tmp_path):
    replays = [replay_of(taught, i, tmp_path)["replay"] for i in range(8)]
    threads = [
        threading.Thread(target=teach, args=(taught, {"label": f"class {i % 2}", "replays": [one]}))
        for i, one in enumerate(replays)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Teacher.open(taught.run).read()
    assert {name: found.count(name) for name in found.classes} == {"class 0": 4, "class 1": 4}
    for name in found.classes:
        Teacher.open(taught.run).forget(name)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"no json", 422, "a JSON object"),
        (b"[" * 100_000, 422, "a JSON object"),
        ({"label": "x"}, 422, "replays must be a list"),
        ({"label": "", "replays": ["a"]}, 422, "replay must be"),
        ({"label": "x", "replays": ["a"]}, 422, "replay must be"),
        ({"label": "x" * 201, "replays": ["a"]}, 422, "up to 200 letters"),
        ({"label": "x", "replays": [1]}, 422, "replays must be texts"),
        ({"label": "x", "replays": [], "more": 1}, 422, "a JSON object"),
        (b" " * (5 * 2**20), 413, "too many pictures"),
    ],
)
def test_what_cannot_be_taught_is_refused_in_words(taught, body, status, message):
    found = teach(taught, body)
    assert found[0] == status
    assert message in found[1]["message"]


def test_names_in_other_letters_the_wrong_token_and_undoing_what_was_not_taught_are_refused(taught, tmp_path):
    replay = replay_of(taught, 3, tmp_path)["replay"]
    teach(taught, {"label": "Bow", "replays": [replay]})
    assert "is there as 'Bow'" in teach(taught, {"label": "bow", "replays": [replay]})[1]["message"]
    status, found = teach(taught, {"label": "never", "replays": [replay], "undo": True})
    assert (status, found["message"]) == (422, "'never' was taught 0 examples; 1 cannot be undone")
    assert teach(taught, {"label": "Bow", "replays": [replay]}, authorization="Bearer wrong")[0] == 401
    assert Teacher.open(taught.run).forget("Bow") == 1


def test_a_server_that_is_read_only_refuses_and_is_so_by_default_beyond_this_machine(indexed, tmp_path):
    servers = [
        Server(indexed, "--token", "secret", "--read-only"),
        Server(indexed, "--token", "secret", "--host", "0.0.0.0"),  # noqa: S104
    ]
    try:
        for server in servers:
            server.host = "127.0.0.1"
            replay = replay_of(server, 3, tmp_path)["replay"]
            status, found = teach(server, {"label": "x", "replays": [replay]})
            assert (status, "read-only" in found["message"]) == (403, True)
            assert server.get("/api/classes", **HEADERS)[1]["writable"] is False
    finally:
        for server in servers:
            server.stop()
    assert not (indexed / "taught.safetensors").exists()
