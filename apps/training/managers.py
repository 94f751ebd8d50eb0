"""The outer loop: rubric managers' weights are refitted to audits after every training, used, or taken back."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import ConflictError
from apps.base.texts import require_text
from apps.calibration.models import Comparison, Rater
from apps.calibration.selectors import find_rubric
from apps.calibration.services import lock_fits, set_rubric
from apps.feedback.managers.rubric import PREFIX, written_weights
from apps.feedback.models import StepFeedback
from apps.feedback.set_aside import Trust
from apps.outbox.services import final_write
from apps.tasks.models import Attempt
from apps.training import verdict_managers
from apps.training.audits import TRUTHS
from apps.training.influence import find_influence
from apps.training.models import MAX_FIT_CHARS, ManagerRun, TrainingRun
from tentalis.core.canon import content_hash
from tentalis.core.field_limits import MAX_REASON_CHARS
from tentalis.core.meta import (
    Audit,
    Fall,
    Refit,
    find_fall,
    gate_factor,
    judge_items,
    refit,
)
from tentalis.core.scoring.ranking import Auc, Difference, measure_auc

BY = "meta"


@dataclass(frozen=True)
class NumberedAudit:
    """An audit, and the comparison in which the truth met it."""

    number: int
    audit: Audit
    attempt: int


def meta_train(run_id: int, *, by: str = BY) -> None:
    """Let the project's rubric managers learn from what was audited since they last did, where that is switched on.

    Run twice for one training it finds no new audits the second time and does nothing.
    """
    project = TrainingRun.objects.select_related("project").get(pk=run_id).project
    if not settings.TENTALIS["META_RL_ENABLED"]:
        return
    outlooks = verdict_managers.look_at_managers(project, after_run=run_id)
    with final_write():
        for outlook in outlooks:
            verdict_managers.act_on(outlook, by=by)
        raters = Rater.objects.filter(project=project, kind=Rater.Kind.AI, handle__startswith=PREFIX)
        for handle in raters.order_by("handle").values_list("handle", flat=True):
            train_manager(project=project, handle=handle, after_run=run_id, by=by)


def train_manager(*, project: Project, handle: str, after_run: int | None = None, by: str = BY) -> ManagerRun | None:
    """Refit one rubric manager to its audits in the window, or take its last fit back where that fell.

    Args:
        after_run: the training that was just adopted; the influence is that of the one before.
    Returns:
        What came of it; None where nothing was audited since the last time.
    Raises:
        ValueError: the project's rubric cannot be read.
    """
    with transaction.atomic():
        lock_fits(project.pk)
        runs = ManagerRun.objects.filter(project=project, manager=handle, kind=ManagerRun.Kind.RUBRIC)
        marks = sorted(metrics["until"] for metrics in runs.values_list("metrics", flat=True))
        audits = find_audits(project.pk, handle, limit=settings.TENTALIS["META_RL_WINDOW_SIZE"])
        learnt = runs.exclude(state=ManagerRun.State.BARRED).values_list("metrics__until", flat=True)
        if not audits or audits[-1].number <= max(learnt, default=0):
            return None
        written = written_weights(project, handle.removeprefix(PREFIX))
        of = content_hash(written)
        before = find_rubric(project.pk, handle, of=of)[0] or written
        audits = _judge_again(audits, runs, before)
        influence = find_influence(project, handle, before_run=after_run)
        present = runs.filter(state=ManagerRun.State.APPLIED).first()
        is_void = present is not None and present.metrics["of"] != of
        if present is not None and not is_void:
            fall = _find_fall(present, audits, influence)
            if fall.rolls_back:
                return _take_back(present, until=audits[-1].number, by=by, words=fall.words, auc=fall.before)
        prior = _find_prior(runs.filter(metrics__of=of), audits[0].number) or written
        rounds = _split_rounds(audits, marks)
        found = refit(rounds, prior=prior, past_rounds=sum(mark < audits[0].number for mark in marks))
        run = ManagerRun.objects.create(
            project=project,
            manager=handle,
            state=ManagerRun.State.FITTED,
            parent=present,
            before=before,
            weights=dict(found.fit.weights),
            audits=found.audits,
            learnt_from=find_tasks(audits),
            metrics={"of": of, "until": audits[-1].number, **_gather_metrics(found, audits, written, influence)},
        )
        payload = {"manager": handle, "audits": found.audits, "applies": found.applies}
        record(Kind.MANAGER_FITTED, subject=run, by=by, payload=payload)
        _use_or_refuse(run, present, found, by=by)
    return run


def roll_back_manager(*, run: ManagerRun, by: User, reason: str) -> ManagerRun:
    """Return a manager to the weights before the fit in use, by a person's decision.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: no reason, or too long a one.
        ConflictError: the fit is not the one in use.
    """
    require_right(by, run.project, Right.RUNS_WRITE)
    words = require_text("reason", reason, MAX_REASON_CHARS)
    with transaction.atomic():
        row = ManagerRun.objects.select_for_update().get(pk=run.pk)
        if row.state != ManagerRun.State.APPLIED:
            raise ConflictError(f"manager run {run.pk} is not in use: it is {row.get_state_display().lower()}")
        return _take_back(row, until=row.metrics["until"], by=by.handle, words=f"by {by.username}: {words}", auc=None)


def find_audits(project_id: int, handle: str, *, limit: int) -> list[NumberedAudit]:
    """A rubric manager's last judgements of whole attempts whose truth is known, oldest first. Two queries, one more
    where a judge found its items: what one that is below its bar had found is left out.

    Truth is what the world verified, a gold item's known answer, or the word of a trusted person that overrules it.
    """
    rows = Comparison.objects.filter(
        project=project_id, rater__handle=handle, step__isnull=True, counts=True, source__in=TRUTHS
    )
    last = rows.order_by("-id").values_list("attempt", "id", "said", "truth")[:limit]
    known: dict[int, tuple[int, float, float]] = {}
    for attempt, number, said, truth in last:
        known.setdefault(attempt, (number, said, truth))
    words = StepFeedback.objects.filter(feedback__author=handle, attempt__in=known, step__isnull=True).exclude(items={})
    trust, said_in = Trust(project_id), words.select_related("feedback").order_by("id")
    items: dict[int, Mapping[str, float]] = {
        word.attempt_id: word.items for word in said_in if not trust.silence(word.feedback)
    }
    return [
        NumberedAudit(number, Audit(items[attempt], said, truth), attempt)
        for attempt, (number, said, truth) in reversed(known.items())
        if attempt in items
    ]


def find_tasks(audits: Sequence[NumberedAudit]) -> list[int]:
    """Ids of the tasks that were judged: whoever is forgotten with one of them is to leave what was learnt of it."""
    judged = Attempt.objects.filter(pk__in=[one.attempt for one in audits])
    return list(judged.order_by("task").values_list("task", flat=True).distinct())


def _judge_again(
    audits: Sequence[NumberedAudit], runs: QuerySet[ManagerRun], weights: Mapping[str, float]
) -> list[NumberedAudit]:
    """The audits with what the weights in use say in the place of what barred ones said: it is those that are held
    against a refit.
    """
    marks = list(runs.order_by("pk").values_list("state", "metrics__until"))
    barred = [until for state, until in marks if state == ManagerRun.State.BARRED]
    if not barred:
        return list(audits)
    since = min(barred)
    until = min((until for state, until in marks if until > max(barred)), default=audits[-1].number)
    return [
        replace(one, audit=replace(one.audit, said=judge_items(weights, one.audit.items)))
        if since < one.number <= until
        else one
        for one in audits
    ]


def _split_rounds(audits: Sequence[NumberedAudit], marks: Sequence[int]) -> list[list[Audit]]:
    """One round a training: what was audited between two fits, the last fit's mark included. None is empty."""
    rounds = groupby(audits, key=lambda one: bisect_left(marks, one.number))
    return [[one.audit for one in found] for _, found in rounds]


def _find_prior(runs: QuerySet[ManagerRun], first: int) -> dict[str, float]:
    """The weights in use before the window's first audit; {}: as written."""
    used = runs.filter(state__in=(ManagerRun.State.APPLIED, ManagerRun.State.REPLACED), metrics__until__lt=first)
    run = used.order_by("-id").first()
    return dict(run.weights) if run else {}


def _find_fall(present: ManagerRun, audits: Sequence[NumberedAudit], influence: Difference) -> Fall:
    since = [one.audit for one in audits if one.number > present.metrics["until"]]
    former = [judge_items(present.before, audit.items) for audit in since]
    return find_fall(since, promised=present.metrics["auc_after"], former=former, influence=influence)


def _use_or_refuse(run: ManagerRun, present: ManagerRun | None, found: Refit, *, by: str) -> None:
    words = found.words[:MAX_FIT_CHARS]
    if found.applies:
        if present is not None:
            move(present, ManagerRun.State.REPLACED, by=by, payload={"manager": run.manager, "run": run.pk})
        weights = run.weights
        move(run, ManagerRun.State.APPLIED, by=by, payload=_describe(run, found.gate, words), words=words)
    else:
        weights = find_rubric(run.project_id, run.manager, of=run.metrics["of"])[0]
        move(run, ManagerRun.State.REFUSED, by=by, payload=_describe(run, found.gate, words), words=words)
    of = run.metrics["of"]
    set_rubric(project_id=run.project_id, handle=run.manager, of=of, weights=weights, gate=found.gate)


def _take_back(run: ManagerRun, *, until: int, by: str, words: str, auc: Auc | None) -> ManagerRun:
    """Use the weights before; those are trusted by what they show on the audits since, else by what they showed."""
    if run.kind == ManagerRun.Kind.ADAPTER:
        return verdict_managers.take_back(run, until=until, by=by, reason=words)
    gate = gate_factor(auc.value if auc is not None else run.metrics["auc_before"])
    metrics = run.metrics | {"until": until}
    changes = {"words": words[:MAX_FIT_CHARS], "metrics": metrics}
    move(run, ManagerRun.State.ROLLED_BACK, by=by, payload=_describe(run, gate, words), **changes)
    parent = run.parent
    if parent is not None and parent.state == ManagerRun.State.REPLACED:
        move(parent, ManagerRun.State.APPLIED, by=by, payload=_describe(parent, gate, "in use again"))
    set_rubric(project_id=run.project_id, handle=run.manager, of=run.metrics["of"], weights=run.before, gate=gate)
    return run


def _describe(run: ManagerRun, gate: float, words: str) -> dict[str, Any]:
    return {"manager": run.manager, "gate": round(gate, 4), "words": words[:300]}


def _gather_metrics(
    found: Refit, audits: Sequence[NumberedAudit], written: Mapping[str, float], influence: Difference
) -> dict[str, Any]:
    """What the pages show; `control` is the AUC the rubric as it is written has on the same audits."""
    plain = [one.audit for one in audits]
    control = measure_auc([judge_items(written, audit.items) for audit in plain], [audit.truth for audit in plain])
    return found.metrics | {
        "control": control.value,
        "stds": dict(found.fit.stds),
        "influence": influence.value,
        "influence_interval": [influence.low, influence.high],
    }
