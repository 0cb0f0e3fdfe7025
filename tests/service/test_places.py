import os

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bayestriplet.retrieval.items import Item, Stored
from bayestriplet.service.mapping import MapMaker
from bayestriplet.service.places import Places
from tests.service.servers import wait_until


def make_sample(number, dim=6, seed=0):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(number, dim)).astype(np.float32) * np.arange(dim, 0, -1)
    vectors[number // 2 :] += 30
    return [
        Stored(
            Item(f"set/{i}", "ab"[i >= number // 2], "", "", "set", f"{i:032x}"),
            vectors[i].astype(np.float32),
        )
        for i in range(number)
    ]


def test_principal_axes_are_those_of_the_covariance():
    sample = make_sample(50)
    places = Places.along_principal_axes("1", sample)
    vectors = np.array([one.vector for one in sample], np.float64)
    values = np.linalg.eigvalsh(np.cov(vectors.T))[::-1]
    assert places.way == "pca"
    np.testing.assert_allclose(
        np.cov(places.points.T.astype(np.float64)), np.diag(values[:2]), rtol=1e-4, atol=1e-2
    )


@pytest.mark.parametrize(("number", "dim"), [(1, 6), (2, 6), (3, 1)])
def test_few_items_have_places_too(number, dim):
    places = Places.along_principal_axes("1", make_sample(number, dim))
    assert places.points.shape == (number, 2)
    assert np.isfinite(places.points).all()


def test_a_mapped_item_lies_where_it_is_and_a_new_one_among_its_nearest():
    sample = make_sample(40)
    places = Places.along_principal_axes("1", sample)
    np.testing.assert_allclose(places.place(sample[7].vector), places.points[7], atol=1e-3)
    new = sample[3].vector + np.float32(0.3)
    near = np.argsort(cdist(new[None], places.vectors)[0])[:5]
    low, high = places.points[near].min(0), places.points[near].max(0)
    place = np.array(places.place(new))
    assert (low - 1e-4 <= place).all()
    assert (place <= high + 1e-4).all()


def test_kept_places_are_found_again_for_the_same_version_and_items_only(tmp_path):
    sample = make_sample(12)
    plain = Places.along_principal_axes("v/1", sample)
    found = plain.placed(plain.points * 2, "umap")
    found.save(tmp_path / "maps")
    again = plain.load(tmp_path / "maps")
    assert again.way == "umap"
    np.testing.assert_array_equal(again.points, found.points)
    assert Places.along_principal_axes("v/2", sample).load(tmp_path / "maps") is None
    assert Places.along_principal_axes("v/1", sample[1:]).load(tmp_path / "maps") is None
    file = next((tmp_path / "maps").iterdir())
    file.write_bytes(file.read_bytes()[:50])
    assert plain.load(tmp_path / "maps") is None


@pytest.mark.parametrize(
    ("place", "value"),
    [(10, 99), (8, 1 << 5), (6, 255)],  # an unknown compression, patched data, a later version of zip
)
def test_damaged_places_are_computed_anew(tmp_path, place, value):
    sample = make_sample(12)
    plain = Places.along_principal_axes("v", sample)
    plain.placed(plain.points * 2, "umap").save(tmp_path)
    (kept,) = tmp_path.iterdir()
    content = bytearray(kept.read_bytes())
    for start in (content.index(b"PK\1\2"), content.rindex(b"PK\1\2")):  # members of the central directory
        content[start + place] = value
    kept.write_bytes(content)
    assert plain.load(tmp_path) is None
    assert MapMaker(tmp_path).begin("v", sample).way == "pca"


def test_places_that_cannot_be_kept_do_no_harm(tmp_path):
    (tmp_path / "maps").write_text("a file in the way")
    Places.along_principal_axes("1", make_sample(3)).save(tmp_path / "maps")


def test_a_umap_follows_and_keeps_classes_apart(tmp_path):
    maker, sample = MapMaker(tmp_path / "maps"), make_sample(60)
    try:
        assert maker.begin("1", []) is None
        assert maker.best(None) is None
        plain = maker.begin("1", sample)
        assert plain.way == "pca"
        assert maker.is_working
        assert os.getpriority(os.PRIO_PROCESS, maker._process.pid) == 19  # requests come first
        wait_until(lambda: maker.best(plain).way == "umap")
        points = maker.best(plain).points
        apart = np.linalg.norm(points[:30].mean(0) - points[30:].mean(0))
        assert apart > 2 * max(points[:30].std(0).max(), points[30:].std(0).max())
        assert MapMaker(tmp_path / "maps").begin("1", sample).way == "umap"  # kept
        fresh = MapMaker(tmp_path / "maps")
        assert fresh.begin("2", sample).way == "pca"  # of another version
        assert fresh.best(plain) is plain  # whoever still answers with the last version keeps its places
        fresh.close()
        wait_until(lambda: not fresh.is_working, 20)
    finally:
        maker.close()


def test_a_few_items_get_no_umap(tmp_path):
    maker = MapMaker(tmp_path)
    assert maker.begin("1", make_sample(29)).way == "pca"
    assert not maker.is_working
