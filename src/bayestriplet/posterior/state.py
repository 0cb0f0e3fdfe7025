"""The state of a class posterior: its buffers, and how they are saved, loaded and moved."""

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bayestriplet.checks import check_choice, check_number, check_whole
from bayestriplet.errors import InputTypeError, StateError
from bayestriplet.posterior.chosen import Chosen, put_, take
from bayestriplet.posterior.mirror import Mirror
from bayestriplet.posterior.priors import NIWPrior, check_prior
from bayestriplet.posterior.statistics import TINY
from bayestriplet.posterior.structure import Structure
from bayestriplet.posterior.structures import STRUCTURES, choose_structure
from bayestriplet.posterior.sums import EXTRA, sums_of
from bayestriplet.posterior.versions import Noted

PRIORS = ("empirical", "improper")
INSIDE = "structure."  # left out of the names in a state_dict


class PosteriorState(nn.Module):
    """Counts, means and the structure of the scatters of K classes, and sums over all of them.

    The sums are kept by differences, so that a step reads the classes of its batch alone. Version
    counters tell when somebody changed what they are sums of; they are then computed anew.
    """

    count: Tensor  # (K,) effective count, float64
    seen: Tensor  # (K,) items ever seen, int64
    item_mean: Tensor  # (K, D)
    mean_rest: Tensor | None  # (K, D) what rounding took from it: in float32, where nothing is forgotten
    sums: Tensor  # (D + 4,) float64, see sums.py
    origin: Tensor  # (D,) float64
    separation: Tensor  # () float64, see separation.py; brought up to date where somebody needs it
    mean_square: Tensor  # (K,) |m|^2, infinite for a class without items: it is near to none
    structure: Structure
    prior_mean: Tensor  # these four only with a given prior
    prior_kappa: Tensor
    prior_scale: Tensor
    prior_nu: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        *,
        prior: str | NIWPrior = "empirical",
        memory: float | None = None,
        dtype: torch.dtype = torch.float32,
        structure: str = "auto",
    ) -> None:
        super().__init__()
        self.num_classes = check_whole("num_classes", num_classes, 2)
        self.dim = check_whole("dim", dim, 1)
        self.memory = None if memory is None else check_number("memory", memory, above=0)
        if dtype not in (torch.float32, torch.float64):
            raise InputTypeError(f"dtype must be torch.float32 or torch.float64; got {dtype}")
        compensated = self.memory is None and dtype == torch.float32
        chosen = choose_structure(structure, num_classes, dim, dtype, compensated)
        self._set_prior(prior, dtype)
        self.register_buffer("count", torch.zeros(num_classes, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(num_classes, dtype=torch.int64))
        self.register_buffer("item_mean", torch.zeros(num_classes, dim, dtype=dtype))
        self.register_buffer("sums", torch.zeros(dim + EXTRA, dtype=torch.float64))
        self.register_buffer("origin", torch.zeros(dim, dtype=torch.float64))
        self.register_buffer("separation", torch.zeros((), dtype=torch.float64))
        self.judges = False  # whether a batch says how well classes lie apart, before it is added
        square = torch.full((num_classes,), torch.inf, dtype=dtype)
        self.register_buffer("mean_square", square, persistent=False)
        self.structure = STRUCTURES[chosen](num_classes, dim, dtype)
        self.register_buffer("mean_rest", None)
        if compensated:
            self.mean_rest = torch.zeros_like(self.item_mean)
            self.structure.compensate()
        self._mirror, self._given = Mirror(), Mirror()
        self._everyone: list[Chosen] = []
        self._noted = Noted()
        self.note()
        self._is_empty = True  # no item was seen yet, so that the first batch says where the data are
        self.register_load_state_dict_post_hook(_after_load)  # type: ignore[no-untyped-call]

    def _set_prior(self, prior: str | NIWPrior, dtype: torch.dtype) -> None:
        if not isinstance(prior, NIWPrior):
            self.prior = check_choice("prior", prior, PRIORS)
            return
        self.prior = "given"
        check_prior(prior, self.dim)
        for name in ("mean", "kappa", "scale", "nu"):
            value = torch.as_tensor(getattr(prior, name), dtype=dtype)
            self.register_buffer(f"prior_{name}", value.detach().clone())

    def extra_repr(self) -> str:
        """Return what ``print`` shows beside the name.

        >>> posterior.extra_repr()
        "3, 2, prior='empirical', memory=None, structure='full'"
        """
        sizes = f"{self.num_classes}, {self.dim}, prior={self.prior!r}, memory={self.memory}"
        return f"{sizes}, structure={self.structure.name!r}"

    def everyone(self) -> Chosen:
        """Return all classes, which are the same object as long as the posterior stays on its device.

        >>> posterior.everyone().classes
        tensor([0, 1, 2])
        """
        if not self._everyone or self._everyone[0].classes.device != self.count.device:
            self._everyone[:] = [Chosen.all_of(self.num_classes, self.count)]
        return self._everyone[0]

    def numbers(self) -> list[NDArray[Any]]:
        """Return counts (K,) and items seen (K,) on the host.

        >>> [array.tolist() for array in posterior.numbers()]
        [[2.0, 2.0, 0.0], [2, 2, 0]]
        """
        return self._mirror.read(self.count, self.seen)

    # Sums

    def _watched(self) -> list[Tensor]:
        return [self.count, self.item_mean, *self.structure.watched()]

    def note(self) -> None:
        """Remember that the sums are those of the statistics as they are now.

        >>> posterior.note()
        """
        self._noted.note(self._watched())

    def refresh(self) -> None:
        """Compute the sums anew if somebody changed what they are sums of.

        >>> posterior.count.fill_(1).tolist()
        [1.0, 1.0, 1.0]
        >>> posterior.refresh()
        """
        if self._noted.changed(self._watched()):
            everyone = self.everyone().classes
            self.origin.copy_(self.count @ self.item_mean.double() / self.count.sum().clamp_min(TINY))
            self.sums.copy_(self._sums(everyone))
            self.note_squares(everyone)
            for rest in self._rests().values():
                rest.zero_()
            self._is_empty = False
            self.note()

    def _rests(self) -> dict[str, Tensor]:
        """Return what rounding took from sums, by the names in a state."""
        kept = {"mean_rest": self.mean_rest, "scatter_rest": self.structure.scatter_rest}
        return {name: rest for name, rest in kept.items() if rest is not None}

    def _sums(self, classes: Tensor) -> Tensor:
        """Return what distinct, ascending classes (P,) add to the sums."""
        count, mean = take(self.count, classes), take(self.item_mean, classes)
        return sums_of(count, mean, self.structure.trace(classes), self.origin)

    def note_squares(self, classes: Tensor) -> None:
        """Bring the mean_square of distinct, ascending classes (P,) up to date.

        >>> posterior.note_squares(torch.tensor([0]))
        >>> posterior.mean_square[0]
        tensor(4.)
        """
        square = torch.linalg.vector_norm(take(self.item_mean, classes), dim=1).square_()
        put_(self.mean_square, classes, torch.where(take(self.count, classes) > 0, square, torch.inf))

    # Saving, loading, moving

    def state_dict(self, *arguments: Any, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        """Return the state; what the structure keeps stands beside counts and means.

        >>> sorted(posterior.state_dict())[:3]
        ['count', 'item_mean', 'item_scatter']
        """
        state: dict[str, Any] = super().state_dict(*arguments, **options)
        prefix = options.get("prefix", arguments[1] if len(arguments) > 1 else "")
        for name in [name for name in state if name.startswith(prefix + INSIDE)]:
            state[prefix + name.removeprefix(prefix + INSIDE)] = state.pop(name)
        return state

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for kind in STRUCTURES.values():
            if prefix + kind.own_state in state_dict and kind.name != self.structure.name:
                raise StateError(
                    f"the state is of structure={kind.name!r} and this posterior has "
                    f"structure={self.structure.name!r}: make one with structure={kind.name!r}"
                )
        for name in ("mean_rest", "scatter_rest"):
            if name not in self._rests():
                state_dict.pop(prefix + name, None)
            else:  # a state from before they were kept
                state_dict.setdefault(prefix + name, torch.zeros_like(self._rests()[name]))
        for name in list(state_dict):
            if name.startswith(prefix) and name.removeprefix(prefix).split(".")[0] in self.structure_names():
                state_dict[prefix + INSIDE + name.removeprefix(prefix)] = state_dict.pop(name)
        self._sums_missing = f"{prefix}sums" not in state_dict
        if self._sums_missing:  # a state from before they were kept
            state_dict |= {f"{prefix}sums": self.sums, f"{prefix}origin": self.origin}
        state_dict.setdefault(f"{prefix}separation", torch.zeros_like(self.separation))  # older states
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def structure_names(self) -> set[str]:
        """Return the names of the buffers and modules of the structure.

        >>> sorted(posterior.structure_names())
        ['item_scatter', 'root', 'scatter_rest']
        """
        names = {name for name, _ in self.structure.named_buffers(recurse=False)}
        return names | {name for name, _ in self.structure.named_children()}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "PosteriorState":
        """Move the buffers, but refuse any conversion to a lower precision."""

        def keep_precision(buffer: Tensor) -> Tensor:
            moved = fn(buffer)
            better = torch.promote_types(moved.dtype, buffer.dtype) == moved.dtype
            return moved if better else buffer.to(moved.device)

        self.refresh()
        super()._apply(keep_precision, recurse)  # type: ignore[no-untyped-call]
        self.note()
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.note()  # a copy counts its changes anew


def _after_load(posterior: PosteriorState, _: object) -> None:
    """Compute what was not saved, once the structure is loaded too."""
    sums, origin = posterior.sums.clone(), posterior.origin.clone()
    rests = {name: rest.clone() for name, rest in posterior._rests().items()}
    posterior._noted.versions = None
    posterior.refresh()
    for name, rest in posterior._rests().items():
        rest.copy_(rests[name])
    if not posterior._sums_missing:  # to the last bit those that a training goes on with
        posterior.sums.copy_(sums)
        posterior.origin.copy_(origin)
    posterior.structure.note()
