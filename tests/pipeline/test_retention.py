"""Every table has a rule for how long it is kept, and what is kept no longer goes in bounded parts."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.utils import timezone

from apps.accounts.models import ApiToken, BrowserSession, Project, User
from apps.outbox.models import Segment
from apps.pipeline.retention import RULES, delete_old
from apps.webhooks.models import Delivery, Webhook

LONG_AGO = timezone.now() - timedelta(days=400)


def make_segments(count: int, state: str, **values: object) -> None:
    Segment.objects.bulk_create(
        Segment(kind="work", subject_id=number, links=["tasks.work"], queue="workers", state=state, **values)
        for number in range(count)
    )


def test_every_table_has_a_rule_and_every_rule_a_table() -> None:
    assert {model._meta.label for model in apps.get_models()} == set(RULES)


@pytest.mark.django_db
def test_done_work_goes_after_a_while_and_dead_letters_and_what_is_new_stay() -> None:
    for state in ("done", "cancelled", "dead"):
        make_segments(1, state, finished_at=LONG_AGO)
    make_segments(1, "done", finished_at=timezone.now())
    make_segments(1, "open")
    assert delete_old() == {"outbox.Segment": 2}
    assert sorted(Segment.objects.values_list("state", flat=True)) == ["dead", "done", "open"]


@pytest.mark.django_db
def test_a_round_deletes_no_more_than_its_part_and_the_next_one_goes_on() -> None:
    make_segments(7, "done", finished_at=LONG_AGO)
    assert delete_old(at_once=2, transactions=2) == {"outbox.Segment": 4}
    assert delete_old(at_once=2, transactions=2) == {"outbox.Segment": 3}
    assert delete_old() == {}


@pytest.mark.django_db
def test_tokens_long_over_go_and_those_that_hold_or_ended_lately_stay(alice: User) -> None:
    soon = timezone.now() + timedelta(days=1)
    ends = {"expired": (LONG_AGO, None), "revoked": (soon, LONG_AGO), "holds": (soon, None)}
    ends["ended lately"] = (timezone.now() - timedelta(days=1), None)
    for number, (name, (expires_at, revoked_at)) in enumerate(ends.items()):
        ApiToken.objects.create(
            key_id=str(number), secret_hash="x", name=name, user=alice, expires_at=expires_at, revoked_at=revoked_at
        )
    delete_old()
    assert set(ApiToken.objects.values_list("name", flat=True)) == {"holds", "ended lately"}


@pytest.mark.django_db
def test_sessions_that_expired_and_deliveries_given_up_long_ago_go(project: Project) -> None:
    for key, days in (("old", -1), ("new", 1)):
        BrowserSession.objects.create(
            session_key=key, session_data="", expire_date=timezone.now() + timedelta(days=days)
        )
    webhook = Webhook.objects.create(project=project, url="https://example.com/")
    for state in ("dead", "pending"):
        Delivery.objects.create(webhook=webhook, kind="test", body={}, state=state, ended_at=LONG_AGO)
    delete_old()
    assert list(BrowserSession.objects.values_list("session_key", flat=True)) == ["new"]
    assert list(Delivery.objects.values_list("state", flat=True)) == ["pending"]
