import pytest

from bayestriplet.errors import InputError, MissingDependencyError
from bayestriplet.report import style
from bayestriplet.report.style import METHOD_COLOURS, class_styles, new_figure, readable, save_figure


def test_every_method_has_a_colour_of_its_own():
    methods = {"but", "bunca", "ba", "bsh", "bh", "ep", "dws", "nca", "proxy-nca"}
    assert METHOD_COLOURS.keys() == methods
    assert len(set(METHOD_COLOURS.values())) == 9


@pytest.mark.parametrize("number", [1, 8, 10, 20, 21, 100])
def test_classes_differ_in_colour_or_marker(number):
    assert len(set(class_styles(number))) == number


def test_a_name_is_drawn_as_it_is_and_shortened_in_the_middle():
    assert readable("$5 and $6", 20) == r"\$5 and \$6"
    assert readable("two\nlines", 20) == "two lines"
    assert len(readable("a" * 50 + " 07", 12)) == 12
    assert readable("class with a long name 07", 12).endswith("07")


def test_a_figure_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match=r"missing/a.png cannot be written: No such file or directory"):
        save_figure(new_figure(3, "t", "s"), tmp_path / "missing" / "a.png")


def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch):
    def fail(name):
        raise ImportError(name)

    monkeypatch.setattr(style.importlib, "import_module", fail)
    with pytest.raises(MissingDependencyError, match=r"pip install 'bayestriplet\[figures\]'"):
        new_figure(3, "t", "s")
