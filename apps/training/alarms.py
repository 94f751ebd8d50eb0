"""Alarms on a run: while it trains, and of the adapter it made while that serves. Each detector is told once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.db import transaction

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.training.models import TrainingRun
from tentalis.core.learning.collapse import Alarm
from tentalis.core.learning.monitors import watch_batch, watch_update
from tentalis.core.learning.quarantine_checks import BatchFacts


def watch_training(run: TrainingRun, metrics: Sequence[Mapping[str, Any]], *, by: str) -> list[Alarm]:
    """What the newest update says; in the running transaction."""
    return raise_alarms(run, watch_update(metrics), update=len(metrics), by=by)


def watch_data(run: TrainingRun, facts: BatchFacts, summary: Mapping[str, Any], *, by: str) -> list[Alarm]:
    """What the batch and its result say of the line: its age, and what its reward was earned by."""
    found = watch_batch(
        rollouts=facts.rollouts,
        stale=int(summary.get("refused_stale") or 0),
        reward=facts.reward,
        outcome=facts.outcome,
        audited=facts.audited,
    )
    return raise_alarms(run, found, update=None, by=by)


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
