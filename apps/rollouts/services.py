"""The ledger's writes: attempts become rollouts, rollouts fill batches, each exactly once."""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from django.db import transaction
from django.db.models import Case, Count, F, Max, Min, Q, QuerySet, When
from django.db.models.functions import Now

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.audit.services import move, move_many, record, record_many, write_entry
from apps.base.errors import ConflictError, TentalisError
from apps.base.inserting import insert
from apps.evals.holding import HELD_OUT, find_held_out, is_held_out
from apps.feedback.selectors import TrustedHint, effective_judgements, find_last_hints
from apps.feedback.set_aside import Trust
from apps.inference.models import Exchange
from apps.outbox.services import final_write
from apps.rollouts.examples import put_items
from apps.rollouts.models import Batch, Rollout, TrainingUse
from apps.rollouts.pairing import AdapterLine, Judged, note_items
from apps.rollouts.tokens import find_other_base
from apps.tasks.models import WITH_STEPS, Attempt, Task
from apps.workers.models import Worker
from apps.workers.recipes import choose_recipe
from apps.workers.rules import require_own_line
from apps.worlds.registry import get_world
from tentalis.core.learning.recipes import PREFERENCES, Recipe
from tentalis.core.learning.rewards import EffectiveJudgement, judge_step
from tentalis.core.sampling import find_sampling_fault

TRAINABLE_STEPS = frozenset({"step", "call", "answer", "bad", "other"})
_OF_ATTEMPT = ("task", "index", "state", "text", "answer", "error", "unfit", "missing_steps")
_OF_EXCHANGE = (*Exchange.EXACT_BY, "sampling", "error", "created_at")
_OF_WORKER = (
    "project",
    "name",
    "kind",
    "base_directory",
    "base_facts",
    "base_since",
    "adapters_per",
    "user_batch_tasks",
    "learns_with",
)
_TOLD = (
    *_OF_ATTEMPT,
    *(f"exchange__{name}" for name in (*_OF_EXCHANGE, "session__end_user")),
    *(f"{worker}__{name}" for worker in ("worker", "worker__learns_with", "adapter__worker") for name in _OF_WORKER),
)


def build_rollouts(task_ids: Sequence[int], *, by: str) -> None:
    """Turn judged tasks' attempts into rollouts, put the usable ones into their lines' batches, end the tasks.

    One transaction does all of it, so that a rollout is in exactly one batch or in none for a stated reason. Judgements
    are read under the tasks' locks: one that is taken back meanwhile either counts not at all or finds the rollouts.

    Args:
        task_ids: of one project.
    """
    learning = Task.objects.filter(pk__in=task_ids, state=Task.State.LEARNING).order_by("pk")
    tasks = list(learning.select_related("project", "worker"))
    if not tasks:
        return
    attempts, held_out, trust = load_attempts(tasks), find_held_out(tasks), Trust(tasks[0].project_id)
    with final_write(task_ids) as kept:
        tasks = [task for task in tasks if task.pk in kept]
        list(Task.objects.filter(pk__in=kept).order_by("pk").select_for_update(no_key=True).values_list("pk"))
        judgements, hints = effective_judgements(tasks, trust), find_last_hints(tasks, trust)
        made = insert(
            make_rollout(
                task,
                attempt,
                judgements[task.pk].get(attempt.pk),
                hints.get(task.pk),
                is_held_out=task.pk in held_out,
            )
            for task in tasks
            for attempt in attempts[task.pk]
        )
        rollouts: dict[int, list[Rollout]] = {task.pk: [] for task in tasks}
        for rollout in made:
            rollouts[rollout.task_id].append(rollout)
        lines = {one.pk: find_line(one) for task in tasks for one in attempts[task.pk]}
        note_items([Judged(task, attempts[task.pk], rollouts[task.pk], task.pk in held_out) for task in tasks], lines)
        usable = {task: [rollout for rollout in rollouts[task.pk] if rollout.is_usable] for task in tasks}
        record_many(
            write_entry(
                Kind.ROLLOUTS_BUILT,
                subject=task,
                by=by,
                payload={"rollouts": len(rollouts[task.pk]), "usable": len(usable[task])},
            )
            for task in tasks
        )
        move_many(tasks, Task.State.DONE, by=by)
        # last, for the line's other tasks wait from here on until this one is committed
        offer(usable, by=by)


def make_rollout(
    task: Task, attempt: Attempt, judgement: EffectiveJudgement | None, taught: TrustedHint | None, *, is_held_out: bool
) -> Rollout:
    """An attempt as a rollout that is not saved. Its reward counts as far as that is trusted, its hint as far as who
    gave it; without a reward all of it does."""
    reason = find_fault(task, attempt, judgement, taught, is_held_out=is_held_out)
    rollout = Rollout(
        project_id=task.project_id,
        worker_id=task.worker_id,
        task=task,
        attempt=attempt,
        adapter=attempt.adapter,
        hint=taught.hint if taught else None,
        hint_weight=taught.trust if taught else None,
        is_usable=not reason,
        unusable_reason=reason,
        missing_steps=attempt.missing_steps,
    )
    if judgement is not None:
        rollout.reward = judgement.reward
        rollout.reward_source = judgement.reward_source
        rollout.weight = taught.trust if taught and judgement.reward is None else judgement.weight
        rollout.steps = [
            [step.token_start, step.token_end, *judge_step(judgement, step.pk)]
            for step in attempt.ordered_steps
            if step.token_start is not None and step.kind in TRAINABLE_STEPS
        ]
    return rollout


def find_fault(
    task: Task, attempt: Attempt, judgement: EffectiveJudgement | None, taught: TrustedHint | None, *, is_held_out: bool
) -> str:
    """Why an attempt trains nothing; "" when it does."""
    if fault := find_obstacle(task, attempt, is_held_out=is_held_out):
        return fault
    if (judgement is None or judgement.reward is None) and taught is None:
        aside = judgement.set_aside if judgement else ""
        return f"neither a reward nor a hint: {aside or 'nobody judged it'}"[:300]
    return ""


def find_obstacle(task: Task, attempt: Attempt, *, is_held_out: bool) -> str:
    """Why an attempt trains nothing, whatever is said of it; "" where a judgement can count."""
    if not task.project.learning_enabled:
        return "learning is switched off for the project"
    if is_held_out:
        return HELD_OUT
    if attempt.state == Attempt.State.FAILED:
        return f"the attempt failed: {attempt.error}"[:300]
    if attempt.unfit:
        return attempt.unfit
    if attempt.exchange is None:
        return "no call of a model is known for this attempt: its tokens were never seen"
    if fault := attempt.exchange.token_fault or find_other_base(attempt.exchange, find_line(attempt).worker):
        return fault
    if learns_on_policy(task, attempt):
        return find_sampling_fault(attempt.exchange.sampling)[:300]
    return ""


def find_obstacles(task: Task) -> list[str]:
    """Why nothing can be learnt from a judgement of the task, each reason once; [] where it can count. One query."""
    try:
        get_world(task.environment).check_prompt(task.prompt)
        is_kept = is_held_out(task)
        found = [find_obstacle(task, attempt, is_held_out=is_kept) for attempt in _find_attempts([task])]
    except (TentalisError, ValueError):
        return [f"its prompt is no task of environment {task.environment}, or that is not installed"]
    return list(dict.fromkeys(found)) if all(found) else []


def learns_on_policy(task: Task, attempt: Attempt) -> bool:
    """Whether the attempt's line learns by a ratio to the policy that sampled, and not by imitation or preference."""
    recipe = choose_recipe(task.project, find_line(attempt).worker)
    return recipe.algorithm not in PREFERENCES and recipe.algorithm != "reward_weighted_sft"


def offer(usable: Mapping[Task, Sequence[Rollout]], *, by: str) -> None:
    """Put tasks' usable rollouts into the filling batches of the lines they teach, in the running transaction.

    A task that was tried in several lines is in a batch of each.
    """
    by_line: dict[AdapterLine, dict[Task, list[Rollout]]] = {}
    for task, rollouts in usable.items():
        for rollout in rollouts:
            by_line.setdefault(find_line(rollout.attempt), {}).setdefault(task, []).append(rollout)
    for line in sorted(by_line, key=lambda line: (line.worker.pk, line.end_user)):
        _put(deque(by_line[line].items()), line=line, by=by)


def load_attempts(tasks: Iterable[Task]) -> dict[int, list[Attempt]]:
    """Task id -> its attempts with their steps and what their lines are told by: two queries of what is looked at."""
    known = {task.pk: task for task in tasks}
    found: dict[int, list[Attempt]] = {pk: [] for pk in known}
    for attempt in _find_attempts(known).prefetch_related(WITH_STEPS):
        attempt.task = known[attempt.task_id]
        found[attempt.task_id].append(attempt)
    return found


def _find_attempts(tasks: Iterable[Task | int]) -> QuerySet[Attempt]:
    told_by = ("exchange__session", "adapter__worker", "worker__learns_with")
    return Attempt.objects.filter(task__in=list(tasks)).select_related(*told_by).only(*_TOLD).order_by("index")


def find_line(attempt: Attempt) -> AdapterLine:
    """Whose adapters an attempt teaches: those it was made with; the base model's, its worker's present line.

    Within it the person's in whose session it was made, where the line keeps such.
    """
    worker = attempt.worker.line if attempt.adapter is None else attempt.adapter.worker
    if worker.adapters_per != Worker.AdaptersPer.USER or attempt.exchange is None or attempt.exchange.session is None:
        return AdapterLine(worker, "")
    return AdapterLine(worker, attempt.exchange.session.end_user)


def _put(offered: deque[tuple[Task, list[Rollout]]], *, line: AdapterLine, by: str) -> None:
    """Into the line's filling batch; where that is full, the rest into the next."""
    worker, end_user = line
    project = offered[0][0].project
    target, recipe = _find_target(project, worker, end_user), choose_recipe(project, worker)
    while offered:
        batch = lock_open_batch(worker, end_user=end_user, target_tasks=target, by=by)
        put: list[Rollout] = []
        tasks = min(len(offered), max(batch.target_tasks - batch.task_count, 1))
        for _ in range(tasks):
            put += offered.popleft()[1]
        insert(TrainingUse(rollout=rollout, batch=batch) for rollout in put)
        batch.task_count += tasks
        batch.rollout_count += len(put)
        Batch.objects.filter(pk=batch.pk).update(
            task_count=F("task_count") + tasks, rollout_count=F("rollout_count") + len(put)
        )
        if is_full(batch, recipe):
            close(batch, by=by)


def _find_target(project: Project, worker: Worker, end_user: str) -> int:
    """Tasks that fill a batch of this line, as the settings say now."""
    if end_user and worker.user_batch_tasks is not None:
        return worker.user_batch_tasks
    return project.batch_tasks


def find_outdated() -> QuerySet[Batch]:
    """Batches that fill towards another size than the settings say by now."""
    own = Q(worker__user_batch_tasks__isnull=False) & ~Q(end_user="")
    wanted = Case(When(own, then=F("worker__user_batch_tasks")), default=F("project__batch_tasks"))
    return Batch.objects.filter(state=Batch.State.OPEN, worker__learns_with=None).exclude(target_tasks=wanted)


def follow_settings(batch_id: int, *, by: str) -> Batch | None:
    """Let a batch that fills follow the settings' size, in the running transaction; it, where that closed it."""
    worker_id = Batch.objects.values_list("worker_id", flat=True).get(pk=batch_id)
    worker = Worker.objects.select_related("project").select_for_update(of=("self",), no_key=True).get(pk=worker_id)
    batch = Batch.objects.select_for_update(no_key=True).filter(pk=batch_id, state=Batch.State.OPEN).first()
    if batch is None:
        return None
    _aim_at(batch, _find_target(worker.project, worker, batch.end_user))
    if not batch.rollout_count or not is_full(batch, choose_recipe(worker.project, worker)):
        return None
    close(batch, by=by)
    return batch


def _aim_at(batch: Batch, target_tasks: int) -> None:
    if batch.target_tasks != target_tasks:
        batch.target_tasks = target_tasks
        Batch.objects.filter(pk=batch.pk).update(target_tasks=target_tasks)


def lock_open_batch(worker: Worker, *, end_user: str, target_tasks: int, by: str) -> Batch:
    """The filling batch of a worker's line, locked; a new one where there is none. Its size is the settings'."""
    Worker.objects.select_for_update(no_key=True).only("pk").get(pk=worker.pk)
    filling = Batch.objects.filter(worker=worker, end_user=end_user, state=Batch.State.OPEN)
    batch = filling.select_for_update(no_key=True).first()
    if batch is None:
        batch = Batch.objects.create(
            project_id=worker.project_id,
            worker=worker,
            end_user=end_user,
            number=_next_number(worker),
            target_tasks=target_tasks,
        )
        record(Kind.BATCH_OPENED, subject=batch, by=by)
    _aim_at(batch, target_tasks)
    return batch


def _next_number(worker: Worker) -> int:
    return int(Batch.objects.filter(worker=worker).aggregate(last=Max("number"))["last"] or 0) + 1


def close(batch: Batch, *, by: str) -> None:
    """Say that a batch takes no more."""
    payload = {"tasks": batch.task_count, "rollouts": batch.rollout_count}
    move(batch, Batch.State.CLOSED, by=by, payload=payload, closed_at=Now())


def close_open_batch(worker: Worker, *, by: str, end_user: str = "", kind: str = Batch.Kind.ROLLOUTS) -> Batch:
    """Close what there is, for a person who does not want to wait.

    Args:
        worker: whose line it is, not one who learns with it.
        end_user: whose line of adapters it is to train; "" for the worker's.
        kind: what is to be learnt; pairs and demonstrations come from every task of the line whose are not used yet.
    Raises:
        ConflictError: nothing is in it, or the worker learns with another.
    """
    require_own_line(worker, "train")
    with transaction.atomic():
        if kind == Batch.Kind.ROLLOUTS:
            filling = Batch.objects.filter(worker=worker, end_user=end_user, state=Batch.State.OPEN)
            batch = filling.select_for_update(no_key=True).first()
            if batch is None or not batch.rollout_count:
                raise ConflictError(f"{worker.name} has nothing to train on: its batch holds no rollout")
            close(batch, by=by)
        else:
            batch = _gather(worker, kind, end_user=end_user, by=by)
    return batch


def _gather(worker: Worker, kind: str, *, end_user: str, by: str) -> Batch:
    """A closed batch of the line's unused pairs or demonstrations; the one that fills with rollouts fills on."""
    Worker.objects.select_for_update(no_key=True).only("pk").get(pk=worker.pk)
    batch = Batch.objects.create(
        project_id=worker.project_id,
        worker=worker,
        end_user=end_user,
        number=_next_number(worker),
        kind=kind,
        state=Batch.State.CLOSED,
        target_tasks=1,
        closed_at=Now(),
    )
    taken, refused = put_items(batch, kind)
    if not taken:
        why = "".join(f"; {count} are left out: {reason}" for reason, count in refused.items())
        raise ConflictError(f"{worker.name} has nothing to train on: it has no unused {kind}{why}")
    record(Kind.BATCH_OPENED, subject=batch, by=by)
    record(Kind.BATCH_CLOSED, subject=batch, by=by, payload={"tasks": batch.task_count, "rollouts": 0})
    batch.refresh_from_db(fields=["closed_at"])
    return batch


def end_line(*, project: Project, end_user: str, stand_in: str) -> None:
    """Close a person's books, in the running transaction: their name leaves the batches, and none fills any more."""
    batches = Batch.objects.filter(project=project, end_user=end_user)
    batches.filter(state=Batch.State.OPEN, uses=None).delete()
    batches.update(end_user=stand_in)


def is_full(batch: Batch, recipe: Recipe) -> bool:
    """Whether a batch holds enough to be trained.

    `dapo` learns only from groups whose rewards differ (`core.learning.advantages.is_informative`): its batch fills on
    until it holds as many of those as it was to hold tasks, or `recipe.refill` times as many tasks.
    """
    if batch.task_count < batch.target_tasks:
        return False
    if recipe.algorithm != "dapo" or batch.task_count >= math.ceil(recipe.refill * batch.target_tasks):
        return True
    return count_informative(batch) >= batch.target_tasks


def count_informative(batch: Batch) -> int:
    """Tasks of the batch that can be compared: attempts whose rewards differ, or one alone, compared over the batch."""
    groups = Rollout.objects.filter(training_use__batch=batch, reward__isnull=False).order_by().values("task")
    spread = groups.annotate(lowest=Min("reward"), highest=Max("reward"), size=Count("pk"))
    return spread.filter(highest__gt=F("lowest")).count() + spread.filter(size=1).count()
