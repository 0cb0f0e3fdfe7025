"""The sample of taught examples that is kept."""

import numpy as np

from bayestriplet.runs.kept_examples import MOST_KEPT, KeptExamples


def made(number, seed=0, dim=4):
    return np.random.default_rng(seed).normal(size=(number, dim)).astype(np.float32)


def same(first, second):
    np.testing.assert_array_equal(first.vectors, second.vectors)
    np.testing.assert_array_equal(first.rows, second.rows)


def test_the_sample_depends_on_neither_order_nor_parts_and_does_not_grow():
    x, rows = made(300), np.arange(300) % 2
    whole = KeptExamples.of(x, rows)
    assert np.bincount(whole.rows).tolist() == [MOST_KEPT, MOST_KEPT]
    same(KeptExamples.of(x[::-1], rows[::-1]), whole)
    found = KeptExamples.nothing(4)
    for i in range(300):
        found = found.joined(KeptExamples.of(x[i : i + 1], rows[i : i + 1]))
    same(found, whole)
    assert {one.tobytes() for one in whole.vectors} <= {one.tobytes() for one in x}


def test_what_is_taken_out_leaves_the_others_also_where_it_was_rounded():
    x, rows = made(9), np.arange(9) % 3
    whole = KeptExamples.of(x, rows)
    same(whole.minus(x[:4] * (1 + 1e-6), rows[:4]), KeptExamples.of(x[4:], rows[4:]))
    same(whole.minus(made(2, 1), rows[:2]), whole)  # of a large class, which were not kept
    twice = KeptExamples.of(np.concatenate([x, x[:1]]), np.append(rows, 0))
    same(twice.minus(x[:1], rows[:1]), whole)
    assert twice.single.sum() == 8
    assert whole.single.all()


def test_classes_can_be_renumbered_and_taken_out():
    x, rows = made(6), np.arange(6) % 3
    found = KeptExamples.of(x, rows).renumbered(np.array([1, -1, 0]))
    same(found, KeptExamples.of(x[rows != 1], np.array([1, 0, 1, 0])))
