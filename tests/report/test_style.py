import pytest

from bayestriplet.errors import MissingDependencyError
from bayestriplet.report import style
from bayestriplet.report.figure import new_figure
from bayestriplet.report.style import METHOD_COLOURS, class_styles


def test_every_method_has_a_colour_of_its_own():
    methods = {"but", "bunca", "ba", "bsh", "bh", "ep", "dws", "nca", "proxy-nca"} | {
        "vertices",
        "means",
        "no-noise",
    }
    assert METHOD_COLOURS.keys() == methods
    assert len(set(METHOD_COLOURS.values())) == 12


@pytest.mark.parametrize("number", [1, 8, 10, 20, 21, 100])
def test_classes_differ_in_colour_or_marker(number):
    assert len(set(class_styles(number))) == number


def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch):
    def fail(name):
        raise ImportError(name)

    monkeypatch.setattr(style.importlib, "import_module", fail)
    with pytest.raises(MissingDependencyError, match=r"pip install 'bayestriplet\[figures\]'"):
        new_figure(3, "t", "s")
