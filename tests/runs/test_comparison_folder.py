import json

import pytest

from bayestriplet.errors import InputError
from bayestriplet.runs.comparison_folder import ComparisonFolder


def test_a_folder_without_a_comparison_or_with_a_broken_one_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"holds no finished comparison: it has no comparison.json"):
        ComparisonFolder(tmp_path).read_summary()
    (tmp_path / "comparison.json").write_text('{"methods": 3}')
    with pytest.raises(InputError, match=r"comparison\.json is not a comparison: delete it"):
        ComparisonFolder(tmp_path).read_summary()


RECALLS = {f"recall@{k}": 97.5 for k in (1, 4, 8, 16)}
SUMMARY = {
    "data": "digits",
    "methods": {
        "but": {
            "chosen": {"lr": 0.001, "normalize": True},
            "seeds": {0: {**RECALLS, "seconds": 9.25, "learning": [[10, 1.5, 90.0]]}},
        }
    },
    "floors": {"raw pixels": RECALLS},
    "settings": {"data": "digits", "imbalance": None, "lr": float("inf")},
}


def test_a_changed_number_is_noticed_and_another_layout_is_not(tmp_path):
    folder = ComparisonFolder(tmp_path)
    folder.write_summary(SUMMARY)
    found = folder.read_summary()
    assert found == {"format": 1, **json.loads(json.dumps(SUMMARY))}
    folder.summary.write_text(json.dumps(json.loads(folder.summary.read_text()), sort_keys=True))
    assert folder.read_summary() == found
    folder.summary.write_text(folder.summary.read_text().replace("97.5", "98.5"))
    with pytest.raises(InputError, match=r"comparison\.json is damaged: it is not what was written"):
        folder.read_summary()


def test_floors_and_settings_have_their_sums_too(tmp_path):
    folder = ComparisonFolder(tmp_path / "compared")
    folder.claim({"data": "digits"})
    folder.write_floors("a-run", SUMMARY["floors"])
    for path, read in (
        (folder.settings, lambda: folder.claim({"data": "digits"})),
        (folder.floors, lambda: folder.read_floors("a-run")),
    ):
        read()
        path.write_text(path.read_text().replace("d", "e", 1))
        with pytest.raises(InputError, match="is damaged: it is not what was written"):
            read()


def test_files_of_before_there_were_sums_are_read(tmp_path):
    (tmp_path / "comparison.json").write_text(json.dumps({"format": 1, **SUMMARY}))
    assert ComparisonFolder(tmp_path).read_summary()["data"] == "digits"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"but"', '"bvt"'), ('"recall@4"', '"recbll@4"'), ('"seconds": 9.25', '"seconds": "9.25"'),
        ("[[10, 1.5, 90.0]]", "[[10, 1.5]]"), ('"lr": 0.001', '"lr": []'), ('"raw pixels": {', '"raw": {"x'),
        ('"settings": {"data"', '"settings": {"dbta"'), ('"imbalance": null', '"imbalance": "null"'),
        ('"chosen": {', '"chosen": 1, "x": {'), ('"data": "digits", "methods"', '"methods"'),
    ],
)  # fmt: skip
def test_a_damaged_file_without_a_sum_is_one_line(tmp_path, before, after):
    text = json.dumps({"format": 1, **SUMMARY})
    assert before in text
    (tmp_path / "comparison.json").write_text(text.replace(before, after, 1))
    with pytest.raises(InputError, match=r"comparison\.json (is not a comparison|cannot be read)"):
        ComparisonFolder(tmp_path).read_summary()


def test_damaged_floors_without_a_sum_are_measured_again(tmp_path):
    (tmp_path / "floors.json").write_text('{"run": "a-run", "flaars": {}}')
    assert ComparisonFolder(tmp_path).read_floors("a-run") is None
