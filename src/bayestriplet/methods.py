"""The methods there are, each described once: config, commands, search, figures and documents read this.

Constructors are not here: ``triplets.build`` maps the same names to them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bayestriplet.checks import check_choice
from bayestriplet.errors import InputError


@dataclass(frozen=True)
class Ladder:
    """The values of an option that a search climbs, and where it starts."""

    rungs: tuple[float, ...]
    start: float
    start_off_sphere: float | None = None
    """Where the search without normalisation starts; None: from the best with it."""


RATE = Ladder((2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 2e-1), start=5e-3)
MARGIN = Ladder((0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0), start=0.25)
TEMPERATURE = Ladder(
    (0.01, 0.02, 0.05, 0.1, 0.15, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
    start=0.1,
    start_off_sphere=1.0,  # squared distances are far larger there
)
LOSS_RATE = Ladder((0.1, 1.0, 10.0, 100.0, 1000.0), start=1.0)
LADDERS = {"lr": RATE, "margin": MARGIN, "temperature": TEMPERATURE, "loss_rate": LOSS_RATE}
GONE = {"num_negatives": "draw_classes says how many classes a step draws from"}  # options of before
DRAW_CLASSES = 128  # classes that a step draws from, unless it is said otherwise


@dataclass(frozen=True)
class Method:
    """How triplets are found and compared."""

    title: str
    what: str
    colour: str
    """In figures."""
    default: Mapping[str, float]
    """Values of its own options in the default recipe."""
    paper: Mapping[str, float]
    """The same in the paper's recipe."""
    draws: bool = False
    """Whether triplets are drawn from class distributions; draw_classes limits them."""
    learned: str = ""
    """Parameters of the loss itself, which loss_rate is the rate of; empty for none."""
    needs_positives: bool = True
    """Whether a batch has to hold two items of a class for anything to be learned."""
    soft_margin: bool = False
    """Whether a margin of 0 stands for log(1 + exp(d_p - d_n))."""
    control: bool = False
    """Whether it is BUNCA with a part taken away, to see what the part is worth; compared only if named."""
    on_sphere: bool = False
    """Whether it exists on the unit sphere alone."""
    ladders: Mapping[str, Ladder] = field(init=False)
    """The options that a search tunes, beside normalisation."""

    def __post_init__(self) -> None:
        names = ["lr", *self.default, *(["loss_rate"] if self.learned else [])]
        object.__setattr__(self, "ladders", {name: LADDERS[name] for name in names})

    @property
    def strength(self) -> str:
        """The option that says how hard it pulls: margin or temperature."""
        return "margin" if "margin" in self.default else "temperature"

    def has(self, option: str) -> bool:
        """Return whether it has one of margin, temperature, loss_rate and draw_classes."""
        return self.draws if option == "draw_classes" else option in self.ladders

    def values(self, recipe: str) -> dict[str, float]:
        """Return the values of its own options in a recipe."""
        return dict(self.paper if recipe == "paper" else self.default)


def _by_margin(title: str, what: str, colour: str, margin: float = 0.2, **traits: object) -> Method:
    return Method(title, what, colour, {"margin": margin}, {"margin": 0.25}, **traits)  # type: ignore[arg-type]


def _by_temperature(title: str, what: str, colour: str, temperature: float = 0.1, **traits: object) -> Method:
    return Method(title, what, colour, {"temperature": temperature}, {"temperature": 1.0}, **traits)  # type: ignore[arg-type]


def _control(title: str, what: str, colour: str, **traits: object) -> Method:
    return _by_temperature(
        title, what, colour, 0.15, draws=True, needs_positives=False, control=True, **traits
    )


METHODS: dict[str, Method] = {
    "but": _by_margin(
        "BUT", "triplet loss, triplets drawn from class distributions", "#D55E00", 0.25,
        draws=True, needs_positives=False,
    ),
    "bunca": _by_temperature(
        "BUNCA", "NCA loss, triplets drawn from class distributions", "#0072B2", 0.15,
        draws=True, needs_positives=False,
    ),
    "ba": _by_margin("batch-all", "triplet loss, all triplets of the batch", "#56B4E9"),
    "bsh": _by_margin("batch semi-hard", "triplet loss, semi-hard triplets of the batch", "#5FB59A"),
    "bh": _by_margin(
        "batch-hard", "triplet loss, farthest positive and nearest negative", "#E2B04A", soft_margin=True
    ),
    "ep": _by_temperature("easy positive", "softmax, nearest positive and semi-hard negative", "#D39ABD"),
    "dws": _by_margin(
        "distance-weighted", "margin loss, negatives drawn evenly over distances", "#8F8F8F",
        learned="boundaries",
    ),
    "nca": _by_temperature("NCA", "NCA loss over the batch", "#A39A3C"),
    "proxy-nca": _by_temperature(
        "proxy-NCA", "NCA loss against a learned point per class", "#9C7A68",
        learned="proxies", needs_positives=False,
    ),
    "vertices": _control(
        "vertices only", "control of BUNCA: a fixed point per class and the batch", "#003F66", on_sphere=True
    ),
    "means": _control(
        "class means only", "control of BUNCA: the mean of each class and the batch", "#7A8FB8"
    ),
    "no-noise": _control(
        "BUNCA without noise", "control of BUNCA: the centre of each class's draws and the batch", "#3E8E8E"
    ),
}  # fmt: skip
COMPARED = tuple(name for name, method in METHODS.items() if not method.control)  # unless some are named
TUNED = (*LADDERS, "normalize")  # options that a search chooses, as far as a method has them


def having(option: str) -> list[str]:
    """Return the methods that have an option; controls have those of bunca."""
    return [name for name in COMPARED if METHODS[name].has(option)]


def listed(names: list[str]) -> str:
    """Return names as a phrase: "but, ba and bh"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def check_methods(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of methods, each known and none twice."""
    checked = tuple(check_choice("methods", name, METHODS) for name in names)
    if not checked or len(set(checked)) < len(checked):
        raise InputError(f"methods must name different ones; got {', '.join(checked) or 'none'}")
    return checked
