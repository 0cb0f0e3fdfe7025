import numpy as np

from bayestriplet.retrieval.answers import name_shares


def test_an_answer_has_all_of_few_classes_and_the_ten_likeliest_of_many():
    few = name_shares(("b", "a"), [0.25, 0.75])
    assert few == {"b": 0.25, "a": 0.75}
    shares = np.random.default_rng(0).dirichlet(np.ones(10_000))
    found = name_shares([f"c{k}" for k in range(10_000)], shares.tolist())
    order = np.argsort(-shares)[:10]
    assert list(found) == [f"c{k}" for k in order]
    assert list(found.values()) == shares[order].tolist()
