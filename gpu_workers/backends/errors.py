"""Why a training came to nothing. The class name becomes the result's `error_type`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from tentalis.core.contracts import Outcome


class TrainingError(Exception):
    """A training that ends without an adapter; the message says what was wanted and what was found."""

    outcome: ClassVar = Outcome.FAILED


class NothingToLearnError(TrainingError):
    """No rollout of the batch would move a weight."""


class CancelledError(TrainingError):
    """Somebody asked for the run to stop."""

    outcome = Outcome.CANCELLED


class PausedError(TrainingError):
    """Somebody asked for the run to stop and to go on later."""

    outcome = Outcome.PAUSED


class DivergedError(TrainingError):
    """A loss, a gradient or a weight is no longer finite."""


class UnfitAdapterError(TrainingError):
    """What was trained fails its own check on held-out tasks; it is not published, and what was measured stays.

    Args:
        metrics: of every update; summary: the whole run in a few numbers, those of the check among them.
    """

    outcome = Outcome.REFUSED

    def __init__(self, message: str, *, metrics: Sequence[Mapping[str, float]], summary: Mapping[str, float]) -> None:
        super().__init__(message)
        self.metrics = metrics
        self.summary = summary

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """As it goes from one process to another."""
        return partial(UnfitAdapterError, metrics=self.metrics, summary=self.summary), self.args


class BaseModelError(TrainingError):
    """The base model or a teacher cannot be loaded, or cannot be trained this way."""


class NotEnoughMemoryError(TrainingError):
    """The training would take more memory than there is; the message says how much, and of what."""


class SharedTrainingError(TrainingError):
    """The processes that were to share a training cannot be so many, or one of them ended; the message says which."""


class LostRanksError(SharedTrainingError):
    """A process waited for the others in vain: why, one of them knows."""


class ParentMismatchError(TrainingError):
    """The parent adapter cannot be read, or does not fit the base or the recipe."""


class CheckpointError(TrainingError):
    """The checkpoint to go on from cannot be read, or is of another run."""


class RolloutsUnreadableError(TrainingError):
    """The rollouts file is not what the spec promised; the message names the line."""


class BackendNotInstalledError(TrainingError):
    """The recipe's backend is unknown, or known and not available on this box."""
