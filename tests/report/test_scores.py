"""Tables of scores as people see them."""

from rich.console import Console

from bayestriplet.evaluation.bootstrap import Score
from bayestriplet.evaluation.galleries import GalleryScores
from bayestriplet.report.scores import HEADINGS, score_table


def test_no_figure_is_cut_at_eighty_columns():
    rows = {
        name: dict.fromkeys(HEADINGS, Score(1.0, 0.8, 1.0))
        for name in ("proxy-nca", "vectors as given", "frozen features")
    }
    found = GalleryScores("among", "12 test items", 12, 12, 0, 0, "groups", 3, rows)
    console = Console(width=80, record=True, file=None, force_terminal=False)
    with console.capture() as said:
        console.print(score_table(found))
    assert "…" not in said.get()
    assert said.get().count("100.0±10") == 18
