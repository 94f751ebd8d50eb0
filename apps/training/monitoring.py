"""Monitor runs: what each tells while it trains, and the alarms of that and of what it was taught with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.outbox.services import held_write
from apps.rollouts.contents import describe_taught
from apps.training.models import TrainingRun
from apps.training.results import SAMPLING_BACKENDS, join_updates
from apps.training.schedule import renew_place
from tentalis.core.canon import canonical_json
from tentalis.core.learning.collapse import Alarm
from tentalis.core.learning.monitors import BatchFacts, watch_batch, watch_update
from tentalis.core.learning.recipes import Recipe


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


def note_taught(adapter: Adapter, run: TrainingRun, *, by: str) -> None:
    """Note on an adapter what it was taught with, as the ledger knows it by then, and on its run the alarms of that."""
    taught = describe_taught(run.batch) if run.batch is not None else BatchFacts(rollouts=0)
    if run.backend == "standalone":  # others count updates and scale tensors in their own way
        taught = replace(taught, reach=Recipe.from_json(run.recipe).reach)
    with held_write():
        Adapter.objects.filter(pk=adapter.pk).update(taught=asdict(taught))
        sequences, stale = (int(run.summary.get(name) or 0) for name in ("rollouts", "refused_stale"))
        alarms = watch_batch(taught, sequences=sequences, stale=stale)
        raise_alarms(run, alarms, update=None, by=by)


def raise_alarms(run: TrainingRun, alarms: Iterable[Alarm], *, update: int | None, by: str) -> list[Alarm]:
    """Put those on the run that are not there yet, and tell the audit; webhooks hear of it from there.

    Returns:
        The new ones.
    """
    found = list(alarms)
    if not found:
        return []
    with transaction.atomic():
        locked = TrainingRun.objects.select_for_update(no_key=True).only("alarms").get(pk=run.pk)
        known = {one["detector"] for one in locked.alarms}
        new = list({one.detector: one for one in found if one.detector not in known}.values())
        if new:
            told = [*locked.alarms, *({**asdict(one), "update": update} for one in new)]
            TrainingRun.objects.filter(pk=run.pk).update(alarms=told)
            for one in new:
                payload = {"detector": one.detector, "words": one.words[:300], "update": update}
                record(Kind.RUN_ALARMED, subject=run, by=by, payload=payload)
    return new
