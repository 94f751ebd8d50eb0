"""Explicit words on a conversation beat what the next words show."""

from collections.abc import Callable

import pytest

from apps.accounts.models import Project, User
from apps.base.errors import ConflictError, NotFoundError
from apps.conversations.models import Turn
from apps.feedback.hints import extract_hints
from apps.feedback.models import Feedback
from apps.feedback.selectors import effective_judgement
from apps.outbox.models import Segment
from apps.pipeline import conversing
from apps.rollouts.models import Rollout
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Task
from tests.apps.conversations.talk import Talk, user

Read = Callable[[Talk], list[Turn]]


def judge(task: Task) -> float | None:
    (found,) = effective_judgement(task).values()
    assert found.reward_source == "human"
    return found.reward


def test_an_explicit_word_beats_thanks_even_after_it_was_learnt(talk: Talk, read: Read, bob: User) -> None:
    talk.ask(user("What is two and two?"), answer="It is five.")
    talk.ask(user("Thanks!"), answer="You are welcome.")
    task = read(talk)[0].task
    assert task is not None
    extract_hints([task.pk])
    build_rollouts([task.pk], by="test")
    assert Rollout.objects.get(task=task).reward == 1.0
    exchange = talk.session.exchanges.order_by("id").first()
    conversing.give_conversation_feedback(session=talk.session, exchange=exchange, by=bob, score=0.1)
    assert judge(task) == pytest.approx(0.1)
    rollout = Rollout.objects.get(task=task)
    assert rollout.reward == pytest.approx(0.1)


def test_a_word_before_the_next_words_makes_the_task_and_both_are_kept(talk: Talk, read: Read, bob: User) -> None:
    talk.ask(user("What is two and two?"), answer="It is five.")
    given = conversing.give_conversation_feedback(session=talk.session, by=bob, score=0.2, text="It is four.")
    assert given.task.state == "scoring"  # the turn goes on
    talk.ask(user("Thanks!"), answer="You are welcome.")
    turn = read(talk)[0]
    assert turn.task == given.task
    assert turn.task is not None
    assert turn.task.state == "learning"
    assert set(Feedback.objects.filter(task=turn.task).values_list("source", flat=True)) == {"human", "implicit"}
    assert judge(turn.task) == pytest.approx(0.2)


def test_without_learning_from_sessions_an_explicit_word_is_learnt_at_once(
    talk: Talk, project: Project, bob: User
) -> None:
    Project.objects.filter(pk=project.pk).update(session_policy={})
    talk.ask(user("What is two and two?"), answer="It is five.")
    given = conversing.give_conversation_feedback(session=talk.session, by=bob, score=0.2)
    assert Segment.objects.filter(kind="learn", subject_id=given.task_id).exists()


def test_a_turn_that_showed_nothing_can_still_be_spoken_of(talk: Talk, read: Read, bob: User) -> None:
    first = talk.ask(user("What is two and two?"), answer="It is five.")
    talk.ask(user("What about Berlin?"), answer="A city.")
    assert read(talk)[0].task is None
    given = conversing.give_conversation_feedback(session=talk.session, exchange=first, by=bob, score=0.0)
    assert given.task.prompt == "What is two and two?"
    assert Segment.objects.filter(kind="learn", subject_id=given.task_id).exists()


def test_where_nothing_was_said_there_is_nothing_to_speak_of(talk: Talk, bob: User, charlie: User) -> None:
    with pytest.raises(NotFoundError, match="nobody has asked anything yet"):
        conversing.give_conversation_feedback(session=talk.session, by=bob, score=1.0)
    beside = talk.ask(user("What is two and two?"), answer="It is four.", turn="side")
    for exchange in (None, beside):
        with pytest.raises(NotFoundError, match=r"wanted an agent's token, or the header X-Turn-Type: main"):
            conversing.give_conversation_feedback(session=talk.session, exchange=exchange, by=bob, score=1.0)
    failed = talk.ask(user("What is two and two?"), status=502, error="away")
    with pytest.raises(ConflictError, match="the agent gave no answer"):
        conversing.give_conversation_feedback(session=talk.session, exchange=failed, by=bob, score=1.0)
    talk.ask(answer="It is four.")
    with pytest.raises(NotFoundError):
        conversing.give_conversation_feedback(session=talk.session, by=charlie, score=1.0)
    assert not Task.objects.exists()
