"""Monitor runs: what each tells while it trains, alarms, what it ended with, and what it and its data cost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, pstdev
from typing import Any

from django.db import transaction
from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import Now
from django.utils import timezone

from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.feedback.models import Feedback
from apps.inference.costs import Bill, Cost, cost_of_tasks
from apps.rollouts.models import Batch, TrainingUse
from apps.training.models import TrainingRun
from apps.training.schedule import renew_place
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import TrainResult
from tentalis.core.learning.collapse import Alarm
from tentalis.core.learning.monitors import BatchFacts, watch_batch, watch_update

AGENTS_TURNS = ("main", "side")


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


def join_updates(kept: Sequence[Mapping[str, Any]], told: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A run's updates with those that an attempt told: where it went on from a checkpoint, behind the earlier ones.

    Args:
        told: in order; [] says nothing. Where they have no numbers they are the whole.
    """
    if not told:
        return list(kept)
    first = told[0].get("update")
    if not isinstance(first, int | float):
        return list(told)
    return [*(row for row in kept if row.get("update", first) < first), *told]


def describe_result(run: TrainingRun, result: TrainResult) -> dict[str, Any]:
    """What a result says, as columns of its run."""
    return {
        "metrics": join_updates(run.metrics, [dict(entry) for entry in result.metrics]),
        "summary": dict(result.summary) | measure_spread(run),
        "notes": list(result.notes),
        "versions": dict(result.versions),
        "tracking": dict(result.tracking),
        "finished_at": Now(),
        "cost": add_up_cost(run),
    }


def measure_spread(run: TrainingRun) -> dict[str, float]:
    """Figures of the judged attempts of the run's batch; {} where it learns from no rewards, or nothing was judged.

    Returns:
        reward_std: population standard deviation over all of them; groups: tasks with two or more of them;
        groups_without_signal: of those, the ones whose rewards are all the same; staleness, staleness_max: how many
        versions of the line the attempts are older than what the run continues, on average and at most.
    """
    if run.batch is None or run.batch.kind != Batch.Kind.ROLLOUTS:
        return {}
    judged = TrainingUse.objects.filter(batch=run.batch, rollout__reward__isnull=False)
    rows = judged.values_list("rollout__task", "rollout__reward", "rollout__adapter__line_version")
    groups: dict[int, list[float]] = defaultdict(list)
    ages = []
    present = run.parent.line_version if run.parent else 0
    for task, reward, version in rows:
        groups[task].append(float(reward or 0.0))
        ages.append(max(0, present - (version or 0)))
    if not ages:
        return {}
    compared = [rewards for rewards in groups.values() if len(rewards) > 1]
    return {
        "reward_std": pstdev([reward for rewards in groups.values() for reward in rewards]),
        "groups": float(len(compared)),
        "groups_without_signal": float(sum(min(rewards) == max(rewards) for rewards in compared)),
        "staleness": fmean(ages),
        "staleness_max": float(max(ages)),
    }


def add_up_cost(run: TrainingRun) -> dict[str, float]:
    """What the run took so far: the box's time over all attempts, models' tokens and money, people's minutes."""
    took_s = (timezone.now() - run.started_at).total_seconds() if run.started_at else 0.0
    return {"gpu_s": round(run.cost.get("gpu_s", 0.0) + max(0.0, took_s), 3), **sum_up_data(run)}


def cost_of_run(run: TrainingRun) -> Bill:
    """Everything the tasks of the run's batch cost: tries, judges, managers, hints. Machines' time is not in it."""
    return cost_of_tasks(_find_tasks(run))


def sum_up_data(run: TrainingRun) -> dict[str, float]:
    """The same in a few numbers, and the minutes that people worked on its judgements where that was measured.

    Returns:
        judge_tokens; usd of the `calls` whose price was known (`unpriced` is how many had none); human_minutes of the
        `judgements` by people whose time was measured (`untimed` is how many had none).
    """
    bill, tasks = cost_of_run(run), _find_tasks(run)
    judged = sum((cost for turn, cost in bill.by_turn().items() if turn not in AGENTS_TURNS), Cost())
    said = Feedback.objects.filter(task__in=tasks, source=Feedback.Source.HUMAN)
    found = said.aggregate(worked_s=Sum("active_s"), count=Count("pk"), timed=Count("active_s"))
    return {
        "judge_tokens": float(judged.prompt_tokens + judged.completion_tokens),
        "usd": float(bill.total.usd),
        "calls": bill.total.exchanges,
        "unpriced": bill.total.unpriced,
        "human_minutes": round((found["worked_s"] or 0.0) / 60, 2),
        "judgements": found["count"],
        "untimed": found["count"] - found["timed"],
    }


def _find_tasks(run: TrainingRun) -> QuerySet[Any]:
    """Ids of the tasks it learns from, whatever of them its batch holds."""
    if run.batch is None:
        return TrainingUse.objects.none().values("rollout__task")
    return run.batch.task_ids()


def watch_training(run: TrainingRun, metrics: Sequence[Mapping[str, Any]], *, by: str) -> list[Alarm]:
    """What the newest update says; in the running transaction."""
    return raise_alarms(run, watch_update(metrics), update=len(metrics), by=by)


def watch_data(run: TrainingRun, facts: BatchFacts, summary: Mapping[str, Any], *, by: str) -> list[Alarm]:
    """What the batch and its result say of the line: its age, and what its reward was earned by."""
    found = watch_batch(facts, stale=int(summary.get("refused_stale") or 0))
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
