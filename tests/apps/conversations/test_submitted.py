"""What people say of work on a submitted task teaches with that task, at the attempt they speak of."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.base.errors import ConflictError
from apps.conversations.models import Turn
from apps.conversations.submitted import find_attempt
from apps.conversations.task_building import ONLY_MACHINES
from apps.feedback.models import Feedback
from apps.outbox.models import Segment
from apps.pipeline import conversing
from apps.tasks.models import Attempt, Step, Task
from apps.workers.models import Worker
from tests.apps.conversations.talk import SYSTEM, Talk, tool, user
from tests.factories import make_attempt, make_task

Read = Callable[[Talk], list[Turn]]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.fixture
def task(helper: Worker) -> Task:
    return make_task(helper.project, helper, state=Task.State.QUEUED)


def hand_in(task: Task, steps: int = 1) -> Attempt:
    attempt = Attempt.objects.create(task=task, index=task.attempts.count(), worker=task.worker, answer="four")
    Step.objects.bulk_create(Step(attempt=attempt, index=place, kind="step", text="x") for place in range(steps))
    return attempt


@pytest.mark.parametrize("agent", ["agent:claw", "alice"])
def test_the_next_words_are_feedback_on_the_task_the_work_was_for(
    talk: Talk, read: Read, task: Task, agent: str
) -> None:
    """Whoever's token the work was done with."""
    talk.session.agent = agent
    talk.session.save()
    talk.ask(user("What is two and two?"), answer="It is five.", task_id=task.pk)
    attempt = hand_in(task)
    Task.objects.filter(pk=task.pk).update(state=Task.State.LEARNING)
    talk.ask(user("No, that is wrong, it is four."), answer="Sorry.", task_id=task.pk)
    turn = read(talk)[0]
    assert (turn.state, turn.reason, turn.task) == (Turn.State.SETTLED, "", None)
    given = Feedback.objects.get(task=task)
    assert given.source == Feedback.Source.IMPLICIT
    assert given.score == 0.0
    assert given.signal.turn == turn
    assert Task.objects.count() == 1
    conversing.learn_from_turn([turn.pk])
    assert Segment.objects.filter(kind="learn", subject_id=task.pk).exists()
    assert attempt.task == task


def test_of_several_attempts_the_one_that_the_calls_made_is_meant(talk: Talk, read: Read, task: Task) -> None:
    others = make_attempt(task)
    first = talk.ask(user("What is two and two?"), answer="It is five.", task_id=task.pk)
    mine = hand_in(task)
    assert mine.created_at >= first.created_at
    talk.ask(user("Thanks, perfect!"), answer="You are welcome.", task_id=task.pk)
    read(talk)
    given = Feedback.objects.get(task=task)
    word = given.steps.get()
    assert (word.attempt, word.step, word.score, given.score) == (mine, None, 1.0, None)
    assert others.pk != word.attempt_id


def test_a_tool_that_failed_is_a_word_on_the_step_its_call_named(talk: Talk, read: Read, task: Task) -> None:
    talk.ask(user("Look it up."), calls=[CALL], task_id=task.pk, step_index=1)
    talk.ask(tool("c1", "Error: no such file"), answer="I cannot.", task_id=task.pk, step_index=2)
    attempt = hand_in(task, steps=3)
    talk.ask(user("Thanks, perfect!"), answer="You are welcome.")
    read(talk)
    on_steps = [word for given in Feedback.objects.filter(task=task) for word in given.steps.all() if word.step]
    assert [(word.attempt, word.step.index) for word in on_steps if word.step] == [(attempt, 1)]


def test_an_explicit_word_on_the_session_is_of_the_same_task(talk: Talk, task: Task, bob: User) -> None:
    exchange = talk.ask(user("What is two and two?"), answer="It is five.", task_id=task.pk)
    make_attempt(task)
    mine = hand_in(task)
    by_session = conversing.give_conversation_feedback(session=talk.session, by=bob, text="It is four.")
    by_exchange = conversing.give_conversation_feedback(session=talk.session, exchange=exchange, by=bob, score=0.25)
    assert (by_session.task, by_exchange.task) == (task, task)
    assert (by_exchange.steps.get().attempt, by_exchange.steps.get().score) == (mine, 0.25)
    assert Task.objects.count() == 1


def test_work_for_a_task_and_not_for_it_in_one_turn_is_neither(talk: Talk, read: Read, task: Task, bob: User) -> None:
    talk.ask(user("Look it up."), calls=[CALL], task_id=task.pk)
    talk.ask(tool("c1", "4"), answer="It is five.")
    with pytest.raises(ConflictError, match="only a part of it was done for a task"):
        conversing.give_conversation_feedback(session=talk.session, by=bob, score=1.0)
    talk.ask(user("No, that is wrong."), answer="Sorry.")
    assert read(talk)[0].reason == "only a part of it was done for a task that was submitted"


def test_a_cancelled_task_is_told_nothing(talk: Talk, read: Read, task: Task) -> None:
    talk.ask(user("What is two and two?"), answer="It is five.", task_id=task.pk)
    Task.objects.filter(pk=task.pk).update(state=Task.State.CANCELLED)
    talk.ask(user("No, that is wrong, it is four."), answer="Sorry.")
    assert read(talk)[0].reason == "its task was cancelled"
    assert not Feedback.objects.exists()


def test_what_was_handed_in_before_the_calls_is_meant_where_nothing_came_after(talk: Talk, task: Task) -> None:
    attempt = hand_in(task)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=timezone.now() - timedelta(hours=1))
    exchange = talk.ask(user("What is two and two?"), answer="It is five.", task_id=task.pk)
    assert find_attempt(task, [exchange]) == attempt


def test_the_tries_of_a_group_are_not_somebody_asking_again(helper: Worker, read: Read, task: Task) -> None:
    """Each begins with the same words, and where nobody names a session, in the same one."""
    talk = Talk(helper.project)
    for index, answer in enumerate(["It is five.", "It is four."]):
        talk.messages = [SYSTEM]
        talk.ask(user("What is two and two?"), answer=answer, task_id=task.pk, attempt_index=index)
        hand_in(task)
    talk.close()
    first, *_ = read(talk)
    assert first.reason == ONLY_MACHINES
    assert not Feedback.objects.exists()
