"""Each audit entry becomes one message for each webhook that wants it, whatever commits late."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import pytest
from django.db import connections, transaction

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.audit.services import record
from apps.webhooks.enqueueing import IDLE_TRANSACTIONS, enqueue, enqueue_all
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.posting import tell
from tests.apps.webhooks.conftest import Make


def say(project: Project, kind: str = "task.done", **payload: Any) -> AuditEntry:
    return record(kind, subject=project, by="test", project_id=project.pk, payload=payload)


def told(webhook: Webhook) -> list[int | None]:
    return list(webhook.deliveries.order_by("pk").values_list("entry_id", flat=True))


def test_a_webhook_is_told_what_happens_from_then_on_in_its_project(make: Make, shop: Project) -> None:
    say(shop)
    every, some = make("/ok"), make("/ok", kinds=["task.failed"])
    entries = [say(shop, kind).pk for kind in ("task.done", "task.failed", "review.opened")]
    say(make_other())
    assert enqueue_all() == 4
    assert enqueue_all() == 0
    assert told(every) == entries
    assert told(some) == [entries[1]]


def test_where_no_webhook_is_active_the_timetable_asks_no_more_than_that(
    make: Make, django_assert_num_queries: Any
) -> None:
    make("/ok")
    Webhook.objects.update(is_active=False)
    with django_assert_num_queries(1):
        tell()


def make_other() -> Project:
    return Project.objects.create(slug="other", name="Other")


def test_a_message_holds_ids_and_states_and_free_text_only_where_asked(make: Make, shop: Project) -> None:
    plain, detailed = make("/ok"), make("/ok", include_details=True)
    entry = say(shop, "task.failed", **{"from": "working", "to": "failed", "reason": "the secret plan"})
    enqueue_all()
    body = plain.deliveries.get().body
    assert body["type"] == "task.failed"
    assert body["timestamp"] == AuditEntry.objects.get(pk=entry.pk).at.isoformat()
    assert body["data"] == {
        "id": entry.pk,
        "project": "shop",
        "subject": {"type": "project", "id": shop.pk},
        "by": "test",
        "from": "working",
        "to": "failed",
    }
    assert detailed.deliveries.get().body["data"]["details"]["reason"] == "the secret plan"


def test_what_webhooks_do_is_never_told(make: Make, shop: Project) -> None:
    webhook = make("/ok")
    make("/ok")
    enqueue_all()
    assert told(webhook) == []


def test_an_entry_that_commits_late_is_not_passed_over(make: Make, shop: Project) -> None:
    """Its number is lower than that of an entry told before it."""
    webhook = make("/ok")
    written, may_commit = Event(), Event()

    def write_late() -> int:
        try:
            with transaction.atomic():
                entry = say(shop, "task.submitted")
                written.set()
                may_commit.wait(120)
            return entry.pk
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(write_late)
        assert written.wait(120)
        early = say(shop).pk
        enqueue(webhook.pk)
        assert told(webhook) == []  # behind a running transaction nothing is settled yet
        may_commit.set()
        assert late.result() < early
    enqueue(webhook.pk)
    assert told(webhook) == [late.result(), early]


def test_many_writers_and_readers_at_once_tell_each_entry_once(make: Make, shop: Project) -> None:
    webhook = make("/ok")
    barrier = Barrier(6)

    def work(number: int) -> None:
        barrier.wait()
        try:
            for _ in range(20):
                say(shop) if number < 4 else enqueue(webhook.pk)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    enqueue(webhook.pk)
    expected = AuditEntry.objects.filter(kind="task.done").in_commit_order().values_list("pk", flat=True)
    assert told(webhook) == list(expected)
    assert len(expected) == 80


def test_a_cursor_with_nothing_behind_it_moves_seldom_but_moves(make: Make, shop: Project) -> None:
    webhook = make("/ok", kinds=["run.failed"])
    begun = Webhook.objects.get(pk=webhook.pk).cursor_xid
    say(shop)
    enqueue(webhook.pk)
    assert Webhook.objects.get(pk=webhook.pk).cursor_xid == begun
    Webhook.objects.filter(pk=webhook.pk).update(cursor_xid=begun - IDLE_TRANSACTIONS - 100)
    enqueue(webhook.pk)
    assert Webhook.objects.get(pk=webhook.pk).cursor_xid >= begun


def test_a_failure_while_writing_moves_no_cursor(make: Make, shop: Project) -> None:
    webhook = make("/ok")
    entry = say(shop)
    with pytest.raises(RuntimeError, match="lost power"), transaction.atomic():
        enqueue(webhook.pk)
        raise RuntimeError("lost power")
    assert not Delivery.objects.exists()
    enqueue(webhook.pk)
    assert told(webhook) == [entry.pk]


def test_a_webhook_switched_off_is_told_nothing_and_on_again_what_happens_from_then_on(
    make: Make, shop: Project, owner: User
) -> None:
    from apps.webhooks.services import change_webhook

    webhook = make("/ok")
    change_webhook(webhook=webhook, by=owner, is_active=False)
    say(shop)
    assert enqueue_all() == 0
    change_webhook(webhook=webhook, by=owner, is_active=True)
    entry = say(shop)
    enqueue_all()
    assert told(webhook) == [entry.pk]


def test_a_project_with_webhooks_can_be_deleted_empty(make: Make, shop: Project, owner: User) -> None:
    from apps.accounts.services import delete_project

    make("/ok")
    delete_project(project=shop, by=owner)
    assert not Webhook.objects.exists()
