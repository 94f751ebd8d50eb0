"""What is told of a run that no training machine takes up: since when, how often it was sent, and what to do."""

from dataclasses import dataclass
from datetime import datetime

from apps.training import box, cluster
from apps.training.models import TrainingRun


@dataclass(frozen=True)
class Untaken:
    """A run that waits for a box.

    Attributes:
        since: when it was sent first of the times that nobody took it up.
        sent: times that it was sent, over all its attempts; sent_at: the last of them.
        command: what starts a box that would take it.
    """

    since: datetime
    sent: int
    sent_at: datetime | None
    command: str

    @property
    def words(self) -> str:
        return (
            "no training machine has taken it up: none runs, none reaches the platform's Redis, or each is busy with"
            " another training; it is sent again by itself, and begins as soon as a machine takes it"
        )


def find_untaken(run: TrainingRun) -> Untaken | None:
    """None where a box has it, or it is not under way."""
    if run.untaken_since is None or run.state not in {TrainingRun.State.QUEUED, TrainingRun.State.RUNNING}:
        return None
    queue = cluster.QUEUE if run.backend == cluster.BACKEND else box.choose_queue(run.backend)
    command = f"celery -A gpu_workers.celery worker -P solo -Q {queue}"
    return Untaken(since=run.untaken_since, sent=run.attempt, sent_at=run.started_at, command=command)
