import math

import numpy as np
import pytest

from bayestriplet.errors import InputError
from bayestriplet.runs.metrics import append_metrics, begin_metrics, read_metrics


def write_metrics(path, rows):
    begin_metrics(path, 0)
    for row in rows:
        append_metrics(path, row)
    return path


def test_what_was_written_is_read_and_the_last_best_row_is_known(tmp_path):
    rows = [[20 * k, 0, 1 / k, 0.5, 0.1, 0.9 if k in (30, 60) else 0.5 if k == 90 else None, k / 2]
            for k in range(1, 101)]  # fmt: skip
    curves = read_metrics(write_metrics(tmp_path / "metrics.csv", rows))
    np.testing.assert_allclose(curves.loss, [1 / k for k in range(1, 101)])
    assert curves.step[curves.best] == 1200
    assert curves.validations == [(600, 15.0, 90.0), (1200, 30.0, 90.0), (1800, 45.0, 50.0)]


def test_without_a_validation_there_is_no_best_row(tmp_path):
    curves = read_metrics(write_metrics(tmp_path / "metrics.csv", [[20, 0, 1.0, None, 0.1, math.nan, 1]]))
    assert curves.best is None
    assert curves.validations == []
    assert np.isnan(curves.active).all()


def test_a_run_that_goes_on_keeps_the_rows_up_to_its_checkpoint(tmp_path):
    path = write_metrics(tmp_path / "metrics.csv", [[k, 0, 0.5, None, 0.1, None, 1] for k in (20, 40, 60)])
    begin_metrics(path, 40)
    assert read_metrics(path).step.tolist() == [20, 40]


@pytest.mark.parametrize(
    "text", ["step,loss\n1,x\n", "a,b\n1,2\n", "step,loss\n,1\n", "step,loss\n1,\udcff\n"]
)
def test_a_broken_file_is_named(text, tmp_path):
    (tmp_path / "metrics.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    message = r"metrics.csv is not a log of a run: it needs numbers in columns step and loss"
    with pytest.raises(InputError, match=message):
        read_metrics(tmp_path / "metrics.csv")


def test_a_missing_file_is_named_with_what_to_do(tmp_path):
    with pytest.raises(
        InputError, match=r"metrics.csv is missing: put it back, or train again with --config"
    ):
        read_metrics(tmp_path / "metrics.csv")
