"""Results that are kept until another one is asked for."""

from bayestriplet.posterior.latest import Latest


def test_a_result_is_made_again_only_for_another_key():
    latest, made = Latest(), []

    def make():
        made.append(len(made))
        return made[-1]

    assert [latest.get(key, make) for key in (("a",), ("a",), ("b",), ("a",))] == [0, 0, 1, 2]
