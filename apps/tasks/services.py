"""Submitting a task, doing it, cancelling, failing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Required, TypedDict, Unpack

from django.db import connection, transaction
from django.db.models import QuerySet

from apps.accounts.archiving import require_not_archived
from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.adapters.models import Adapter
from apps.adapters.selectors import choose_adapters
from apps.adapters.serving import load
from apps.audit.kinds import Kind
from apps.audit.models import AuditEntry
from apps.audit.services import move, move_many, record, record_many
from apps.base.errors import BadInputError, say_faults
from apps.base.inserting import insert
from apps.checks.results import CheckError
from apps.checks.services import find_default_checks, find_named, settle_checks, settle_defaults
from apps.evals.models import Taskset
from apps.evals.services import hash_item
from apps.inference.errors import ModelNotServedError
from apps.inference.services import record_exchanges
from apps.outbox.services import final_write
from apps.tasks.errors import NoAnswerError
from apps.tasks.models import Attempt, EpisodeTurn, FurtherExchange, Step, Task
from apps.tasks.own_work import choose_held_out, keep_held_out, note_words
from apps.tasks.references import read_reference
from apps.workers.agents import get_agent
from apps.workers.agents.chat import MOST_AT_ONCE
from apps.workers.kinds import find_kind
from apps.workers.models import Worker
from apps.workers.rules import find_environment_error
from apps.workers.selectors import find_base_model
from apps.worlds.registry import WORLDS, get_world
from tentalis.core.field_limits import MAX_GROUP, MAX_PROMPT_CHARS
from tentalis.core.task_files import TaskFileError, TaskRow, read_task_rows
from tentalis.core.worlds import Agent, AttemptDraft, World
from tentalis.limits import LIMITS
from tentalis.outbound.scopes import ScopedThreadPool

MAX_METADATA_CHARS = 20_000
MAX_SEED = 2**53 - 1
MOST_NAMED = 10
"""Workers that are named to whom has to choose one."""
MAX_NESTED = 32
"""Tasks above a task, each part of the next."""


class Submission(TypedDict, total=False):
    """Where tasks go, and by whom.

    Attributes:
        worker: who does them; None takes the project's only active worker.
        group_size: attempts at each, where it says none itself; None takes the project's.
    """

    project: Required[Project]
    environment: Required[str]
    by: Required[User]
    worker: Worker | None
    group_size: int | None


class TaskFields(Submission, total=False):
    """What `submit_task` takes."""

    prompt: Required[str]
    reference: Any
    checks: Any
    parent: Task | None
    metadata: Mapping[str, Any] | None
    seed: int | None
    taskset: Taskset | None


def submit_task(
    *,
    prompt: str,
    reference: Any = None,
    checks: Any = None,
    parent: Task | None = None,
    metadata: Mapping[str, Any] | None = None,
    seed: int | None = None,
    taskset: Taskset | None = None,
    **to: Unpack[Submission],
) -> Task:
    """Accept a task. Nothing is started here: that is the flow's business.

    Args:
        seed: the same seed and adapter give the same attempts.
        taskset: the task is its item of these words, which says reference, checks and seed where they are None.
        checks: a check or a list of them, beside what the environment verifies by itself; None takes the project's
            defaults for the environment, [] none. The facts that they want are values of `metadata`.
    Raises:
        BadInputError: a field is not what is wanted; every fault is in `errors`.
        NotAllowedError: `by` may not submit to this project.
        ProjectArchivedError: it takes no tasks any more.
    """
    row = TaskRow(0, prompt, reference, metadata=metadata or {}, seed=seed, checks=checks)
    if taskset is not None:
        row = _complete_row(row, taskset, environment=to["environment"])
    [(task, errors)] = _make_tasks([row], parent=parent, **to)
    if errors:
        raise BadInputError.at_each(errors)
    with transaction.atomic(savepoint=False):
        chosen = choose_held_out(task.project, [task])
        task.save(force_insert=True)
        keep_held_out(task.project, chosen)
        payload = {"environment": task.environment}
        record(Kind.TASK_SUBMITTED, subject=task, by=task.submitted_by.handle, payload=payload)
    return task


def _complete_row(row: TaskRow, taskset: Taskset, *, environment: str) -> TaskRow:
    """A task that is a taskset's item, with what the item says beyond it. Raises BadInputError naming the field."""
    if environment != taskset.environment:
        message = f"wanted {taskset.environment}, which {taskset} is of, found {environment!r:.80}"
        raise BadInputError.at("environment", message)
    item = taskset.items.filter(content_hash=hash_item(row.prompt, ()), messages=[]).first()
    if item is None:
        raise BadInputError.at("taskset", f"wanted one with an item of this prompt, found none in {taskset}")
    return row._replace(
        reference=item.reference if row.reference is None else row.reference,
        checks=item.checks if row.checks is None else row.checks,
        seed=item.seed if row.seed is None else row.seed,
        metadata={"taskset": str(taskset), **row.metadata},
    )


def submit_tasks(*, rows: Sequence[TaskRow], **to: Unpack[Submission]) -> list[Task]:
    """Accept the tasks of a file, all of them or none. Nothing is started here.

    Raises:
        BadInputError: each line that is not what is wanted, up to `MOST_FAULTS`, at `text`.
        NotAllowedError: `by` may not submit to this project.
        ProjectArchivedError: it takes no tasks any more.
    """
    made = _make_file_tasks(rows, **to)
    with transaction.atomic():
        chosen = choose_held_out(to["project"], made)
        keep_tasks(made, to["by"])
        keep_held_out(to["project"], chosen)
    return made


class FinishedRow(NamedTuple):
    """A task that was done elsewhere.

    Args:
        answers: in the order of its attempts. steps: of its only attempt; () where it tells none.
    """

    task: TaskRow
    answers: Sequence[str]
    steps: Sequence[str] = ()


def check_finished(
    *, project: Project, rows: Sequence[FinishedRow], environment: str, by: User, worker: Worker | None = None
) -> Worker:
    """Whose tasks they would be. Raises what `submit_tasks` raises."""
    to: Submission = {"project": project, "environment": environment, "by": by, "worker": worker}
    return _make_file_tasks([row.task for row in rows], **to)[0].worker


def keep_finished(
    *, project: Project, rows: Sequence[FinishedRow], environment: str, by: User, worker: Worker, unfit: str
) -> list[Attempt]:
    """Tasks that wait for nobody any more, with their attempts, in the running transaction.

    Args:
        unfit: why the attempts' tokens train nothing.
    Returns:
        The attempts, task by task in the rows' order, with their steps.
    """
    to: Submission = {"project": project, "environment": environment, "by": by, "worker": worker}
    made = _make_file_tasks([row.task for row in rows], **to)
    for task, row in zip(made, rows, strict=True):
        task.state, task.answer = Task.State.LEARNING, row.answers[0]
    note_words(made)
    keep_tasks(made, by)
    attempts = insert(
        Attempt(task=task, index=index, worker=worker, text=answer, answer=answer, unfit=unfit)
        for task, row in zip(made, rows, strict=True)
        for index, answer in enumerate(row.answers)
    )
    steps = {task.pk: row.steps for task, row in zip(made, rows, strict=True)}
    insert(
        Step(attempt=attempt, index=index, kind="step", text=text)
        for attempt in attempts
        for index, text in enumerate(steps[attempt.task_id])
    )
    return attempts


def _make_tasks(
    rows: Sequence[TaskRow], *, parent: Task | None = None, **to: Unpack[Submission]
) -> list[tuple[Task, dict[str, list[str]]]]:
    """Tasks that are not saved, each with what is wrong with it, by field."""
    project, environment, by, group_size = to["project"], to["environment"], to["by"], to.get("group_size")
    require_right(by, project, Right.TASKS_WRITE)
    require_not_archived(project)
    worker = to.get("worker") or _only_worker(project)
    usual = project.group_size if group_size is None else group_size
    named = find_named(project)
    usual_checks = find_default_checks(project, environment) if any(row.checks is None for row in rows) else None
    made = []
    for row in rows:
        task = Task(
            project=project,
            worker=worker,
            submitted_by=by,
            parent=parent,
            environment=environment,
            prompt=row.prompt,
            reference=row.reference if row.match is None else read_reference(row.reference, row.match),
            metadata=dict(row.metadata),
            group_size=usual if row.group_size is None else row.group_size,
            seed=row.seed,
        )
        errors = _find_faults(task)
        try:
            if row.checks is None:
                task.checks = settle_defaults(usual_checks, row.metadata)
            else:
                task.checks = settle_checks(project, row.checks, find=named, facts=row.metadata)
        except CheckError as error:
            errors["checks"] = [str(error)]
        made.append((task, errors))
    return made


def _make_file_tasks(rows: Sequence[TaskRow], **to: Unpack[Submission]) -> list[Task]:
    """The tasks of a file, not saved; see `submit_tasks`."""
    faults: dict[int, str] = {}
    made = _make_tasks(rows, **to)
    for row, (_, errors) in zip(rows, made, strict=True):
        if common := {name: words for name, words in errors.items() if name in {"environment", "worker"}}:
            raise BadInputError("; ".join(words[0] for words in common.values()), errors=common)
        if errors:
            faults[row.line] = say_faults(errors)
    if faults:
        raise _refuse_file(TaskFileError(faults))
    return [task for task, _ in made]


def keep_tasks(made: Sequence[Task], by: User) -> None:
    """Save them, in the running transaction."""
    Task.objects.bulk_create(made)
    record_many(
        AuditEntry(
            kind=Kind.TASK_SUBMITTED,
            subject_type="task",
            subject_id=task.pk,
            project_id=task.project_id,
            actor=by.handle,
            payload={"environment": task.environment},
        )
        for task in made
    )


def read_file(text: str, *, form: str, checks: Any = None) -> list[TaskRow]:
    """The tasks of a file, which are not checked further. Raises BadInputError naming lines, at `text`.

    Args:
        checks: of those whose row says none.
    """
    try:
        rows = read_task_rows(text, form=form, most=LIMITS.import_tasks)
    except TaskFileError as error:
        raise _refuse_file(error) from None
    return [row if row.checks is not None else row._replace(checks=checks) for row in rows]


def _refuse_file(error: TaskFileError) -> BadInputError:
    return BadInputError(str(error), errors={"text": error.lines})


def _only_worker(project: Project) -> Worker:
    workers = list(project.workers.filter(is_active=True).order_by("name")[:MOST_NAMED])
    if len(workers) != 1:
        found = ", ".join(worker.name for worker in workers) or "none"
        message = f"name the worker: wanted a project of one active worker where nobody is named, found {found}"
        raise BadInputError(message, errors={"worker": [message]})
    return workers[0]


def _find_faults(task: Task) -> dict[str, list[str]]:
    """What is wrong with a task that is not saved, its checks aside, by field."""
    errors: dict[str, list[str]] = {}
    if not task.prompt.strip():
        errors["prompt"] = ["wanted some text, found none"]
    elif len(task.prompt) > MAX_PROMPT_CHARS:
        errors["prompt"] = [f"wanted at most {MAX_PROMPT_CHARS:,} characters, found {len(task.prompt):,}"]
    elif "\x00" in task.prompt:
        errors["prompt"] = ["wanted text without NUL characters, found one"]
    if (world := WORLDS.get(task.environment)) is None:
        errors["environment"] = [WORLDS.refuse(task.environment)]
    else:
        errors |= _find_world_faults(world, {"prompt": task.prompt, "reference": task.reference}, known=errors)
    if "environment" not in errors and (complaint := find_environment_error(task.worker, task.environment)):
        errors["environment"] = [complaint]
    if task.worker.project_id != task.project_id or not task.worker.is_active:
        errors["worker"] = [f"wanted an active worker of the project, found {task.worker.name!r}"]
    if not 1 <= task.group_size <= MAX_GROUP:
        errors["group_size"] = [f"wanted 1 to {MAX_GROUP}, found {task.group_size}"]
    if task.seed is not None and not 0 <= task.seed <= MAX_SEED:
        errors["seed"] = [f"wanted 0 to {MAX_SEED}, found {task.seed}"]
    if complaint := _find_parent_error(task):
        errors["parent"] = [complaint]
    if task.metadata and len(json.dumps(task.metadata)) > MAX_METADATA_CHARS:
        errors["metadata"] = [f"wanted at most {MAX_METADATA_CHARS:,} characters of JSON, found more"]
    return errors


def _find_parent_error(task: Task) -> str:
    if task.parent is None:
        return ""
    if task.parent.project_id != task.project_id:
        return "wanted a task of the same project"
    above = task.parent.pk
    for _ in range(MAX_NESTED):
        found = Task.objects.filter(pk=above).values_list("parent", flat=True).first()
        if found is None:
            return ""
        above = found
    return f"wanted at most {MAX_NESTED} tasks above each other, found more: this work is split again and again"


def _find_world_faults(world: World, values: Mapping[str, Any], *, known: Mapping[str, Any]) -> dict[str, list[str]]:
    faults = {}
    for name, check in (("prompt", world.check_prompt), ("reference", world.check_reference)):
        if name not in known:
            try:
                check(values[name])
            except ValueError as error:
                faults[name] = [str(error)]
    return faults


@dataclass(frozen=True)
class _Group:
    """What came of the tries at a task.

    Args:
        model: name the server was asked for.
    """

    task: Task
    adapter: Adapter | None
    model: str
    drafts: Sequence[AttemptDraft]


def work_tasks(task_ids: Sequence[int], *, by: str) -> bool:
    """Do the attempts at tasks of one worker: a request to the engine each, some at once, then one transaction.

    Raises:
        NoAnswerError: every try at one of them failed.
        ProviderBusyError, ProviderRefusedError: the model could not be asked.
    """
    told_by = ("worker__provider", "worker__agent_server", "worker__learns_with", "worker__project")
    waiting = Task.objects.filter(pk__in=task_ids, state__in=(Task.State.QUEUED, Task.State.WORKING))
    tasks = list(waiting.select_related(*told_by).order_by("pk"))
    if not tasks:
        return False
    queued = [task for task in tasks if task.state == Task.State.QUEUED]
    move_many(queued, Task.State.WORKING, by=by)
    groups = _try_groups(tasks)
    with final_write(task_ids) as kept:
        _save_groups([group for group in groups if group.task.pk in kept], by=by)
    return True


def _try_groups(tasks: Sequence[Task]) -> list[_Group]:
    worker = tasks[0].worker
    adapters: Mapping[int, Adapter | None] = {}
    if not find_kind(worker.kind).through_gateway:  # else the gateway chooses
        adapters = choose_adapters(worker, {task.pk: task.parent_id is None for task in tasks})
    base_model = find_base_model(worker)
    agent = get_agent(worker, task_id=tasks[0].pk)

    def try_group(task: Task) -> _Group:
        adapter = adapters.get(task.pk)
        model = adapter.name if adapter else base_model
        drafts = _try_group(task, agent, adapter, model)
        if all(draft.error for draft in drafts):
            why = drafts[0].error if drafts else "none was made"
            raise NoAnswerError(f"none of {len(drafts)} tries gave an answer: {why}")
        return _Group(task, adapter, model, drafts)

    def try_aside(task: Task) -> _Group:
        try:
            return try_group(task)
        finally:
            connection.close()

    if len(tasks) == 1:
        return [try_group(tasks[0])]
    with ScopedThreadPool(min(len(tasks), MOST_AT_ONCE)) as pool:
        return list(pool.map(try_aside, tasks))


def _save_groups(groups: Sequence[_Group], *, by: str) -> None:
    """Eight statements, however many tasks and tries."""
    exchanges = _keep_exchanges(groups)
    adapters = _find_adapters(groups)
    drafts = [draft for group in groups for draft in group.drafts]
    attempts = insert(
        Attempt(
            task=group.task,
            index=index,
            worker=group.task.worker,
            adapter=adapters.get(draft.served_by) if draft.exchange_ids else group.adapter,
            exchange_id=exchanges[group.task.pk, index],
            state=Attempt.State.FAILED if draft.error else Attempt.State.ANSWERED,
            text=draft.text,
            answer=draft.answer,
            error=draft.error,
            unfit=draft.unfit,
            elapsed_s=draft.elapsed_s,
        )
        for group in groups
        for index, draft in enumerate(group.drafts)
    )
    insert(
        FurtherExchange(attempt=attempt, exchange_id=exchange_id, place=place)
        for attempt, draft in zip(attempts, drafts, strict=True)
        for place, exchange_id in enumerate(draft.exchange_ids[1:], start=1)
    )
    save_steps(attempts, drafts)
    made: dict[int, list[int]] = {}
    for attempt in attempts:
        made.setdefault(attempt.task_id, []).append(attempt.pk)
    told = [group.task for group in groups]
    move_many(told, Task.State.SCORING, by=by, payload=lambda task: {"attempts": made[task.pk]})


def _keep_exchanges(groups: Sequence[_Group]) -> dict[tuple[int, int], int]:
    """(task id, index) -> each try's first call: what a gateway has stored already is not stored again."""
    kept: dict[tuple[int, int], int] = {}
    by_adapter: dict[tuple[Adapter | None, str], list[tuple[int, int, AttemptDraft]]] = {}
    for group in groups:
        for index, draft in enumerate(group.drafts):
            if draft.exchange_ids:
                kept[group.task.pk, index] = draft.exchange_ids[0]
            else:
                by_adapter.setdefault((group.adapter, group.model), []).append((group.task.pk, index, draft))
    for (adapter, model), ours in by_adapter.items():
        worker = groups[0].task.worker
        stored = record_exchanges(
            project=worker.project,
            drafts=[draft for _, _, draft in ours],
            worker_name=worker.name,
            model=model,
            adapter_name=adapter.name if adapter else "",
            policy_version=adapter.version if adapter else 0,
            provider=worker.provider,
            task_ids=[task for task, _, _ in ours],
        )
        kept |= {(task, index): exchange.pk for (task, index, _), exchange in zip(ours, stored, strict=True)}
    return kept


def _find_adapters(groups: Sequence[_Group]) -> dict[str, Adapter]:
    """Name -> what served tries whose calls went through a gateway, which chose it."""
    names = {draft.served_by for group in groups for draft in group.drafts if draft.exchange_ids}
    project = groups[0].task.project_id
    return {one.name: one for one in Adapter.objects.filter(project=project, name__in=names)} if names else {}


def _try_group(task: Task, agent: Agent, adapter: Adapter | None, model: str) -> list[AttemptDraft]:
    """The tries at one task. A server that was restarted is given the adapter again first."""

    def work() -> list[AttemptDraft]:
        return agent.work(
            prompts=[task.prompt],
            world=get_world(task.environment),
            group_size=task.group_size,
            seeds=[task.seed],
            model=model,
        )[0]

    try:
        return work()
    except ModelNotServedError:
        if adapter is None:
            raise
        load(adapter)
        return work()


def save_steps(attempts: Sequence[Attempt], drafts: Sequence[AttemptDraft]) -> None:
    """Write the drafts' steps under their attempts."""
    insert(
        Step(
            attempt=attempt,
            index=index,
            kind=step.kind,
            text=step.text,
            tool_name=step.tool_name,
            tool_result=step.tool_result,
            token_start=step.token_start,
            token_end=step.token_end,
            token_overlap=step.token_overlap,
        )
        for attempt, draft in zip(attempts, drafts, strict=True)
        for index, step in enumerate(draft.steps)
    )


def drop_snapshots(attempts: QuerySet[Attempt] | Sequence[Attempt]) -> None:
    """Of episodes that nobody goes on with, keep what was done and no state to go on from."""
    EpisodeTurn.objects.filter(attempt__in=attempts, snapshot__isnull=False).update(snapshot=None)


def cancel_tasks(*, tasks: Sequence[Task], by: User) -> None:
    """Give tasks of one project up, all or none; what was done of them stays readable and trains nothing. Tries under
    way are stored as cancelled.

    Raises:
        IllegalMoveError: one has ended already.
    """
    if not tasks:
        return
    require_right(by, tasks[0].project, Right.TASKS_WRITE)
    with transaction.atomic():
        locked = Task.objects.filter(pk__in=[task.pk for task in tasks]).order_by("pk").select_for_update(no_key=True)
        states = dict(locked.values_list("pk", "state"))
        for task in tasks:
            task.state = states.get(task.pk, task.state)
        move_many(tasks, Task.State.CANCELLED, by=by.handle)
        under_way = Attempt.every.filter(task__in=tasks, state__in=Attempt.UNDER_WAY)
        drop_snapshots(under_way)
        under_way.update(state=Attempt.State.CANCELLED, error=f"cancelled by {by.username} while it was under way")
        handed_in = set(Attempt.objects.filter(task__in=tasks).values_list("task_id", "index"))
        insert(
            Attempt(
                task=task,
                index=index,
                worker_id=task.worker_id,
                state=Attempt.State.CANCELLED,
                error=f"cancelled by {by.username} while it was under way",
            )
            for task in tasks
            if states[task.pk] == Task.State.WORKING
            for index in range(task.group_size)
            if (task.pk, index) not in handed_in
        )


def fail_task(task_id: int, *, link: str, reason: str, by: str) -> None:
    """Store a task as failed, with the link it failed at and why. A task that has ended is left alone."""
    task = Task.objects.get(pk=task_id)
    if task.state not in Task.FINAL:
        under_way = Attempt.every.filter(task=task, state__in=Attempt.UNDER_WAY)
        drop_snapshots(under_way)
        under_way.update(state=Attempt.State.LOST, error=reason)
        move(task, Task.State.FAILED, by=by, payload={"link": link}, failed_link=link, failure=reason)


def revive_task(task_id: int, *, link: str, by: str) -> None:
    """Put a failed task back where the link takes it up."""
    task = Task.objects.get(pk=task_id)
    if task.state == Task.State.FAILED:
        if link == "tasks.play":
            Attempt.every.filter(task=task).update(state=Attempt.State.LOST)  # all of them had failed
        state = {"tasks": Task.State.QUEUED, "scoring": Task.State.SCORING}.get(link.split(".")[0], Task.State.LEARNING)
        if link == "feedback.open_review":
            state = Task.State.SCORING
        move(task, state, by=by, kind=Kind.TASK_REPLAYED, failed_link="", failure="")
