"""Results of the training box: what came of a run is recorded, asked about and added up, or kept as why nothing did.

What it trained is asked about once more before the gate measures it, and what the gate measured is noted on the run.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean, pstdev
from typing import Any

from django.db import transaction
from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import Now
from django.utils import timezone

from apps.adapters.artifacts import path_of
from apps.adapters.errors import AdapterBrokenError
from apps.adapters.models import Adapter, Verdict
from apps.adapters.services import refuse
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.evals.models import Evaluation
from apps.evals.panels import choose_panel
from apps.feedback.models import Feedback
from apps.gate.sides import list_measured
from apps.inference.costs import Bill, Cost, cost_of_tasks
from apps.outbox.services import held_write
from apps.rollouts.contents import describe_taught
from apps.rollouts.models import Batch, TrainingUse
from apps.scoring.models import RewardModel
from apps.training import cluster, run_control
from apps.training.contamination import find_leaks
from apps.training.learners import LEARNERS, Trained
from apps.training.models import TrainingRun
from tentalis.core.contracts import Outcome, TrainResult
from tentalis.core.learning.collapse import Alarm
from tentalis.core.learning.gate import GatePolicy
from tentalis.core.learning.lengths import FILE
from tentalis.core.learning.monitors import BatchFacts, watch_batch, watch_hints
from tentalis.core.learning.preflight_rules import (
    GateAnswer,
    ask_finishing,
    ask_finite,
    ask_leak,
    ask_losses,
    ask_skills,
    find_refusal,
)
from tentalis.core.learning.recipes import Recipe

logger = logging.getLogger(__name__)

AGENTS_TURNS = ("main", "side")
SAMPLING_BACKENDS = frozenset({cluster.BACKEND})
"""They sample answers as they train: the lengths they tell are of what is trained, elsewhere of stored attempts."""


def lock_awaited(result: TrainResult) -> TrainingRun | None:
    """Lock the run that waits for this result; None where it is of another attempt, or the run has ended.

    The row alone is locked and read: what is joined to it would be as it was before the lock was waited for.
    """
    run = TrainingRun.objects.select_for_update(no_key=True).filter(pk=result.run_id).first()
    if run is None or run.attempt != result.attempt or run.state != TrainingRun.State.RUNNING:
        logger.info("dropped the result of run %s attempt %s: it is not awaited", result.run_id, result.attempt)
        return None
    return run


def record_result(run: TrainingRun, result: TrainResult, *, by: str) -> Trained | None:
    """Record what a locked run trained, or keep on it why there is nothing. Who asked for a stop gets one, also where
    the training had ended by then.

    Returns:
        What was trained, to be judged; None where there is nothing to.
    """
    if result.ok and run_control.find_request(run).what == run_control.CANCEL:
        result = _fail(result, Outcome.CANCELLED, "CancelledError", "cancelled when its last update was done already")
    changes = describe_result(run, result)
    answers = ask_after(run, changes["metrics"], changes["summary"]) if result.summary or result.ok else []
    changes["gates"] = [*run.gates, *(answer.to_json() for answer in answers)]
    learner, trained = LEARNERS[run.purpose], None
    if result.ok:
        try:
            trained = learner.record(run, result, by)
        except AdapterBrokenError as error:
            result = _fail(result, Outcome.FAILED, "AdapterBrokenError", str(error))
    if not result.ok:
        end_untrained(run, result.outcome, result.reason, by=by, **changes)
        learner.give_up(run, by)
        return None
    kind, name = "reward_model" if isinstance(trained, RewardModel) else "adapter", trained.name if trained else ""
    move(run, TrainingRun.State.SUCCEEDED, by=by, payload={kind: name}, **changes)
    if isinstance(trained, Adapter) and (reason := find_refusal(answers)):
        refuse(trained, reason=f"refused: {reason}", by=by)
    return trained


def _fail(result: TrainResult, outcome: Outcome, error_type: str, words: str) -> TrainResult:
    return replace(result, outcome=outcome, error_type=error_type, error_message=words)


def fail_result(data: object, *, reason: str, by: str) -> bool:
    """End a run whose result cannot be ingested, with the reason; whether it waited for that one."""
    run_id, attempt = (data.get("run_id"), data.get("attempt")) if isinstance(data, Mapping) else (None, None)
    if type(run_id) is not int or type(attempt) is not int:
        return False
    with transaction.atomic():
        waits = TrainingRun.objects.filter(pk=run_id, attempt=attempt, state=TrainingRun.State.RUNNING)
        if (run := waits.select_for_update(no_key=True).first()) is None:
            return False
        words = f"its result cannot be used: {reason}"
        end_untrained(run, Outcome.FAILED, words, by=by, finished_at=Now(), cost=add_up_cost(run))
    return True


def end_untrained(run: TrainingRun, outcome: Outcome, reason: str, *, by: str, **changes: Any) -> None:
    """Store that a run trained nothing: it failed, its trainer refused to publish, or it was stopped as asked."""
    changes |= {"waiting_reason": reason[:300]} if outcome is Outcome.PAUSED else {"failure": reason}
    payload = None if outcome is Outcome.CANCELLED else {"reason": reason[:300]}
    move(run, TrainingRun.State(outcome), by=by, payload=payload, **changes)


def ask_after(run: TrainingRun, metrics: Sequence[dict[str, Any]], summary: dict[str, Any]) -> list[GateAnswer]:
    """G4, G5 and G7, of what the trainer of a policy told; of others nothing is asked.

    Lengths are those of held-out tasks, else of what was sampled in training, first and last. Those of stored attempts
    say nothing of what was trained.
    """
    if run.purpose != TrainingRun.Purpose.POLICY:
        return []
    policy = GatePolicy.from_json(run.project.gate_policy)
    first, last = summary.get("length_before_tokens"), summary.get("length_after_tokens")
    if first is None and run.backend in SAMPLING_BACKENDS:
        told = [one["mean_length_tokens"] for one in metrics if one.get("mean_length_tokens") is not None]
        first, last = (told[0], told[-1]) if told else (None, None)
    return [
        ask_losses(summary, most=policy.most_loss_ratio),
        ask_finishing(first, last, least=policy.least_length_ratio),
        ask_finite(metrics, most_norm=policy.most_grad_norm),
    ]


def ask_measured(adapter_id: int, *, by: str) -> None:
    """Note what a candidate was taught with, and ask G8 once more: it must know none of the tasks drawn for it.

    What is drawn follows from its hash, so that nobody could ask before it was trained. Asked of what its own run
    learnt from, and, where its panel is not the one that its parent was measured on, of all that it continues too: so
    every panel is asked of the whole line once, and an update costs the same on a long line as on a short one. One
    that knows a task is refused for it, unmeasured.
    """
    adapter = Adapter.objects.select_related("worker__project", "parent").get(pk=adapter_id)
    run = TrainingRun.objects.select_related("batch").filter(pk=adapter.run_id or 0).first()
    if run is not None and not adapter.taught:
        _note_taught(adapter, run, by=by)
    if adapter.state != Adapter.State.CANDIDATE:
        return
    policy = GatePolicy.from_json(adapter.worker.project.gate_policy)
    panel = choose_panel(adapter.worker, version=adapter.line_version, policy=policy)
    if panel is None:
        return
    known = Evaluation.objects.on_panels().filter(adapter=adapter.parent_id, item_set=panel.name).exists()
    line = [adapter] if known else adapter.lineage
    batches = Batch.objects.filter(run__in=[one.run_id for one in line]).order_by("pk")
    found = find_leaks(batches, list_measured(panel, policy, sha256=adapter.sha256), world=None)
    answer = ask_leak(0, found.measured, found.answers, what="answers that it learnt from", tasks=found.tasks)
    if answer.passed is False:
        if run is not None:
            _note(run, answer)
        refuse(adapter, reason=f"refused: {answer.gate}: {answer.words}", by=by)


def _note_taught(adapter: Adapter, run: TrainingRun, *, by: str) -> None:
    """Note on an adapter what it was taught with, as the ledger knows it by then, and on its run the alarms of that."""
    taught = describe_taught(run.batch) if run.batch is not None else BatchFacts(rollouts=0)
    if run.backend == "standalone":  # others count updates and scale tensors in their own way
        taught = replace(taught, reach=Recipe.from_json(run.recipe).reach)
    with held_write():
        Adapter.objects.filter(pk=adapter.pk).update(taught=asdict(taught))
        sequences, stale = (int(run.summary.get(name) or 0) for name in ("rollouts", "refused_stale"))
        alarms = [*watch_batch(taught, sequences=sequences, stale=stale), *watch_hints(run.summary)]
        raise_alarms(run, alarms, update=None, by=by)


def note_measured(adapter: Adapter) -> None:
    """Note what the gate measured on the run that an adapter came from: G5, how long the answers are by the server that
    would serve it, where that was asked, and G9.

    The question of lengths, prompts of people's, is not kept any longer.
    """
    run = TrainingRun.objects.filter(pk=adapter.run_id or 0).first()
    verdict = adapter.verdicts.filter(question=Verdict.Question.SAFE).first()
    if run is None or verdict is None:
        return
    policy = GatePolicy.from_json(run.project.gate_policy)
    if found := verdict.details.get("lengths"):
        told = {name: found[name] for name in ("length_before_tokens", "length_after_tokens", "length_drift")}
        TrainingRun.objects.filter(pk=run.pk).update(summary={**run.summary, **told})
        first, last = told["length_before_tokens"], told["length_after_tokens"]
        _note(run, ask_finishing(first, last, least=policy.least_length_ratio))
    skills = verdict.details.get("skills") or {}
    _note(run, ask_skills(skills.get("difference"), skills.get("high"), most=policy.skills_margin))
    (path_of(adapter.uri).parent / FILE).unlink(missing_ok=True)


def _note(run: TrainingRun, answer: GateAnswer) -> None:
    """Onto the run, in the place of what the same gate said before."""
    run.gates = [*(one for one in run.gates if one["gate"] != answer.gate), answer.to_json()]
    TrainingRun.objects.filter(pk=run.pk).update(gates=run.gates)


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


def end_now(run: TrainingRun) -> dict[str, Any]:
    """Columns of an open run that ends now, without a result: when it finished, and what it took."""
    if run.state == TrainingRun.State.RUNNING:
        return {"finished_at": Now(), "cost": add_up_cost(run)}
    if run.finished_at is None:
        return {"finished_at": Now(), "started_at": None}  # what began is of an earlier attempt
    return {}  # it was paused then


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
