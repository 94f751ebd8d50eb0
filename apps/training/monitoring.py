"""Monitor runs: what each tells while it trains, and the alarms of that."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from apps.training.models import TrainingRun
from apps.training.results import SAMPLING_BACKENDS, join_updates, raise_alarms
from apps.training.schedule import renew_place
from tentalis.core.canon import canonical_json
from tentalis.core.learning.collapse import Alarm
from tentalis.core.learning.monitors import watch_update


def note_heartbeat(run_id: int, attempt: int, metrics: Mapping[str, Any], number: int) -> None:
    """Keep a sign of life of the run's present attempt, with its latest update; {} before the first.

    Args:
        number: of its letter; one that is not above the last is an old one said again, and dropped.
    """
    with transaction.atomic():
        run = (
            TrainingRun.objects.select_for_update(no_key=True)
            .filter(pk=run_id, attempt=attempt, state=TrainingRun.State.RUNNING)
            .first()
        )
        if run is None or number <= run.last_letter:
            return
        changes: dict[str, Any] = {"heartbeat_at": Now(), "last_letter": number, "untaken_since": None}
        if metrics and is_storable(metrics) and dict(metrics) not in run.metrics:
            is_numbered = "update" in metrics
            changes["metrics"] = (
                join_updates(run.metrics, [dict(metrics)]) if is_numbered else [*run.metrics, dict(metrics)]
            )
            watch_training(run, changes["metrics"], by="monitor")
        TrainingRun.objects.filter(pk=run_id).update(**changes)
        renew_place(run_id)


def is_storable(value: object) -> bool:
    """Whether Postgres takes it as JSON: neither infinities nor NUL."""
    try:
        return b"\\u0000" not in canonical_json(value)
    except (ValueError, TypeError):
        return False


def watch_training(run: TrainingRun, metrics: Sequence[Mapping[str, Any]], *, by: str) -> list[Alarm]:
    """What the newest update says; in the running transaction."""
    alarms = watch_update(metrics, samples_anew=run.backend in SAMPLING_BACKENDS)
    return raise_alarms(run, alarms, update=len(metrics), by=by)
