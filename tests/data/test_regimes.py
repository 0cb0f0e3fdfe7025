import numpy as np
import pytest

from bayestriplet.data.regimes import hold_out, make_imbalanced, make_noisy
from bayestriplet.data.sources import open_data
from bayestriplet.errors import InputError


def counts(images, split):
    return np.bincount(images.labels[images.indices(split)], minlength=len(images.classes))


def test_a_long_tail_falls_from_the_first_class_to_the_last_and_spares_the_other_splits():
    images = open_data("digits")
    tail = make_imbalanced(images, 20, seed=0)
    before, after = counts(images, "train"), counts(tail, "train")
    np.testing.assert_allclose(after / before, 20.0 ** (-np.arange(10) / 9), atol=0.01)
    for split in ("val", "test"):
        assert (counts(tail, split) == counts(images, split)).all()
    assert (make_imbalanced(images, 1, seed=0).labels == images.labels).all()
    assert counts(make_imbalanced(images, 1e6, seed=0), "train").min() == 2
    assert set(tail.ids) <= set(images.ids)


def test_wrong_labels_have_their_share_are_all_wrong_and_only_in_training():
    images = open_data("digits")
    noisy = make_noisy(images, 0.3, seed=0)
    changed = noisy.labels != images.labels
    assert changed[images.indices("train")].mean() == np.float64(round(0.3 * 1078) / 1078)
    assert not changed[images.indices("val")].any()
    assert not changed[images.indices("test")].any()
    assert (make_noisy(images, 0.3, seed=0).labels == noisy.labels).all()
    assert (make_noisy(images, 0.3, seed=1).labels != noisy.labels).any()
    assert len(np.unique((noisy.labels - images.labels)[changed] % 10)) == 9


def test_classes_held_out_leave_all_splits_and_the_others_move_up():
    images = open_data("digits")
    known, novel = hold_out(images, "3, 5,8")
    assert known.classes == tuple("0124679")
    assert novel.classes == images.classes
    assert sorted(known.ids + novel.ids) == sorted(images.ids)
    name = dict(zip(images.ids, images.labels.astype(str), strict=True))
    assert [known.classes[k] for k in known.labels] == [name[item] for item in known.ids]
    assert {name[item] for item in novel.ids} == {"3", "5", "8"}
    split = dict(zip(images.ids, images.splits, strict=True))
    assert [split[item] for item in known.ids] == known.splits.tolist()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("3,x", "without names 'x', which is no class of digits"),
        ("3,", "without names ''"),
        ("0,1,2,3,4,5,6,7,8", "without leaves 1 of the classes of digits; 2 are needed to train"),
    ],
)
def test_classes_that_cannot_be_held_out_are_one_line(names, message):
    with pytest.raises(InputError, match=message):
        hold_out(open_data("digits"), names)


def test_regimes_leave_classes_apart_that_the_splits_keep_apart():
    images = open_data("digits", split_by="class")
    trained = np.flatnonzero(counts(images, "train"))
    noisy = make_noisy(images, 0.5, seed=0)
    assert np.flatnonzero(counts(noisy, "train")).tolist() == trained.tolist()
    assert ((noisy.labels != images.labels).mean() / (images.splits == "train").mean()).round(2) == 0.5
    tail = counts(make_imbalanced(images, 20, seed=0), "train")[trained]
    np.testing.assert_allclose(
        tail / counts(images, "train")[trained], 20.0 ** (-np.arange(6) / 5), atol=0.01
    )
