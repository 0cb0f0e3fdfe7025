from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from bayestriplet.data.thumbnails import make_thumbnail
from bayestriplet.errors import InputError
from bayestriplet.report import montage
from bayestriplet.report.montage import check_montage, write_montage
from bayestriplet.report.search_figure import search_figure
from bayestriplet.retrieval.answers import Answer, Neighbour, Vote
from bayestriplet.retrieval.items import Item, Rows
from bayestriplet.retrieval.queries import Queries
from bayestriplet.retrieval.stores import open_store

IDS = ("whole", "cut", "junk", "empty", "gone")


@pytest.fixture
def index(tmp_path):
    """A store of four items; only the first has a thumbnail that can be read."""
    whole = make_thumbnail(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    store = open_store(tmp_path, None)
    items = tuple(Item(name, "tumour", "", name, "made", "train") for name in IDS[:4])
    thumbnails = (whole, whole[:300], b"junk", b"")
    store.write("f" * 64, 2, [Rows(items, np.eye(4, 2, dtype=np.float32), thumbnails)], [])
    return SimpleNamespace(store=store)


def answer(query="query.png"):
    near = tuple(Neighbour(k + 1, name, "tumour", 0.1 * k, "") for k, name in enumerate(IDS))
    return Answer(query, near, Vote("tumour", 1.0))


@pytest.fixture
def drawn(monkeypatch):
    """The rows that are drawn, which are drawn all the same."""
    seen = []

    def draw(rows):
        seen.extend(rows)
        return search_figure(rows)

    monkeypatch.setattr(montage, "search_figure", draw)
    return seen


def test_neighbours_whose_thumbnails_are_missing_or_broken_keep_their_place(index, drawn, tmp_path):
    pixels = np.zeros((1, 8, 8, 1), dtype=np.uint8)
    queries = Queries(("query.png",), np.zeros((1, 2), dtype=np.float32), pixels=pixels)
    write_montage(tmp_path / "montage.png", index, queries, [answer()])
    (row,) = drawn
    assert [one.distance for one in row.found] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert [one.image is None for one in row.found] == [False, True, True, True, True]
    with Image.open(tmp_path / "montage.png") as picture:
        assert picture.width == 1200


def test_queries_that_are_vectors_have_no_picture_of_their_own(index, drawn, tmp_path):
    queries = Queries(("0", "1"), np.zeros((2, 2), dtype=np.float32))
    write_montage(tmp_path / "montage.png", index, queries, [answer("0"), Answer("1", (), None)])
    assert [row.image for row in drawn] == [None, None]
    assert (tmp_path / "montage.png").is_file()


@pytest.mark.usefixtures("bare_fonts")
def test_a_query_whose_name_has_no_glyphs_is_numbered(index, drawn, tmp_path):
    queries = Queries(("a", "b"), np.zeros((2, 2), dtype=np.float32))
    write_montage(tmp_path / "montage.png", index, queries, [answer("a.png"), answer("folder/切片.png")])
    assert [row.caption.split(":")[0] for row in drawn] == ["a.png", "query 2"]


@pytest.mark.parametrize(
    ("name", "number", "message"),
    [
        ("a.jpg", 1, r"--montage must name a .png file; got .*a.jpg"),
        ("a.png", 17, "--montage shows at most 16 queries; there are 17"),
        ("missing/a.png", 1, "--montage: there is no folder .*missing"),
    ],
)
def test_a_montage_that_cannot_be_made_is_refused_before_any_work(name, number, message, tmp_path):
    with pytest.raises(InputError, match=message):
        check_montage(tmp_path / name, number)
