"""Unlearn a person by exact retraining: what learnt from them is blocked for ever and made again without their data.

Every training that learnt from them, or continued what did, is done once more on what is left of its batch.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Max
from django.db.models.functions import Now

from apps.accounts.models import Project
from apps.adapters.canary import clear_canary
from apps.adapters.models import Adapter, Deployment, Shadow, Verdict
from apps.adapters.services import quarantine
from apps.adapters.shadows import close_shadow
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.outbox.kinds import SegmentKind
from apps.outbox.services import cancel_segments, lock_segments
from apps.rollouts.models import Batch, Demonstration, PreferencePair, TrainingUse
from apps.training import run_control
from apps.training.models import TrainingRun
from apps.training.rebuilding import OPEN, State, find_first, find_parent
from apps.training.results import end_now
from apps.workers.models import Worker
from tentalis.core.learning.recipes import Recipe

SUSPECT = frozenset({Adapter.State.CANDIDATE, Adapter.State.VERIFIED, Adapter.State.RETIRED})
AHEAD = (Adapter.State.CANDIDATE, Adapter.State.VERIFIED)
PRIORITY = 10
"""Of its runs: nothing else of the line can be trained before they are done."""
REPEATED = ("project_id", "worker_id", "end_user", "purpose", "backend", "recipe", "recipe_hash", "seed")
"""Fields of a run that it has again when it is done again."""
OLDEST = 1000
"""Adapter versions: its rollouts are as old as their line, and their log-probs are exact all the same."""

ENDED = "cancelled: the person it was for was forgotten"
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


def end_line(*, project: Project, end_user: str, stand_in: str, by: str) -> None:
    """Cancel what trains or waits for a person, in the running transaction; their name leaves the runs.

    A result that comes home after all is dropped: nobody waits for it any more.
    """
    theirs = TrainingRun.objects.filter(project=project, end_user=end_user)
    lock_segments(SegmentKind.TRAIN, subject_ids=theirs.values_list("pk", flat=True))
    runs = theirs.select_for_update(of=("self",))
    for run in runs.filter(state__in=OPEN).order_by("pk"):
        cancel_run(run, reason=ENDED, by=by)
    TrainingRun.objects.filter(project=project, end_user=end_user).update(end_user=stand_in)


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
    return Affected(list(adapters.values()), sorted(again.values(), key=lambda run: (find_first(run).pk, run.pk)))


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
    lock_segments(SegmentKind.TRAIN, subject_ids=lines.values_list("pk", flat=True))
    list(lines.select_for_update(of=("self",)).values_list("pk"))  # none comes home, or is sent, meanwhile
    found = find_affected(project=project, batches=batches)
    barred = bar(found.adapters, reason=BARRED, by=by)
    runs = []
    for run in found.runs:
        if run.state in OPEN:
            is_to_be_sent = run.state == State.QUEUED or not run.attempt
            continued = {"parent": find_parent(run)} if is_to_be_sent and run.rebuilds_id is None else {}
            cancel_run(run, reason=CANCELLED, by=by, **continued)
        batch = move_remaining_items(run.batch, by=by) if run.batch is not None else None
        if batch is None:
            continue
        recipe = _disable_staleness_limit(Recipe.from_json(run.recipe), run.backend)
        changes = {"batch": batch, "recipe": recipe.to_json(), "recipe_hash": recipe.hash}
        runs.append(queue_again(run, {"batch": batch.pk}, forgetting=forgetting, by=by, **changes))
    return Affected(barred, runs)


def find_taught(run_ids: Iterable[int]) -> list[Adapter]:
    """Adapters that came from these trainings, and every one that continues them, oldest first."""
    found = {one.pk: one for one in Adapter.objects.filter(run_id__in=list(run_ids))}
    newest: Iterable[int] = list(found)
    while newest:
        children = {one.pk: one for one in Adapter.objects.filter(parent__in=newest)}
        newest = children.keys() - found.keys()
        found |= children
    return [found[pk] for pk in sorted(found)]


def bar(adapters: Iterable[Adapter], *, reason: str, by: str) -> list[Adapter]:
    """Keep adapters from ever serving again, in the running transaction; one at work stays for now.

    Returns:
        Those that were not barred before.
    """
    adapters = list(adapters)
    served = Deployment.objects.filter(worker__in={one.worker_id for one in adapters}).order_by("pk")
    list(served.select_for_update(of=("self",)).values_list("pk"))  # before the adapters, as who deploys one does
    rows = Adapter.objects.select_for_update(of=("self",)).filter(pk__in=[one.pk for one in adapters], barred="")
    barred = list(rows.exclude(state=Adapter.State.REFUSED).select_related("worker").order_by("pk"))
    for adapter in barred:
        for deployment in Deployment.objects.filter(canary=adapter):
            clear_canary(deployment, outcome="stopped", reason=reason[:300], by=by)
        for shadow in Shadow.objects.filter(adapter=adapter, state=Shadow.State.RUNNING):
            close_shadow(shadow, outcome=Shadow.Outcome.STOPPED, reason=reason, by=by)
        Adapter.objects.filter(pk=adapter.pk).update(barred=reason)
        record(Kind.ADAPTER_BARRED, subject=adapter, by=by, payload={"words": reason})
        if adapter.state in SUSPECT:
            quarantine(adapter, reason=reason, by=by)
    for adapter in barred:
        if adapter.is_anchor:
            _hand_on_anchor(adapter)
    return barred


def _hand_on_anchor(adapter: Adapter) -> None:
    """What was proved before it is what "improved by" is measured from; the base model where nothing was."""
    Adapter.objects.filter(pk=adapter.pk).update(is_anchor=False)
    before = adapter.parent
    proofs = Verdict.objects.filter(question=Verdict.Question.PROVED, outcome=Verdict.Outcome.YES)
    while before is not None and before.end_user == adapter.end_user:
        if not before.barred and proofs.filter(adapter=before).exists():
            Adapter.objects.filter(pk=before.pk).update(is_anchor=True)
            return
        before = before.parent


def move_remaining_items(batch: Batch, *, by: str) -> Batch | None:
    """Move what is left of a batch into a new one that is full, in the running transaction; each keeps its one place.

    Returns:
        None where nothing that it teaches is left.
    """
    Worker.objects.select_for_update(no_key=True).only("pk").get(pk=batch.worker_id)
    if not batch.items().exists():
        return None
    last = Batch.objects.filter(worker=batch.worker_id).aggregate(last=Max("number"))["last"] or 0
    taker = Batch.objects.create(
        project_id=batch.project_id,
        worker_id=batch.worker_id,
        end_user=batch.end_user,
        number=last + 1,
        kind=batch.kind,
        state=Batch.State.CLOSED,
        target_tasks=batch.target_tasks,
        task_count=batch.task_ids().distinct().count(),
        rollout_count=TrainingUse.objects.filter(batch=batch).count(),
        closed_at=Now(),
    )
    for kept in (TrainingUse.objects, PreferencePair.objects, Demonstration.objects):
        kept.filter(batch=batch).update(batch=taker)
    payload = {"tasks": taker.task_count, "rollouts": taker.rollout_count, "takes_over": batch.pk}
    record(Kind.BATCH_CLOSED, subject=taker, by=by, payload=payload)
    return taker


def queue_again(run: TrainingRun, told: Mapping[str, Any], *, forgetting: int, by: str, **changes: Any) -> TrainingRun:
    """Queue a training once more without what was forgotten, ahead of others.

    Args:
        told: what the audit says of it first. changes: fields that are not as they were.
    """
    as_before = {name: getattr(run, name) for name in REPEATED}
    ahead = {"priority": max(run.priority, PRIORITY), "rebuilds": run, "forgetting_id": forgetting}
    new = TrainingRun.objects.create(**as_before | ahead | changes)
    payload = {**told, "recipe": new.recipe_hash, "rebuilds": run.pk, "forgetting": forgetting}
    record(Kind.RUN_QUEUED, subject=new, by=by, payload=payload)
    return new


def count_rebuilds(forgetting_ids: Iterable[int]) -> dict[int, dict[str, int]]:
    """How many trainings each forgetting had done again, by their state."""
    found: dict[int, dict[str, int]] = {}
    runs = TrainingRun.objects.filter(forgetting_id__in=list(forgetting_ids)).values_list("forgetting_id", "state")
    for forgetting_id, state in runs:
        if forgetting_id is not None:
            states = found.setdefault(forgetting_id, {})
            states[state] = states.get(state, 0) + 1
    return found


def cancel_run(run: TrainingRun, *, reason: str, by: str, **changes: Any) -> None:
    """End a run that is open: what it learns from is not to be learnt.

    Args:
        changes: of its other fields.
    """
    cancel_segments(SegmentKind.TRAIN, subject_ids=[run.pk])
    if run.state == State.RUNNING and "output_uri" in run.spec:
        run_control.ask(run, run_control.CANCEL, reason)
    move(run, State.CANCELLED, by=by, failure=reason, **end_now(run), **changes)


def _leads(adapter: Adapter) -> bool:
    """Whether a line goes on from it: it serves, is being tried, or is newer than what serves."""
    if adapter.state == Adapter.State.DEPLOYED or Deployment.objects.filter(canary=adapter).exists():
        return True
    served = Deployment.objects.filter(worker=adapter.worker_id, end_user=adapter.end_user).first()
    return adapter.state in AHEAD and adapter.pk > ((served.adapter_id if served else None) or 0)


def _disable_staleness_limit(recipe: Recipe, backend: str) -> Recipe:
    """Of its own rollouts none is too old: their log-probs are those they were sampled with, and ratios are cut off."""
    return recipe if backend == "openrlhf" else dataclasses.replace(recipe, max_staleness=OLDEST)
