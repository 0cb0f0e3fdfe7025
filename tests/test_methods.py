import pytest

from bayestriplet.config import TrainConfig
from bayestriplet.errors import InputError
from bayestriplet.methods import COMPARED, LADDERS, METHODS, TUNED, check_methods, having, listed
from bayestriplet.report.style import METHOD_COLOURS
from bayestriplet.triplets.baselines import BASELINES
from bayestriplet.triplets.build import CONSTRUCTORS


def test_every_method_has_a_constructor_and_every_constructor_is_a_method():
    assert list(CONSTRUCTORS) == list(METHODS)
    assert set(BASELINES) == {name for name, method in METHODS.items() if not method.draws}


def test_every_method_has_a_colour_of_its_own():
    assert len(set(METHOD_COLOURS.values())) == len(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_tuned_of_a_method_begins_on_its_ladder(name):
    method = METHODS[name]
    assert set(method.ladders) == {"lr", method.strength, *(["loss_rate"] if method.learned else [])}
    for option, ladder in method.ladders.items():
        assert ladder == LADDERS[option]
        assert ladder.start in ladder.rungs
        assert ladder.start_off_sphere is None or ladder.start_off_sphere in ladder.rungs
        assert list(ladder.rungs) == sorted(ladder.rungs)
    assert set(method.default) == set(method.paper) == {method.strength}


@pytest.mark.parametrize("recipe", ["default", "paper"])
@pytest.mark.parametrize("name", METHODS)
def test_a_config_takes_a_methods_own_values(name, recipe):
    config = TrainConfig(data="digits", method=name, recipe=recipe).resolved(10)
    for option in ("margin", "temperature"):
        assert getattr(config, option) == METHODS[name].values(recipe).get(option)
    assert (config.loss_rate is not None) == bool(METHODS[name].learned)


def test_what_is_tuned_is_an_option_of_training():
    assert set(TUNED) <= set(TrainConfig.model_fields)


def test_methods_are_listed_by_what_they_have():
    assert listed(having("draw_classes")) == "but and bunca"
    assert listed(having("loss_rate")) == "dws and proxy-nca"
    assert listed(["one"]) == "one"
    assert sorted(having("margin") + having("temperature")) == sorted(COMPARED)


def test_controls_are_methods_with_the_options_of_bunca_that_are_compared_only_if_named():
    controls = {name: METHODS[name] for name in METHODS if name not in COMPARED}
    assert list(controls) == ["vertices", "means", "no-noise"]
    bunca = METHODS["bunca"]
    for method in controls.values():
        assert method.control
        assert (method.default, method.paper, method.ladders) == (bunca.default, bunca.paper, bunca.ladders)
        assert (method.draws, method.learned, method.needs_positives) == (True, "", False)


def test_vertices_are_refused_off_the_sphere_and_stay_on_it_in_the_papers_recipe():
    with pytest.raises(
        ValueError, match="vertices has its points on the unit sphere: leave out --no-normalize"
    ):
        TrainConfig(data="digits", method="vertices", normalize=False)
    assert TrainConfig(data="digits", method="vertices", recipe="paper").resolved(10).normalize
    assert TrainConfig(data="digits", method="means", normalize=False).normalize is False


def test_names_of_methods_are_checked():
    assert check_methods(["bh", "but"]) == ("bh", "but")
    with pytest.raises(InputError, match=r"methods must be one of 'but', .*; got 'bat'; did you mean 'ba'"):
        check_methods(["bat"])
    with pytest.raises(InputError, match="methods must name different ones; got bh, bh"):
        check_methods(["bh", "bh"])
