"""Control a run that trains (cancel, pause): a file beside its artifacts, read between two updates."""

from typing import NamedTuple

from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterBrokenError
from apps.training.models import TrainingRun

CANCEL, PAUSE = "cancel", "pause"


class Request(NamedTuple):
    """`CANCEL`, `PAUSE` or "" for nothing, and the words it was asked in."""

    what: str
    words: str


def ask(run: TrainingRun, what: str, words: str, *, replaces: bool = True) -> None:
    """Leave word for the run's present attempt.

    Args:
        replaces: whether it takes the place of what was asked before.
    Raises:
        OSError: the artifact store takes no file.
    """
    directory = path_of(run.spec["output_uri"])
    directory.mkdir(parents=True, exist_ok=True)
    if replaces or not (directory / what).exists():
        (directory / what).write_text(words)


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
