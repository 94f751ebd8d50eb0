"""Preflight: what of G1 to G13 (`preflight_rules`) is asked before a training. What results are asked: `results.py`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.db.models import Count, QuerySet

from apps.adapters.models import Adapter
from apps.audit.services import move
from apps.base.errors import TentalisError
from apps.evals.panels import choose_panel
from apps.gate.sides import list_measured
from apps.inference.services import client_for
from apps.outbox.services import final_write
from apps.rollouts.contents import list_taught
from apps.rollouts.models import Batch, Demonstration, TrainingUse
from apps.rollouts.tokens import load_conversations, read_parts
from apps.tasks.models import Attempt, Task
from apps.training.contamination import find_leaks
from apps.training.models import TrainingRun
from apps.training.results import end_now
from apps.workers.base_names import count_parameters
from apps.workers.bases import compare_base
from apps.workers.selectors import find_base_model
from apps.worlds.certificates import settle_standing
from apps.worlds.registry import WORLDS
from tentalis.core.learning.gate import GatePolicy
from tentalis.core.learning.preflight_rules import (
    IMITATING,
    GateAnswer,
    ask_base,
    ask_environment,
    ask_leak,
    ask_learning_rate,
    ask_quantised,
    ask_replay,
    ask_solved,
    ask_split,
    ask_worlds,
    find_refusal,
)

REPLAYED = 4
"""Prompts whose text the server is asked to read out and in again."""

GOOD = 0.5
ANSWERS = {Batch.Kind.ROLLOUTS: "attempts", Batch.Kind.PAIRS: "sides of pairs"}
"""What the answers of a batch are called; else they are called by its kind."""


def ask_run(run_id: int, *, by: str) -> None:
    """Ask whether a queued run may train at all; what a gate objects to is refused before anything is sent.

    A person may queue it again, when the reason is gone.
    """
    run = TrainingRun.objects.select_related("batch", "worker__provider", "worker__project").get(pk=run_id)
    if run.state != TrainingRun.State.QUEUED or run.purpose != TrainingRun.Purpose.POLICY or run.batch is None:
        return
    answers = ask_before(run, run.batch)
    gates = [one.to_json() for one in answers]
    reason = find_refusal(answers)
    with final_write():
        if not reason:
            TrainingRun.objects.filter(pk=run.pk).update(gates=gates)
            return
        payload = {"reason": reason[:300]}
        ended = {"gates": gates, "failure": reason, "waiting_reason": "", **end_now(run)}
        move(run, TrainingRun.State.REFUSED, by=by, payload=payload, **ended)


def ask_before(run: TrainingRun, batch: Batch) -> list[GateAnswer]:
    """G1, G2, G3, G6, G8 and G10 to G13, before anything is sent to the box."""
    algorithm = str(run.recipe.get("algorithm", ""))
    policy = GatePolicy.from_json(run.project.gate_policy)
    taught = list_taught(batch)
    tasks = list({one.task.pk: one.task for one in taught}.values())
    attempts = list({one.attempt.pk: one.attempt for one in taught if one.attempt is not None}.values())
    return [
        ask_solved(algorithm, _count_solved(run) if algorithm in IMITATING else 0, least=policy.least_solved),
        _ask_replay(run, attempts),
        ask_split(_count_split(batch)),
        _ask_environment(tasks),
        _ask_leak(run, batch, policy),
        ask_quantised(_read_config(run)),
        _ask_base(run, attempts),
        ask_learning_rate(float(run.recipe.get("learning_rate", 0.0)), count_parameters(run.worker)),
        _ask_worlds(tasks),
    ]


def _count_solved(run: TrainingRun) -> int:
    """Distinct tasks of the line with a good attempt that may train, or with the answer a person gave."""
    line = TrainingUse.objects.filter(batch__worker=run.worker_id, batch__end_user=run.end_user)
    good = line.filter(rollout__reward__gte=GOOD, batch_id__lte=run.batch_id).values("rollout__task_id")
    told = Demonstration.objects.filter(worker=run.worker_id, end_user=run.end_user, unusable_reason="")
    shown = (Demonstration.Source.EDIT, Demonstration.Source.GUIDED, Demonstration.Source.IMPORTED)
    by_people = told.filter(source__in=shown)
    return int(good.order_by().union(by_people.order_by().values("task_id")).count())


def _count_split(batch: Batch) -> int:
    """Tasks of which something is in another batch of the line too, of the same kind."""
    uses, task = batch.items(), batch.task_path
    elsewhere: QuerySet[Any] = uses.model._default_manager.filter(
        batch__worker=batch.worker_id, batch__end_user=batch.end_user, batch__kind=batch.kind
    )
    split = uses.order_by().filter(**{f"{task}__in": elsewhere.exclude(batch=batch).values(task)})
    return int(split.aggregate(n=Count(task, distinct=True))["n"])


def _ask_replay(run: TrainingRun, attempts: Sequence[Attempt]) -> GateAnswer:
    attempts = [one for one in attempts if one.exchange is not None and one.exchange.has_exact_tokens]
    if not attempts:
        return ask_replay(0, 0, why_not="the batch holds no attempt with a conversation of its own")
    client = client_for(run.worker.provider, run.project_id)
    if not client.tells_tokens:
        return ask_replay(0, 0, why_not="the model server tells no tokens")
    ids = [one.pk for one in attempts[:: max(1, len(attempts) // REPLAYED)][:REPLAYED]]
    chosen = Attempt.objects.filter(pk__in=ids).select_related("exchange")
    try:
        conversations = load_conversations(chosen)
        prompts = [part.joined.prompt for one in chosen for part in read_parts(one, conversations)]
        model = find_base_model(run.worker)
        return ask_replay(len(prompts), sum(client.spell(list(prompt), model=model) is not None for prompt in prompts))
    except TentalisError as error:
        return ask_replay(0, 0, why_not=str(error)[:200])


def _ask_environment(tasks: Sequence[Task]) -> GateAnswer:
    starts = {
        str(task.pk): [str(task.metadata.get("environment_sha256", ""))]
        for task in tasks
        if (world := WORLDS.get(task.environment)) is None or not world.keeps_nothing
    }
    return ask_environment(starts, is_stateless=not starts)


def _ask_worlds(tasks: Sequence[Task]) -> GateAnswer:
    """Of a world that is here no more nothing is asked: its attempts were made, and G6 looks at where they began."""
    worlds = [WORLDS.get(name) for name in sorted({task.environment for task in tasks})]
    found = [settle_standing(world, by="gate") for world in worlds if world is not None]
    return ask_worlds([one.words for one in found if one.may_train is False], [one.words for one in found])


def _ask_leak(run: TrainingRun, batch: Batch, policy: GatePolicy) -> GateAnswer:
    last = Adapter.objects.filter(worker=run.worker_id, end_user=run.end_user).order_by("-line_version").first()
    panel = choose_panel(run.worker, version=last.line_version + 1 if last else 1, policy=policy)
    found = find_leaks([batch], list_measured(panel, policy) if panel else (), world=panel.world if panel else None)
    what = ANSWERS.get(Batch.Kind(batch.kind), batch.kind)
    return ask_leak(found.held_out, found.measured, found.answers, what=what, tasks=found.tasks)


def _ask_base(run: TrainingRun, attempts: Sequence[Attempt]) -> GateAnswer:
    """Whether its base weights are where they were said to be, are what they were then, and are what answered."""
    try:
        found = compare_base(run.worker, backend=run.backend)
    except TentalisError as error:
        return ask_base(str(error), "")
    if not found.is_good or run.worker.base_since is None:
        return ask_base("" if found.is_good else found.words, found.words)
    asked = Attempt.objects.filter(pk__in=[one.pk for one in attempts], exchange__created_at__lt=run.worker.base_since)
    others = asked.count()
    words = f"{found.words}; left out are {others} of {len(attempts)} attempts, which another base model answered"
    return ask_base(words if others == len(attempts) > 0 else "", words if others else found.words)


def _read_config(run: TrainingRun) -> dict[str, Any] | None:
    if not run.worker.base_directory:
        return None
    try:
        found = json.loads((Path(run.worker.base_directory) / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
