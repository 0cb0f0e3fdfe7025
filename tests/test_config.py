import pytest

from bayestriplet.config import TrainConfig, make_config
from bayestriplet.errors import InputError
from bayestriplet.runs.config_file import read_toml
from bayestriplet.runs.folder import RunFolder


def test_a_config_survives_toml_complete(tmp_path):
    config = make_config({"data": "mnist", "method": "bh", "lr": 0.01, "skip_bad": True}, "test").resolved(10)
    RunFolder(tmp_path).write_config(config)
    assert make_config(read_toml(tmp_path / "config.toml"), "test") == config
    assert (tmp_path / "config.toml").read_text().startswith("format = 1\n")


def test_a_file_of_options_needs_no_format(tmp_path):
    (tmp_path / "mine.toml").write_text('data = "mnist"')
    assert read_toml(tmp_path / "mine.toml") == {"data": "mnist"}


@pytest.mark.parametrize(
    ("method", "recipe", "margin", "temperature"),
    [
        ("but", "default", 0.25, None),
        ("but", "paper", 0.25, None),
        ("bunca", "default", None, 0.15),
        ("bunca", "paper", None, 1.0),
        ("bh", "default", 0.2, None),
        ("nca", "default", None, 0.1),
    ],
)
def test_the_recipe_fills_in_what_was_not_given(method, recipe, margin, temperature):
    config = make_config({"data": "mnist", "method": method, "recipe": recipe}, "test").resolved(9)
    assert (config.margin, config.temperature) == (margin, temperature)
    assert config.batch_size == (45 if recipe == "paper" else 50)
    assert config.lr == (1e-5 if recipe == "paper" else 5e-3)
    assert make_config({"data": "x", "lr": 3.0}, "test").resolved(9).lr == 3.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"marign": 1}, "run.toml: unknown option 'marign'; did you mean 'margin'"),
        ({"method": "bat"}, "run.toml: there is no method 'bat'; did you mean 'ba'.*known: but, bunca"),
        ({"dim": 0}, "run.toml: dim: input should be greater than or equal to 1; got 0"),
        ({"lr": "fast"}, "run.toml: lr: input should be a valid number.*; got 'fast'"),
        ({"lr": -1}, "run.toml: lr: input should be greater than 0; got -1"),
        ({"width": 0.3}, "width must be one of 0.25, 0.5 and 1; got 0.3"),
        ({"method": "nca", "margin": 0.1}, "nca has no margin; it takes a temperature"),
        ({"method": "nca", "loss_rate": 10}, "nca has no loss_rate; only dws and proxy-nca learn a loss"),
        ({"method": "bsh", "margin": 0}, "margin must be above 0; only bh takes 0, its soft margin"),
        ({"method": "but", "temperature": 0.1}, "but has no temperature; it takes a margin"),
    ],
)
def test_a_wrong_value_is_one_line(values, message):
    with pytest.raises(InputError, match=message) as caught:
        make_config({"data": "mnist"} | values, "run.toml")
    assert "\n" not in str(caught.value)


def test_data_must_be_named():
    with pytest.raises(InputError, match="data is missing: name the data to train on"):
        make_config({}, "train")


def test_files_that_are_no_toml_are_one_line(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(InputError, match=r"bad.toml: cannot be read as TOML"):
        read_toml(tmp_path / "bad.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read as TOML"):
        read_toml(tmp_path / "binary.toml")


def test_every_option_is_described():
    assert all(field.description for field in TrainConfig.model_fields.values())


def test_a_file_of_class_splits_means_the_same_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = make_config({"data": "digits", "split_by": "class:mine.csv"}, "test")
    assert config.split_by == f"class:{tmp_path / 'mine.csv'}"
    assert make_config({"data": "digits", "split_by": "class"}, "test").split_by == "class"
    with pytest.raises(
        InputError, match=r"train: split_by must be item, .*; got 'clas'; did you mean 'class'"
    ):
        make_config({"data": "digits", "split_by": "clas"}, "train")


def test_an_option_of_before_is_refused_with_the_one_that_replaced_it():
    with pytest.raises(
        InputError, match="train: there is no option 'num_negatives' any more: draw_classes says"
    ):
        make_config({"data": "digits", "num_negatives": 32}, "train")


def test_a_run_that_saved_an_option_of_before_still_opens(tmp_path):
    (tmp_path / "config.toml").write_text('data = "digits"\nnum_negatives = 32\n')
    assert RunFolder(tmp_path).read_config().draw_classes is None


@pytest.mark.parametrize(
    "name",
    ["per_class", "imbalance", "margin", "temperature", "draw_classes", "batch_size", "loss_rate",
     "max_epochs", "max_steps", "validate_every", "patience", "workers", "devices", "dim", "size", "seed"],
)  # fmt: skip
def test_every_number_has_an_upper_bound(name):
    with pytest.raises(InputError, match=f"run.toml: {name}: input should be less than .*; got 10000000"):
        make_config({"data": "mnist", name: 10**20}, "run.toml")


@pytest.mark.parametrize("name", ["lr", "margin", "imbalance", "label_noise"])
def test_numbers_are_finite(name):
    for value in (float("inf"), float("nan")):
        with pytest.raises(InputError, match=f"run.toml: {name}: input should be"):
            make_config({"data": "mnist", name: value}, "run.toml")
