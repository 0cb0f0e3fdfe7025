import pytest

from bayestriplet.errors import InputError
from bayestriplet.retrieval.conditions import Condition, in_words, read_conditions


def test_conditions_are_read_from_values_by_field_and_from_texts():
    assert read_conditions(None) == read_conditions({}) == read_conditions([]) == ()
    assert read_conditions({"label": "TUM"}) == (Condition("label", "TUM"),)
    texts = ["label=a!=b", "group!=P7", "group!=P8", "group!=P7", "source="]
    found = read_conditions(texts)
    assert found == (
        Condition("label", "a!=b"),
        Condition("group", "P7", is_excluded=True),
        Condition("group", "P8", is_excluded=True),
        Condition("source", ""),
    )
    assert in_words(found) == "label=a!=b and group!=P7 and group!=P8 and source="
    assert read_conditions("group!=a=b") == (Condition("group", "a=b", is_excluded=True),)


def test_a_group_to_exclude_is_one_condition_more():
    expected = (Condition("label", "TUM"), Condition("group", "P7", is_excluded=True))
    assert read_conditions({"label": "TUM"}, "P7") == expected
    assert read_conditions(["label=TUM", "group!=P7"], "P7") == expected


@pytest.mark.parametrize(
    ("where", "group", "message"),
    [
        (["label"], None, "--where must be FIELD=VALUE or FIELD!=VALUE, such as label=TUM; got 'label'"),
        (["lable!=1"], None, r"--where must be one of .*; got 'lable'; did you mean 'label'"),
        (["label=1", "label=2"], None, "--where names label twice: label=1 and label=2"),
        (["label=A", "label!=A"], None, "label 'A' is both asked for and excluded; leave out one of them"),
        (["group!=P7", "group=P7"], None, "group 'P7' is both asked for and excluded"),
        ({"group": "P7"}, "P7", "group 'P7' is both asked for and excluded"),
        (["group!="], None, "--where group!= excludes nothing: name a group, such as group!=NAME"),
        (["label!="], None, "--where label!= excludes nothing: name a label, such as label!=NAME"),
        (None, "", "the group to exclude must have a name: an empty group is no group"),
    ],
)
def test_conditions_that_cannot_be_met_are_one_line(where, group, message):
    with pytest.raises(InputError, match=message) as caught:
        read_conditions(where, group, option="--where")
    assert "\n" not in str(caught.value)
