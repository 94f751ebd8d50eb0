"""What can go wrong where something is measured."""

from apps.base.errors import ConflictError


class EvaluationStoppedError(ConflictError):
    """Somebody paused or cancelled the evaluation; what was tried until then is kept."""

    code = "evaluation_stopped"


class TooFewScoredError(ConflictError):
    """Of too many items the outcome is not known on both sides: nothing is said of the difference."""

    code = "too_few_scored"
