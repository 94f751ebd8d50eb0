"""What can go wrong where something is measured."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from apps.base.errors import ConflictError, TentalisError

if TYPE_CHECKING:
    from apps.evals.results import WantedTries


class EvaluationStoppedError(ConflictError):
    """Somebody paused or cancelled the evaluation; what was tried until then is kept."""

    code = "evaluation_stopped"


class TooFewScoredError(ConflictError):
    """Of too many items the outcome is not known on both sides: nothing is said of the difference."""

    code = "too_few_scored"


class TriesAwaitedError(TentalisError):
    """What is asked is known when an agent has handed its tries in: whoever asks offers them, ends, and asks again."""

    status = 409
    code = "tries_awaited"

    def __init__(self, awaited: "Sequence[WantedTries]") -> None:
        super().__init__(f"{sum(len(one.list_left()) for one in awaited)} tries are its agent's to make")
        self.awaited = awaited
