"""BUT and BUNCA: posterior, sampler and loss behind one call."""

import copy
import warnings
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from bayestriplet.checks import check_choice, check_flag, check_number, nearest
from bayestriplet.errors import InputError, InputTypeError
from bayestriplet.methods import DRAW_CLASSES, GONE, METHODS
from bayestriplet.posterior.posterior import ClassPosterior
from bayestriplet.posterior.precision import full_precision
from bayestriplet.triplets.losses import (
    NCA_REDUCTIONS,
    PAIRINGS,
    TRIPLET_REDUCTIONS,
    nca_loss,
    triplet_loss,
)
from bayestriplet.triplets.sampler import TripletSampler
from bayestriplet.triplets.signature import check_unused
from bayestriplet.triplets.triplets import Triplets

POSTERIOR_OPTIONS = ("prior", "memory", "dtype", "structure")
SAMPLING: dict[str, dict[str, Any]] = {
    "default": {
        "prior": "empirical",
        "memory": 20.0,
        "normalize": True,
        "draws": "joined",
        "noise": 0.5,
        "spread": 0.5,
    },
    "paper": {
        "prior": "improper",
        "memory": None,
        "normalize": False,
        "draws": "own",
        "noise": 1.0,
        "spread": 0.0,
    },
}
FREE_OPTIONS: dict[str, Any] = {
    "dtype": torch.float32,
    "distribution": "normal",
    "structure": "auto",
    "draw_classes": DRAW_CLASSES,
    "handover": False,
}
ON_SPHERE = {"spread": 0.0, "positive_margin": 0.0}  # what recipes leave out elsewhere: vertices and a length
CORRECTIONS = (
    "recipe='paper' follows the printed algorithm, corrected where it cannot be built: the expected "
    "covariance is Upsilon / (n - D - 1), not its inverse; the scatter is carried from batch to batch, "
    "not the expectation; the old mean enters the cross term; counts grow; and up to D + 1 items the "
    "accumulated scatter is divided by n{extra} (docs/method.md)"
)


class _Criterion(nn.Module):
    """What BUT and BUNCA share: a recipe of options, the sampler, and an exchangeable loss."""

    loss_recipes: ClassVar[dict[str, dict[str, Any]]]
    sampling: ClassVar[dict[str, dict[str, Any]]] = SAMPLING
    corrections: ClassVar[str] = ""
    picks: ClassVar[bool] = True  # whether its own loss pairs a joined negative with one positive

    def __init__(
        self,
        num_classes: int,
        dim: int,
        recipe: str = "default",
        *,
        loss: nn.Module | None = None,
        generator: Generator | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        check_choice("recipe", recipe, self.sampling)
        if loss is not None and not isinstance(loss, nn.Module):
            raise InputTypeError(f"loss must be a module, such as a loss of PML; got {type(loss).__name__}")
        if generator is not None and not isinstance(generator, Generator):
            raise InputTypeError(f"generator must be a torch.Generator; got {type(generator).__name__}")
        of_loss = self.loss_recipes[recipe] if loss is None else {}
        chosen = {**FREE_OPTIONS, **self.sampling[recipe], **of_loss}
        for name in options:
            if name not in chosen:
                where = f"{type(self).__name__} with loss=" if loss else type(self).__name__
                if name in GONE:
                    raise InputError(f"{where} has no option {name!r} any more: {GONE[name]}")
                raise InputError(
                    f"{where} has no option {name!r}{nearest(name, chosen)}; it takes {', '.join(chosen)}"
                )
        if options.get("normalize") is False:
            chosen |= {name: value for name, value in ON_SPHERE.items() if name in chosen}
        chosen.update(options)
        self.recipe = recipe
        self.generator = generator
        self.loss_options = {name: chosen.pop(name) for name in of_loss}
        self._check_loss_options()
        posterior = ClassPosterior(num_classes, dim, **{name: chosen.pop(name) for name in POSTERIOR_OPTIONS})
        self.sampler = TripletSampler(posterior, **chosen)
        if loss is not None:
            check_takes_references(loss, dim)
        self.loss = loss
        self.latest: Triplets | None = None
        if recipe == "paper":
            warnings.warn(CORRECTIONS.format(extra=self.corrections), stacklevel=2)

    @property
    def posterior(self) -> ClassPosterior:
        """The class distributions that triplets are drawn from.

        >>> bt.BUT(num_classes=3, dim=2).posterior.count.tolist()
        [0.0, 0.0, 0.0]
        """
        return self.sampler.posterior

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: None = None,
        ref_emb: None = None,
        ref_labels: None = None,
    ) -> Tensor:
        """Return the loss of embeddings (B, D) with labels (B,); the posterior is updated in train mode.

        The signature is that of PML's losses. The criterion draws its own triplets, so the
        last three must be None.

        >>> criterion = bt.BUT(num_classes=2, dim=2)
        >>> criterion(embeddings, labels).shape, criterion.posterior.seen.tolist()
        (torch.Size([]), [2, 2])
        """
        reason = f"{type(self).__name__} draws its own triplets; use no miner"
        check_unused(reason, indices_tuple=indices_tuple, ref_emb=ref_emb, ref_labels=ref_labels)
        triplets: Triplets = self.sampler(
            embeddings, labels, generator=self.generator, pick=self.loss is not None or self.picks
        )
        self.latest = triplets.detach()
        if self.loss is None:
            return self._own_loss(triplets)
        if not triplets.mask.any():
            return triplets.anchor.sum() * 0
        with full_precision(triplets.anchor):
            value: Tensor = self.loss(*triplets.for_pml())
        return value

    def extra_repr(self) -> str:
        """Return what ``print`` shows beside the name.

        >>> bt.BUNCA(num_classes=3, dim=2).extra_repr()
        "recipe='default', temperature=0.15, include_positive=True, reduction='mean', positive_margin=0.6"
        """
        return ", ".join(
            f"{name}={value!r}" for name, value in {"recipe": self.recipe, **self.loss_options}.items()
        )

    def active_share(self) -> float | None:
        """Share of the latest batch's triplets that still have something to learn; None without a margin.

        >>> criterion = bt.BUT(num_classes=2, dim=2)
        >>> criterion.active_share() is None  # nothing was drawn yet
        True
        >>> loss = criterion(embeddings, labels)
        >>> 0 <= criterion.active_share() <= 1
        True
        """
        return None

    def _check_loss_options(self) -> None:
        raise NotImplementedError

    def _own_loss(self, triplets: Triplets) -> Tensor:
        raise NotImplementedError


class BUT(_Criterion):
    """Triplet loss over triplets drawn from Bayesian-updated class distributions.

    Args:
        num_classes: K, at least 2.
        dim: D, the length of an embedding.
        recipe: "default" (normalised embeddings, memory 20, draws joined with the batch and spread)
            or "paper" (the printed protocol, corrected where it cannot be built).
        loss: a loss of pytorch-metric-learning to use instead of the triplet loss.
        generator: of the draws; None uses torch's global one.
        **options: single departures from the recipe: prior, memory, dtype, structure
            (ClassPosterior), normalize, draws, noise, spread, handover, distribution, draw_classes
            (TripletSampler), margin, pairing, reduction, squared (triplet_loss).

    >>> criterion = BUT(num_classes=10, dim=8)
    >>> loss = criterion(torch.randn(20, 8, requires_grad=True), torch.arange(20) % 10)
    >>> loss.backward()

    """

    loss_recipes: ClassVar[dict[str, dict[str, Any]]] = {
        "default": {**METHODS["but"].default, "pairing": "paired", "reduction": "active", "squared": False},
        "paper": {**METHODS["but"].paper, "pairing": "paired", "reduction": "sum", "squared": True},
    }

    def _check_loss_options(self) -> None:
        for name, value in self.loss_options.items():
            if name == "margin":
                check_number(name, value, above=0)
            elif name == "squared":
                check_flag(name, value)
            else:
                check_choice(name, value, PAIRINGS if name == "pairing" else TRIPLET_REDUCTIONS)

    def active_share(self) -> float | None:
        if self.latest is None or self.loss is not None:
            return None
        near, far = self.latest.distances(self.loss_options["squared"])
        active = (near - far + self.loss_options["margin"] > 0) & self.latest.mask
        return float(active.sum() / self.latest.mask.sum().clamp_min(1))

    def _own_loss(self, triplets: Triplets) -> Tensor:
        return triplet_loss(triplets, **self.loss_options)


class BUNCA(_Criterion):
    """NCA loss over triplets drawn from Bayesian-updated class distributions.

    Takes the arguments of :class:`BUT`, except that the options of the loss are those of
    ``nca_loss``: temperature, include_positive, reduction, positive_margin.

    >>> criterion = bt.BUNCA(num_classes=10, dim=8)
    >>> loss = criterion(torch.randn(20, 8, requires_grad=True), torch.arange(20) % 10)
    >>> loss.backward()
    """

    loss_recipes: ClassVar[dict[str, dict[str, Any]]] = {
        "default": {
            **METHODS["bunca"].default,
            "include_positive": True,
            "reduction": "mean",
            "positive_margin": 0.6,
        },
        "paper": {
            **METHODS["bunca"].paper,
            "include_positive": True,
            "reduction": "sum",
            "positive_margin": 0.0,
        },
    }
    # The best ones among classes never trained on (docs/results.md).
    sampling: ClassVar[dict[str, dict[str, Any]]] = {
        **SAMPLING,
        "default": SAMPLING["default"] | {"noise": 1.0, "spread": 0.8, "handover": True},
    }
    picks: ClassVar[bool] = False
    corrections: ClassVar[str] = "; the denominator of the NCA loss holds the positive too"

    def _check_loss_options(self) -> None:
        for name, value in self.loss_options.items():
            if name == "temperature":
                check_number(name, value, above=0)
            elif name == "include_positive":
                check_flag(name, value)
            elif name == "positive_margin":
                check_number(name, value, least=0)
            else:
                check_choice(name, value, NCA_REDUCTIONS)

    def _own_loss(self, triplets: Triplets) -> Tensor:
        return nca_loss(triplets, **self.loss_options)


def check_takes_references(loss: nn.Module, dim: int) -> None:
    """Raise unless ``loss`` accepts drawn points as reference embeddings, seen by trying a copy of it."""
    vectors, labels = torch.eye(4, dim), torch.arange(2)
    drawn = Triplets.from_points(
        vectors[:2], vectors[:2].unsqueeze(1), vectors[2:].unsqueeze(1), labels, 1 - labels.unsqueeze(1)
    )
    try:
        with torch.no_grad():
            copy.deepcopy(loss).cpu()(*drawn.for_pml())
    except Exception as error:
        raise InputError(
            f"loss must accept triplets with reference embeddings; {type(loss).__name__} does not: {error}"
        ) from error
