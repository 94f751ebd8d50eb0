"""Control a run: what may be done to it, and a file beside its artifacts, which it reads between two updates."""

from typing import NamedTuple

from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterBrokenError
from apps.base.errors import IllegalMoveError
from apps.training.models import TrainingRun

State = TrainingRun.State
CANCEL, PAUSE = "cancel", "pause"
CHANGED_FROM = {
    "cancelled": (State.QUEUED, State.RUNNING, State.PAUSED),
    "paused": (State.QUEUED, State.RUNNING),
    "resumed": (State.PAUSED,),
    "tried again": (State.FAILED, State.REFUSED, State.CANCELLED),
}
"""What may be done to a run -> in which states: asked by the service, by the button and for the answer 409."""


def why_not(run: TrainingRun, change: str) -> str:
    """Why a run cannot be changed so, in words, "" where it can; what it was to learn from must still be there."""
    wanted, words = list(CHANGED_FROM[change]), ""
    if change == "tried again" and run.purpose != TrainingRun.Purpose.POLICY:
        wanted.remove(State.CANCELLED)  # queued anew by whoever wants it
    if run.state not in wanted:
        words = f"wanted {' or '.join(wanted)}, found {run.state}"
    elif run.state == State.CANCELLED and run.batch is not None and not run.batch.items().exists():
        words = "its batch holds nothing any more"
    return words and f"run {run.pk} cannot be {change}: {words}"


def require(run: TrainingRun, change: str) -> None:
    """Raises IllegalMoveError where a run cannot be changed so."""
    if words := why_not(run, change):
        raise IllegalMoveError(words)


class Request(NamedTuple):
    """`CANCEL`, `PAUSE` or "" for nothing, and the words it was asked in."""

    what: str
    words: str


def ask(run: TrainingRun, what: str, reason: str, *, replaces: bool = True) -> None:
    """Leave word for the run's present attempt.

    Args:
        replaces: whether it takes the place of what was asked before.
    Raises:
        OSError: the artifact store takes no file.
    """
    directory = path_of(run.spec["output_uri"])
    directory.mkdir(parents=True, exist_ok=True)
    if replaces or not (directory / what).exists():
        (directory / what).write_text(reason)


def find_request(run: TrainingRun) -> Request:
    """What was asked of the run's present attempt; a stop for good goes before a pause."""
    try:
        directory = path_of(run.spec["output_uri"])
        for what in (CANCEL, PAUSE):
            if (directory / what).is_file():
                return Request(what, (directory / what).read_text())
    except (KeyError, OSError, AdapterBrokenError):
        pass
    return Request("", "")
