"""What a training tells whoever listens; each event prints as a line."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayestriplet.config import TrainConfig
from bayestriplet.data.progress import Progress


@dataclass(frozen=True)
class StepEvent:
    """A step of training is done."""

    step: int
    steps: int
    """How many there will be at most."""
    loss: float
    active: float | None
    """Share of the triplets with something to learn, where the method has such."""

    def __str__(self) -> str:
        active = "" if self.active is None else f"  active {self.active:.0%}"
        return f"step {self.step:>6} of {self.steps}  loss {self.loss:.3f}{active}"


@dataclass(frozen=True)
class ValidationEvent:
    """The network was measured on the validation items."""

    step: int
    recall: float
    """Recall@1."""

    def __str__(self) -> str:
        return f"step {self.step:>6}  validation R@1 {100 * self.recall:.1f}"


@dataclass(frozen=True)
class PhaseEvent:
    """How far a part of the work is that is no training step."""

    what: str
    done: int
    total: int
    """0 where it is not known."""

    def __str__(self) -> str:
        return f"{self.what}: {self.done:,} of {self.total:,}" if self.total else self.what


@dataclass(frozen=True)
class WarningEvent:
    """Something that a person should know."""

    text: str
    is_note: bool = False
    """Whether nothing is wrong."""

    def __str__(self) -> str:
        return f"{'Note' if self.is_note else 'Warning'}: {self.text}"


@dataclass(frozen=True)
class TrialEvent:
    """A run of a comparison began, or came to its end."""

    name: str
    config: TrainConfig
    results: dict[str, Any] | None = None
    """None while it is being made."""
    was_there: bool = False
    """Whether it was made before."""

    @property
    def diverged(self) -> bool:
        """Whether its training broke down."""
        return self.results is not None and self.results["status"] == "diverged"

    @property
    def recall(self) -> float:
        """Validation Recall@1; 0 without validations."""
        return 0.0 if self.results is None else self.results["validation_recall@1"] or 0.0

    def __str__(self) -> str:
        if self.results is None:
            return f"{self.name}  begun"
        return f"{self.name}  {'broke down' if self.diverged else f'validation R@1 {100 * self.recall:.2f}'}"


Event = StepEvent | ValidationEvent | PhaseEvent | WarningEvent | TrialEvent
OnEvent = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listen to nothing."""
    del event


def as_progress(on_event: OnEvent) -> Progress:
    """Return a progress that becomes events."""

    def show(description: str, done: int, total: int) -> None:
        on_event(PhaseEvent(description, done, total))

    return show
