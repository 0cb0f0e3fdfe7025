import pytest

from bayestriplet.errors import InputError
from bayestriplet.runs.comparison_folder import ComparisonFolder


def test_a_folder_without_a_comparison_or_with_a_broken_one_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"holds no finished comparison: it has no comparison.json"):
        ComparisonFolder(tmp_path).read_summary()
    (tmp_path / "comparison.json").write_text('{"methods": 3}')
    with pytest.raises(InputError, match=r"comparison\.json is not a comparison: delete it"):
        ComparisonFolder(tmp_path).read_summary()
