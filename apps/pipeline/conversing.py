"""Conversations' part of the data's way: sessions are cut into turns, turns are heard, and what was heard teaches.

A turn waits, as a state, for the person's next words or the session's end. What teaches becomes a task that is
learning already: nobody submitted it, nobody is asked to review it.
"""

import logging
from collections.abc import Sequence
from typing import Unpack

from django.db import transaction
from django.db.models import Q

from apps.accounts.archiving import require_not_archived
from apps.accounts.models import Project, User
from apps.base.errors import BadInputError
from apps.conversations import jobs as conversation_jobs
from apps.conversations.models import Turn
from apps.conversations.policy import read_policy
from apps.conversations.segmentation import close_idle_sessions, cut_session, find_due_sessions
from apps.conversations.submitted import aim_at_attempt, find_attempt
from apps.conversations.task_building import find_turn, open_task
from apps.feedback import submit
from apps.feedback.judgement import JudgementFields
from apps.feedback.models import Feedback
from apps.inference.models import Exchange, Session
from apps.outbox import services as outbox
from apps.outbox.kinds import KINDS, Chain, SegmentKind
from apps.rollouts.rejudging import rejudge_rollouts
from apps.tasks.models import Task

logger = logging.getLogger(__name__)

REMEMBERED_S = 86_400.0
"""A project that begins to learn from its sessions begins with those of the last day."""


def hear_closed_turns(session_ids: Sequence[int]) -> None:
    """Every turn that is over is heard."""
    turns = Turn.objects.unread().filter(session__in=session_ids).values_list("pk", "project_id")
    outbox.start_many(SegmentKind.HEAR, list(turns))


def learn_from_turn(turn_ids: Sequence[int]) -> None:
    """A turn that became a task goes on to learn; one that was work on a task is learnt with it."""
    told = Q(turn__in=turn_ids) | Q(feedback__signal__turn__in=turn_ids)
    for task in Task.objects.filter(told).distinct():
        if task.state == Task.State.LEARNING:
            outbox.start(SegmentKind.LEARN, subject_id=task.pk, project_id=task.project_id)
        elif task.state == Task.State.DONE:
            with transaction.atomic():
                _judge_anew(task, by="conversations")


KINDS[SegmentKind.CUT] = Chain(links=(conversation_jobs.cut,), then=hear_closed_turns)
KINDS[SegmentKind.HEAR] = Chain(links=(conversation_jobs.hear, conversation_jobs.settle), then=learn_from_turn)


def converse() -> int:
    """Close sessions that fell silent, and cut those with something new. Returns how many are to be cut.

    Only projects that learn from their sessions are looked at.
    """
    learning = []
    for project in Project.objects.active().filter(learning_enabled=True, session_policy__learn=True):
        try:
            policy = read_policy(project)
        except BadInputError as error:
            logger.warning("%s", error)
            continue
        close_idle_sessions(project.pk, idle_s=policy.idle_s)
        learning.append(project.pk)
    due = find_due_sessions(learning, remembered_s=REMEMBERED_S) if learning else []
    outbox.start_many(SegmentKind.CUT, due)
    return len(due)


def give_conversation_feedback(
    *,
    session: Session,
    by: User,
    exchange: Exchange | None = None,
    trust: float | None = None,
    **judgement: Unpack[JudgementFields],
) -> Feedback:
    """Keep an explicit word on what an agent answered in a conversation; it beats what the next words show.

    Where nothing was made of the turn yet it becomes a task now. What was judged already and not trained on is judged
    anew.

    Args:
        exchange: what it is about; None: the session's last answer.
    Raises:
        NotFoundError, ConflictError: there is no such turn, or it cannot be learnt from.
        NotAllowedError, BadInputError: as `give_task_feedback`.
    """
    cut_session(session.pk, by=by.handle)
    with transaction.atomic():
        task = _find_task(session, exchange, by)
        if exchange is not None:
            judgement = aim_at_attempt(judgement, find_attempt(task, [exchange]))
        given = submit.give_task_feedback(task=task, by=by, trust=trust, **judgement)
        if task.state == Task.State.LEARNING:
            outbox.start(SegmentKind.LEARN, subject_id=task.pk, project_id=task.project_id)
        elif task.state == Task.State.DONE:
            _judge_anew(task, by=by.handle)
    return given


def _judge_anew(task: Task, *, by: str) -> None:
    locked = Task.objects.select_for_update(of=("self",)).select_related("project", "worker").get(pk=task.pk)
    rejudge_rollouts(locked, by=by)


def _find_task(session: Session, exchange: Exchange | None, by: User) -> Task:
    if exchange is not None and exchange.task_id is not None:
        submitted = Task.objects.filter(project=session.project_id, pk=exchange.task_id).first()
        if submitted is not None:
            return submitted
    turn = find_turn(session, exchange)
    if turn.task_id is None:
        require_not_archived(turn.project)
    return open_task(turn, by=by.handle)
