"""Unlearn an erased person (GDPR) by exact retraining: their line of adapters is made again without their data.

Every training that learnt from them, or continued what did, is done once more on what is left of its batch, in the old
order, each from what the one before it made. The last of a line is gated and swapped in like any adapter.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from apps.accounts.models import Project
from apps.adapters.blocking import bar, find_taught
from apps.adapters.models import Adapter, Deployment
from apps.adapters.selectors import find_deployed
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.outbox.kinds import SegmentKind
from apps.outbox.locking import lock_segments
from apps.outbox.services import cancel_segments
from apps.rollouts.batch_items import move_remaining_items
from apps.training import run_control
from apps.training.models import TrainingRun
from tentalis.core.learning.recipes import Recipe

State = TrainingRun.State
OPEN = (State.QUEUED, State.RUNNING, State.PAUSED)
AHEAD = (Adapter.State.CANDIDATE, Adapter.State.VERIFIED)
PRIORITY = 10
"""Of its runs: nothing else of the line can be trained before they are done."""
OLDEST = 1000
"""Adapter versions: its rollouts are as old as their line, and their log-probs are exact all the same."""

BARRED = "it learnt from somebody who was forgotten"
CANCELLED = "cancelled: it learns from somebody who was forgotten; what is left of its batch is trained anew"


@dataclass(frozen=True)
class Affected:
    """What somebody taught.

    Attributes:
        adapters: trained on a part of it, or continuing one that was; oldest first.
        runs: trainings to be done again, in their order: what led to what serves or waits to, and what is under way.
    """

    adapters: Sequence[Adapter]
    runs: Sequence[TrainingRun]


def find_affected(*, project: Project, batches: Iterable[int]) -> Affected:
    """What learnt from these batches, of lines that still are."""
    policies = TrainingRun.objects.filter(project=project, purpose=TrainingRun.Purpose.POLICY)
    direct = list(policies.filter(batch__in=list(batches)).values_list("pk", flat=True))
    adapters = {one.pk: one for one in find_taught(direct)}
    lines = {(one.worker_id, one.end_user) for one in adapters.values()}
    under_way = [
        run
        for run in policies.filter(state__in=OPEN).select_related("parent", "batch")
        if run.pk in direct
        or run.parent_id in adapters
        or (run.rebuilds_id is not None and (run.worker_id, run.end_user) in lines)
    ]
    again = {run.pk: run for run in under_way}
    tips = [one for one in adapters.values() if _leads(one)] + [run.parent for run in under_way]
    for tip in tips:
        step = tip
        while step is not None and step.pk in adapters:
            if (run := policies.filter(pk=step.run_id or 0).select_related("parent", "batch").first()) is not None:
                again[run.pk] = run
            step = step.parent
    return Affected(list(adapters.values()), sorted(again.values(), key=lambda run: (_first(run).pk, run.pk)))


def rebuild(*, project: Project, forgetting: int, batches: Sequence[int], by: str) -> Affected:
    """Bar what somebody taught and queue what is left of it to be trained again, in the running transaction.

    Called again it finds nothing to do: the batches are empty and what they taught is barred.

    Args:
        forgetting: primary key of its row.
        batches: that held rollouts of theirs, which are deleted already.
    Returns:
        The adapters that were barred now, and the new runs; a batch that is empty now gets none.
    """
    lines = TrainingRun.objects.filter(project=project, state__in=OPEN).order_by("pk")
    lock_segments(kind=SegmentKind.TRAIN, subject_ids=lines.values_list("pk", flat=True))
    list(lines.select_for_update(of=("self",)).values_list("pk"))  # none comes home, or is sent, meanwhile
    found = find_affected(project=project, batches=batches)
    barred = bar(found.adapters, words=BARRED, by=by)
    runs = []
    for run in found.runs:
        if run.state in OPEN:
            cancel_for_rebuild(run, by=by)
        batch = move_remaining_items(run.batch, by=by) if run.batch is not None else None
        if batch is None:
            continue
        recipe = _disable_staleness_limit(Recipe.from_json(run.recipe), run.backend)
        new = TrainingRun.objects.create(
            project_id=run.project_id,
            worker_id=run.worker_id,
            end_user=run.end_user,
            batch=batch,
            backend=run.backend,
            recipe=recipe.to_json(),
            recipe_hash=recipe.hash,
            seed=run.seed,
            priority=max(run.priority, PRIORITY),
            rebuilds=run,
            forgetting_id=forgetting,
        )
        payload = {"batch": batch.pk, "recipe": recipe.hash, "rebuilds": run.pk, "forgetting": forgetting}
        record(Kind.RUN_QUEUED, subject=new, by=by, payload=payload)
        runs.append(new)
    return Affected(barred, runs)


def find_parent(run: TrainingRun) -> Adapter | None:
    """What a run continues: what serves its line, or, of a line that is rebuilt, what stands for its old parent.

    A training that failed, or was refused or cancelled, is left out: the next continues what that would have.
    """
    if run.rebuilds_id is None:
        return find_deployed(run.worker, end_user=run.end_user)
    adapter = _first(run).parent
    while adapter is not None and adapter.barred:
        again = _last(adapter.run_id)
        made = Adapter.objects.filter(run_id=again.pk).first() if again is not None else None
        is_fit = made is not None and made.state != Adapter.State.REFUSED
        adapter = made if is_fit else adapter.parent
    return adapter


def find_unfinished(run: TrainingRun) -> QuerySet[TrainingRun]:
    """Trainings of a run's line that are to be done again and are not yet, itself aside, in their order."""
    policies = TrainingRun.objects.filter(purpose=TrainingRun.Purpose.POLICY)
    line = policies.filter(worker=run.worker_id, end_user__in={run.end_user, ""})
    return line.filter(state__in=OPEN, rebuilds__isnull=False).exclude(pk=run.pk).order_by("pk")


def find_hold(run: TrainingRun) -> str:
    """What of a rebuild keeps a run from being sent now, in words; "" when nothing does."""
    if run.purpose != TrainingRun.Purpose.POLICY:
        return ""
    unfinished = find_unfinished(run)
    if run.rebuilds_id is not None:
        unfinished = unfinished.filter(pk__lt=run.pk)
    if (other := unfinished.first()) is not None:
        return f"run {other.pk} comes first: its line is made again without somebody who was forgotten"
    parent = find_parent(run)
    if parent is not None and parent.barred:
        return f"{parent.name} serves, and {parent.barred}: roll it back or put another into service first"
    return ""


def find_rebuilt() -> list[Adapter]:
    """Adapters that end a rebuilt line and were not judged yet: of such a line only the last goes to the gate."""
    found = []
    waiting = Adapter.objects.filter(is_rebuilt=True, state=Adapter.State.CANDIDATE, barred="", verdicts=None)
    policies = TrainingRun.objects.filter(purpose=TrainingRun.Purpose.POLICY)
    for line in waiting.order_by().values("worker_id", "end_user").distinct():
        if not policies.filter(**line, state__in=OPEN, rebuilds__isnull=False).exists():
            newest = Adapter.objects.filter(**line, is_rebuilt=True).order_by("-pk").first()
            if newest is not None and newest in waiting:
                found.append(newest)
    return found


def count_rebuilds(forgetting_ids: Iterable[int]) -> dict[int, dict[str, int]]:
    """How many trainings each forgetting had done again, by their state."""
    found: dict[int, dict[str, int]] = {}
    runs = TrainingRun.objects.filter(forgetting_id__in=list(forgetting_ids)).values_list("forgetting_id", "state")
    for forgetting_id, state in runs:
        if forgetting_id is not None:
            states = found.setdefault(forgetting_id, {})
            states[state] = states.get(state, 0) + 1
    return found


def find_deployments_of_blocked_adapters(project_ids: Iterable[int] | None = None) -> QuerySet[Deployment]:
    """Deployments of projects that want nothing barred to serve, where something barred does."""
    policy: dict[str, Any] = {"worker__project__training_policy__serves_until_rebuilt": False}
    at_work = Deployment.objects.filter(~Q(adapter__barred=""), adapter__isnull=False, **policy)
    if project_ids is not None:
        at_work = at_work.filter(worker__project__in=list(project_ids))
    return at_work.select_related("adapter", "previous", "worker__provider")


def _leads(adapter: Adapter) -> bool:
    """Whether a line goes on from it: it serves, is being tried, or is newer than what serves."""
    if adapter.state == Adapter.State.DEPLOYED or Deployment.objects.filter(canary=adapter).exists():
        return True
    served = Deployment.objects.filter(worker=adapter.worker_id, end_user=adapter.end_user).first()
    return adapter.state in AHEAD and adapter.pk > ((served.adapter_id if served else None) or 0)


def _first(run: TrainingRun) -> TrainingRun:
    """The run that was done again, however often it was."""
    while run.rebuilds is not None:
        run = run.rebuilds
    return run


def _last(run_id: int | None) -> TrainingRun | None:
    """The newest run in the place of one; None where it was not done again."""
    run = again = TrainingRun.objects.filter(pk=run_id or 0).first()
    while again is not None:
        run, again = again, TrainingRun.objects.filter(rebuilds=again).first()
    return run if run is not None and run.pk != run_id else None


def cancel_for_rebuild(run: TrainingRun, *, by: str) -> None:
    """End a run that is open: what it learns from is not to be learnt."""
    cancel_segments(kind=SegmentKind.TRAIN, subject_ids=[run.pk])
    if run.state == State.RUNNING and "output_uri" in run.spec:
        run_control.ask(run, run_control.CANCEL, CANCELLED)
    move(run, State.CANCELLED, by=by, failure=CANCELLED)


def _disable_staleness_limit(recipe: Recipe, backend: str) -> Recipe:
    """Of its own rollouts none is too old: their log-probs are those they were sampled with, and ratios are cut off."""
    return recipe if backend == "openrlhf" else dataclasses.replace(recipe, max_staleness=OLDEST)
