"""Turns are cut and settled exactly once, whoever is killed and however many try."""

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from apps.conversations.models import Turn, TurnExchange, TurnSignal
from apps.conversations.segmentation import cut_session
from apps.conversations.services import fail_turn, revive_turn
from apps.conversations.signal_extraction import hear_turn
from apps.conversations.task_building import settle_turn
from apps.feedback.models import Feedback
from apps.inference.models import Exchange
from apps.outbox import services as outbox
from apps.outbox.errors import LostClaimError
from apps.outbox.models import Segment
from apps.pipeline import conversing
from apps.tasks.models import Attempt, Task
from tests.apps.conversations.talk import Talk, user

THREADS = 6


def at_once(work: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.django_db(transaction=True)
def test_many_processes_cut_hear_and_settle_one_session_once(talk: Talk) -> None:
    for place in range(4):
        talk.ask(user(f"What is {place} and two?"), answer=f"It is {place + 2}.")
        talk.ask(user("Thanks!"), answer="You are welcome.")
    at_once(lambda: cut_session(talk.session.pk, by="test"))
    assert TurnExchange.objects.count() == Exchange.objects.count() == 8
    assert [turn.number for turn in Turn.objects.order_by("number")] == list(range(8))
    closed = list(Turn.objects.unread())

    def read_all() -> None:
        for turn in closed:
            settle_turn(turn.pk)

    for turn in closed:
        hear_turn(turn.pk)
    at_once(read_all)
    assert TurnSignal.objects.count() == 7
    assert Task.objects.count() == Attempt.objects.count() == Feedback.objects.count() == 4


@pytest.mark.django_db(transaction=True)
def test_a_claim_that_was_lost_leaves_nothing_behind(talk: Talk) -> None:
    talk.ask(user("What is two and two?"), answer="It is four.")
    talk.ask(user("Thanks!"), answer="You are welcome.")
    assert conversing.converse() == 1
    segment = Segment.objects.get(kind="cut")
    claim = outbox.claim_links([segment.pk], 0, owner="killed")
    assert claim is not None
    Segment.objects.filter(pk=segment.pk).update(fence="00000000-0000-0000-0000-000000000001")  # taken by another
    with outbox.hold(outbox.Hold(claim)), pytest.raises(LostClaimError):
        cut_session(talk.session.pk, by="test")
    assert not Turn.objects.exists()
    assert not TurnExchange.objects.exists()
    Segment.objects.filter(pk=segment.pk).update(fence=claim.fence)
    with outbox.hold(outbox.Hold(claim)):
        cut_session(talk.session.pk, by="test")
    assert Segment.objects.get(pk=segment.pk).state == "done"
    (closed,) = Turn.objects.unread()
    assert Segment.objects.filter(kind="hear", subject_id=closed.pk, state="open").exists()


def test_an_exchange_that_came_late_has_its_place_too(talk: Talk) -> None:
    late = talk.ask(user("What is two and two?"), answer="It is four.")
    Exchange.objects.filter(pk=late.pk).update(session=None)
    talk.ask(user("Thanks!"), answer="You are welcome.")
    cut_session(talk.session.pk, by="test")
    Exchange.objects.filter(pk=late.pk).update(session=talk.session)
    cut_session(talk.session.pk, by="test")
    assert TurnExchange.objects.filter(exchange=late).count() == 1


def test_a_turn_that_cannot_be_read_says_so_and_can_be_taken_up_again(talk: Talk) -> None:
    talk.ask(user("What is two and two?"), answer="It is four.")
    talk.ask(user("Thanks!"), answer="You are welcome.")
    cut_session(talk.session.pk, by="test")
    turn = Turn.objects.unread().get()
    fail_turn(turn.pk, link="conversations.hear", reason="the judge is away", by="outbox")
    turn.refresh_from_db()
    assert (turn.state, turn.reason) == ("failed", "conversations.hear: the judge is away")
    settle_turn(turn.pk)
    assert not Task.objects.exists()
    revive_turn(turn.pk, link="conversations.hear", by="user:alice")
    hear_turn(turn.pk)
    settle_turn(turn.pk)
    assert Task.objects.count() == 1
