"""The sample of taught examples that is kept."""

import hashlib

import numpy as np
import pytest

from bayestriplet.runs.kept_examples import MOST_ASKED, MOST_KEPT, KeptExamples


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


def test_the_sample_is_of_the_smallest_hashes_and_its_first_half_is_asked():
    x, rows = made(300), np.arange(300) % 2
    hashes = [hashlib.blake2b(one.tobytes(), digest_size=8).hexdigest() for one in x]
    wanted = [i for row in (0, 1) for i in sorted(np.flatnonzero(rows == row), key=lambda i: hashes[i])[:50]]
    same(KeptExamples.of(x, rows).asked, KeptExamples.of(x[wanted], rows[wanted]))


@pytest.mark.parametrize("number", [1, 10, MOST_KEPT - MOST_ASKED])
def test_undoing_leaves_those_asked_that_were_before(number):
    x, more, rows = made(400), made(number, 1), np.zeros(400, int)
    before = KeptExamples.of(x, rows)
    after = before.joined(KeptExamples.of(more, rows[:number])).minus(more, rows[:number])
    same(after.asked, before.asked)


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
