import pytest

from bayestriplet.errors import InputError
from bayestriplet.report.figure import head_height, new_figure, save_figure
from tests.report.drawings import LONG_DATA, overlapping_texts, texts_inside


@pytest.mark.parametrize("repeated", [1, 3])
@pytest.mark.parametrize("constrained", [True, False])
def test_titles_are_wrapped_to_the_width_and_the_head_grows_with_them(repeated, constrained):
    title, subtitle = f"UMAP of test items of {LONG_DATA} " * repeated, "Names at the median. " * 9 * repeated
    figure = new_figure(3, title, subtitle, constrained)
    assert texts_inside(figure)
    assert not overlapping_texts(figure)
    assert figure.get_figheight() == pytest.approx(3 + head_height(title, subtitle), abs=0.01)
    assert head_height(title, subtitle) > head_height("UMAP", "Names at the median.")
    head = figure.get_figheight() - min(text.get_window_extent().y0 for text in figure.texts) / figure.dpi
    assert head <= head_height(title, subtitle)


def test_a_figure_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match=r"missing/a.png cannot be written: No such file or directory"):
        save_figure(new_figure(3, "t", "s"), tmp_path / "missing" / "a.png")
