"""Conversations that taught nothing are kept as long as their project says, and what learning is traced by stays."""

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db.models import ForeignKey, Model
from django.utils import timezone

from apps.accounts.models import Project
from apps.accounts.services import change_project
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError
from apps.conversations.keeping import delete_old_sessions
from apps.conversations.models import Conversation, Turn, TurnExchange
from apps.inference.models import Exchange, Session
from apps.tasks.models import FurtherExchange
from tests.factories import make_attempt, make_project, make_task, make_user

LONG_AGO = timezone.now() - timedelta(days=40)


def make_session(project: Project, key: str, *, last_seen_at: Any = LONG_AGO, **values: Any) -> Exchange:
    """A session with one exchange."""
    session = Session.objects.create(project=project, key=key, agent="agent:claw")
    Conversation.objects.create(session=session, seen_at=last_seen_at)
    Session.objects.filter(pk=session.pk).update(last_seen_at=last_seen_at)
    return Exchange.objects.create(project=project, session=session, model="desk", messages=[], **values)


def make_turn(exchange: Exchange, state: str = "settled", **values: Any) -> Turn:
    assert exchange.session is not None
    turn = Turn.objects.create(
        project=exchange.project, session=exchange.session, number=0, state=state, reason="nothing said", **values
    )
    TurnExchange.objects.create(exchange=exchange, turn=turn)
    return turn


def find_keys() -> set[str]:
    return set(Session.objects.values_list("key", flat=True))


@pytest.fixture
def shop(project: Project) -> Project:
    """It keeps what taught nothing for 30 days."""
    project.session_policy = {"keep_days": 30}
    project.save()
    return project


@pytest.mark.django_db
def test_what_taught_nothing_goes_after_the_days_and_what_is_younger_or_anothers_stays(shop: Project) -> None:
    make_session(shop, "old")
    make_turn(make_session(shop, "heard"))
    make_session(shop, "young", last_seen_at=timezone.now() - timedelta(days=29))
    make_session(make_project("other"), "another's")
    assert delete_old_sessions() == 2
    assert find_keys() == {"young", "another's"}
    assert Exchange.objects.count() == 2
    entry = AuditEntry.objects.get(kind="sessions.deleted")
    assert (entry.project_id, entry.actor) == (shop.pk, "retention")
    assert entry.payload == {"sessions": 2, "exchanges": 2, "turns": 1, "keep_days": 30}
    assert delete_old_sessions() == 0
    assert AuditEntry.objects.filter(kind="sessions.deleted").count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("policy", [{}, {"learn": True}, {"keep_days": None}])
def test_a_project_that_sets_no_days_keeps_everything(project: Project, policy: dict[str, Any]) -> None:
    Project.objects.update(session_policy=policy)
    make_session(project, "old")
    assert delete_old_sessions() == 0
    assert find_keys() == {"old"}


@pytest.mark.django_db
def test_what_learning_is_traced_by_or_waits_to_be_read_stays(shop: Project) -> None:
    task = make_task(shop)
    attempt = make_attempt(task)
    attempt.exchange = make_session(shop, "an attempt's")
    attempt.save()
    FurtherExchange.objects.create(exchange=make_session(shop, "a further one"), attempt=attempt, place=1)
    make_session(shop, "told its task", task_id=task.pk)
    make_turn(make_session(shop, "became a task"), task=task)
    for state in ("open", "closed", "failed"):
        make_turn(make_session(shop, state), state)
    first = make_session(shop, "gone on from elsewhere")
    make_session(shop, "goes on", last_seen_at=timezone.now(), parent=first)
    everything = find_keys()
    assert delete_old_sessions() == 0
    assert find_keys() == everything


@pytest.mark.django_db
def test_they_go_in_bounded_parts(shop: Project) -> None:
    for number in range(5):
        first = make_session(shop, str(number))
        Exchange.objects.create(project=shop, session=first.session, model="desk", messages=[], parent=first)
    assert delete_old_sessions(at_once=2, transactions=1) == 2
    assert delete_old_sessions(at_once=2, transactions=1) == 2
    assert delete_old_sessions(at_once=2, transactions=5) == 1
    assert not Exchange.objects.exists()


def find_pointers(to: type[Model]) -> set[str]:
    fields = [field for model in apps.get_models() for field in model._meta.get_fields()]
    return {
        f"{field.model._meta.label}.{field.name}"
        for field in fields
        if isinstance(field, ForeignKey) and field.related_model is to
    }


def test_whoever_points_to_an_exchange_or_a_session_is_asked_before_it_goes() -> None:
    asked = {"tasks.Attempt.exchange", "tasks.FurtherExchange.exchange", "tasks.ShadowAttempt.exchange"}
    asked |= {"tasks.EpisodeTurn.exchange", "conversations.TurnExchange.exchange", "inference.Exchange.parent"}
    assert find_pointers(Exchange) == asked
    assert find_pointers(Session) == {
        "conversations.Conversation.session",
        "conversations.Turn.session",
        "inference.Exchange.session",
    }


@pytest.mark.django_db
@pytest.mark.parametrize("days", [0, -1, 1.5, True, "30", 40_000])
def test_days_that_cannot_be_are_refused_by_name(project: Project, days: Any) -> None:
    olivia = make_user("olivia")
    project.members.create(user=olivia, role="owner")
    with pytest.raises(BadInputError, match="keep_days"):
        change_project(project=project, by=olivia, session_policy={"keep_days": days})
