"""What agents that speak the older routes hand in: results, judgements, logs of their talks."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.archiving import require_not_archived
from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import find_rights, require_right
from apps.base.errors import BadInputError, ConflictError
from apps.base.waiting import LongPollHub
from apps.feedback import submit
from apps.feedback.judgement import StepRating
from apps.feedback.models import Feedback, Review
from apps.inference.models import Exchange, Session
from apps.outbox import services as outbox
from apps.outbox.kinds import OF_WORK
from apps.pipeline import flow
from apps.tasks import services as tasks
from apps.tasks.models import Attempt, Task
from apps.workers.models import Worker

ANSWERED = frozenset(Task.State) - {Task.State.QUEUED, Task.State.WORKING, Task.State.SCORING}
"""States in which a task's result can be read, or never will be."""


def choose_worker(project: Project, name: str) -> Worker | None:
    """Whom an older agent's task is for: the worker named; else the only active one that works outside, if there is.

    Raises:
        BadInputError: the project has no worker of that name.
    """
    active = Worker.objects.select_related("project").filter(project=project, is_active=True)
    if name:
        found = active.filter(name=name).first()
        if found is None:
            raise BadInputError.at("metadata", f"no active worker {name[:64]!r} in {project.slug}")
        return found
    outside = list(active.filter(kind=Worker.Kind.OUTSIDE)[:2])
    return outside[0] if len(outside) == 1 else None


def hand_in_result(
    *,
    task: Task,
    worker_id: str,
    steps: Sequence[str],
    result: str,
    is_done: bool,
    by: User,
    elapsed_s: float | None = None,
) -> Task:
    """Take an outside agent's result: an answer that is scored and reviewed like any, or that it could not do it.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: another worker's task.
        ConflictError: the task takes no result any more.
    """
    require_right(by, task.project, Right.ATTEMPTS_WRITE)
    require_worker(task, worker_id, by)
    if is_done:
        with transaction.atomic():
            own = [{"text": text} for text in steps]
            attempt = flow.submit_own_attempt(task=task, steps=own, answer=result, by=by)
            Attempt.objects.filter(pk=attempt.pk).update(elapsed_s=elapsed_s)
    else:
        with transaction.atomic():
            outbox.cancel_segments(*OF_WORK, subject_ids=[task.pk])  # first, as a link's last write has it
            locked = Task.objects.select_for_update().get(pk=task.pk)
            if locked.state != Task.State.QUEUED:
                raise ConflictError(f"task {task.pk} takes no result: wanted state queued, found {locked.state}")
            tasks.fail_task(task.pk, link="tasks.work", reason=result or "the agent said it failed", by=by.handle)
    task.refresh_from_db()
    return task


def judge(
    *, task: Task, worker_id: str, score: float | None, step_scores: Sequence[float | None], text: str, by: User
) -> Feedback:
    """A manager's judgement: closes the task's open review where there is one that `by` may close, else stands alone.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field; another worker's task.
    """
    require_right(by, task.project, Right.FEEDBACK_WRITE)
    require_worker(task, worker_id, by)
    steps = [
        StepRating(attempt_index=0, step_index=index, score=one, comment="", spans=())
        for index, one in enumerate(step_scores)
        if one is not None
    ]
    said: dict[str, Any] = {"score": score, "text": text, "steps": steps}
    review = Review.objects.filter(task=task, state=Review.State.OPEN, audience=Review.Audience.HUMAN).first()
    if review is not None and Right.REVIEWS_WRITE in find_rights(by, task.project):
        return flow.give_feedback(review=review, by=by, **said)
    return submit.give_task_feedback(task=task, by=by, **said)


def log_session(
    *, project: Project, key: str, worker_id: str, messages: Sequence[Mapping[str, Any]], model: str, by: User
) -> Exchange:
    """Keep a talk that went past the gateway, up to its last answer: words without tokens, which train nothing.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: nobody answered in it.
    """
    require_right(by, project, Right.ATTEMPTS_WRITE)
    require_not_archived(project)
    places = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    if not places:
        raise BadInputError.at("messages", "wanted at least one message of the role assistant, found none")
    last = places[-1]
    with transaction.atomic():
        session, _ = Session.objects.get_or_create(
            project=project, key=key, agent=by.handle, defaults={"worker_name": worker_id}
        )
        Session.objects.filter(pk=session.pk).update(last_seen_at=timezone.now())
        return Exchange.objects.create(
            project=project,
            session=session,
            worker_name=worker_id,
            agent=by.handle,
            model=model,
            api="log",
            messages=[dict(message) for message in messages[:last]],
            text=messages[last]["content"],
        )


def require_worker(task: Task, worker_id: str, by: User) -> None:
    """Raises BadInputError where the task is not this worker's, by its name or by the caller's."""
    if worker_id not in {task.worker.name, by.username}:
        wanted = f"wanted {task.worker.name}, whose task {task.pk} is, or {by.username}; found {worker_id[:64]!r}"
        raise BadInputError.at("worker_id", wanted)


def find_answered(task_ids: Collection[int]) -> list[int]:
    """Which of these tasks need not be waited for, or are gone."""
    unanswered = Task.objects.filter(pk__in=task_ids).exclude(state__in=ANSWERED).values_list("pk", flat=True)
    waiting = set(unanswered)
    return [pk for pk in task_ids if pk not in waiting]


boards = LongPollHub(find_answered)
current_board = boards.current
