"""Webhooks by plain forms: made with a secret shown once, looked after, sent again."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Member, Project, Role, User
from apps.webhooks.models import Delivery, Webhook
from tests.apps.console.builders import sign_in
from tests.factories import make_user

pytestmark = pytest.mark.django_db
ADDRESS = "https://shop.example.org/hooks/secret-path"


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("shop", *args))


@pytest.fixture
def owner(project: Project, alice: User) -> Client:
    Member.objects.filter(project=project, user=alice).update(role=Role.OWNER)
    return sign_in(alice)


@pytest.fixture
def webhook(owner: Client) -> Webhook:
    answer = owner.post(path("webhooks"), {"url": ADDRESS, "name": "Shop", "kinds": ["task.done"]})
    assert answer.status_code == 201
    return Webhook.objects.get()


def test_the_secret_is_shown_once_and_nowhere_else(owner: Client) -> None:
    page = owner.post(path("webhooks"), {"url": ADDRESS}).content.decode()
    secret = re.search(r"whsec_[\w+/=]+", page)
    assert secret
    webhook = Webhook.objects.get()
    for again in (path("webhooks"), path("webhook", webhook.pk)):
        assert secret[0] not in owner.get(again).content.decode()
    turned = owner.post(path("webhook-secret", webhook.pk)).content.decode()
    newer = re.search(r"whsec_[\w+/=]+", turned)
    assert newer
    assert newer[0] != secret[0]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "ftp://shop.example.org/", "no address", ""])
def test_an_address_that_cannot_be_is_refused_beside_its_field(owner: Client, url: str) -> None:
    answer = owner.post(path("webhooks"), {"url": url, "name": "Shop"})
    assert answer.status_code == 400
    assert 'class="errorlist"' in answer.content.decode()
    assert 'value="Shop"' in answer.content.decode()
    assert not Webhook.objects.exists()


def test_only_an_admin_is_asked_about_private_addresses(owner: Client, project: Project) -> None:
    assert "allow_private" not in owner.get(path("webhooks")).content.decode()
    assert "allow_private" in sign_in(make_user("root", is_superuser=True)).get(path("webhooks")).content.decode()


def test_it_is_changed_paused_tried_and_deleted(owner: Client, webhook: Webhook) -> None:
    owner.post(path("webhook", webhook.pk), {"url": ADDRESS, "name": "Till", "kinds": ["run.succeeded", "task.done"]})
    webhook.refresh_from_db()
    assert (webhook.name, webhook.kinds) == ("Till", ["run.succeeded", "task.done"])
    owner.post(path("webhook-test", webhook.pk))
    assert Delivery.objects.get().kind == "webhook.test"
    owner.post(path("webhook-switch", webhook.pk), {"is_active": "0"})
    assert "Paused" in owner.get(path("webhooks")).content.decode()
    said = owner.post(path("webhook-test", webhook.pk), follow=True).content.decode()
    assert "it is switched off" in said or "is switched off" in said
    owner.post(path("webhook-switch", webhook.pk), {"is_active": "1"})
    webhook.refresh_from_db()
    assert webhook.is_active
    owner.post(path("webhook-delete", webhook.pk))
    assert not Webhook.objects.exists()


def test_what_was_given_up_is_sent_again_one_or_all(owner: Client, webhook: Webhook) -> None:
    rows = [
        Delivery.objects.create(webhook=webhook, entry_id=place, kind="task.done", body={}, state="dead", attempts=12,
                                tries=[{"at": "2026-01-01T00:00:00Z", "status": 500, "words": "<b>no</b>", "ms": 8}])
        for place in range(1, 4)
    ]  # fmt: skip
    page = owner.get(path("webhook", webhook.pk), {"state": "dead"}).content.decode()
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert "Resend 3 failed messages" in page
    owner.post(path("webhook-redeliver", webhook.pk, rows[0].pk))
    assert [one.state for one in Delivery.objects.order_by("pk")] == ["pending", "dead", "dead"]
    owner.post(path("webhook-redeliver-dead", webhook.pk))
    assert set(Delivery.objects.values_list("state", flat=True)) == {"pending"}


def test_messages_come_in_pages(owner: Client, webhook: Webhook) -> None:
    Delivery.objects.bulk_create(
        Delivery(webhook=webhook, entry_id=place, kind="task.done", body={}) for place in range(1, 61)
    )
    seen: list[int] = []
    older: int | None = None
    while True:
        view = owner.get(path("webhook", webhook.pk), {"before": older} if older else {}).context["view"]
        seen += [row.delivery.pk for row in view.rows]
        older = view.older
        if older is None:
            break
    assert seen == sorted(set(seen), reverse=True)
    assert len(seen) == 60


def test_an_auditor_reads_the_origin_and_no_secret_path(owner: Client, webhook: Webhook, project: Project) -> None:
    Webhook.objects.filter(pk=webhook.pk).update(name="")
    auditor = make_user("olga")
    Member.objects.create(project=project, user=auditor, role=Role.AUDITOR)
    for page in (path("webhooks"), path("webhook", webhook.pk)):
        shown = sign_in(auditor).get(page).content.decode()
        assert "secret-path" not in shown
        assert "shop.example.org" in shown
        assert 'method="post" action="/p/shop/webhooks' not in shown
    assert sign_in(make_user("bob")).get(path("webhooks")).status_code == 403
