"""Who may have webhooks, what they may be, and what the audit says of them."""

from typing import Any

import pytest
from pytest_django import Settings

from apps.accounts.models import Project, Role, User
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError, NotAllowedError, NotFoundError
from apps.base.sealing import SealedKeyError
from apps.inference.rotation import rotate_keys
from apps.webhooks import services
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.secrets import read_secrets
from apps.webhooks.selectors import list_webhooks
from apps.webhooks.services import MOST, change_webhook, create_webhook, delete_webhook, redeliver, send_test
from tests.factories import make_user

URL = "https://hooks.example.com/T0/secret-path?token=abc"


def test_a_manager_makes_one_and_sees_its_secret_once(project: Project, alice: User) -> None:
    webhook, secret = create_webhook(project=project, url=URL, by=alice, kinds=["task.done", "task.done"])
    row = Webhook.objects.filter(pk=webhook.pk).values().get()
    assert secret.startswith("whsec_")
    assert secret not in str(row)
    assert row["kinds"] == ["task.done"]
    (entry,) = AuditEntry.objects.all()
    assert entry.payload == {"origin": "https://hooks.example.com", "kinds": ["task.done"]}
    assert "secret-path" not in str(list(AuditEntry.objects.values()))


def test_a_reviewer_and_a_stranger_may_not(project: Project, alice: User, bob: User, charlie: User) -> None:
    webhook, _ = create_webhook(project=project, url=URL, by=alice)
    delivery = Delivery.objects.create(webhook=webhook, kind="task.done", body={})
    calls: list[tuple[Any, dict[str, Any]]] = [
        (create_webhook, {"project": project, "url": URL}),
        (change_webhook, {"webhook": webhook, "name": "x"}),
        (services.rotate_secret, {"webhook": webhook}),
        (delete_webhook, {"webhook": webhook}),
        (send_test, {"webhook": webhook}),
        (redeliver, {"delivery": delivery}),
        (services.redeliver_all, {"webhook": webhook}),
    ]
    for call, values in calls:
        with pytest.raises(NotAllowedError):
            call(by=bob, **values)
        with pytest.raises(NotFoundError):
            call(by=charlie, **values)
    assert AuditEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("url", {"url": ""}),
        ("url", {"url": "ftp://example.com"}),
        ("url", {"url": "https://user:pass@example.com/"}),
        ("url", {"url": "https://example.com/#part"}),
        ("url", {"url": "https://example.com/a b"}),
        ("url", {"url": "https://example.com/?q=\n"}),
        ("url", {"url": "http://127.0.0.1/"}),
        ("url", {"url": "http://[::1]/"}),
        ("url", {"url": "http://[::ffff:10.0.0.1]/"}),
        ("url", {"url": "http://0x7f.1/"}),
        ("url", {"url": "http://2130706433/"}),
        ("url", {"url": "http://169.254.169.254/latest/meta-data"}),
        ("url", {"url": "http://localhost:8000/"}),
        ("url", {"url": "http://LOCALHOST./"}),
        ("url", {"url": "http://db.internal/"}),
        ("url", {"url": "https://example.com:0/"}),
        ("url", {"url": "https://" + "x" * 500}),
        ("kinds", {"kinds": ["task.eaten"]}),
        ("kinds", {"kinds": ["webhook.test"]}),
        ("kinds", {"kinds": [1]}),
        ("name", {"name": "x" * 101}),
        ("include_details", {"include_details": "yes"}),
    ],
)
def test_what_cannot_be_is_refused_by_field(project: Project, alice: User, field: str, values: dict[str, Any]) -> None:
    given: dict[str, Any] = {"project": project, "url": URL, "by": alice}
    with pytest.raises(BadInputError) as refused:
        create_webhook(**given | values)
    assert list(refused.value.errors) == [field]
    assert not Webhook.objects.exists()


def test_only_an_admin_allows_private_addresses(project: Project, alice: User) -> None:
    local = "http://127.0.0.1:9/hook"
    with pytest.raises(NotAllowedError):
        create_webhook(project=project, url=local, by=alice, allow_private=True)
    alice.is_superuser = True
    webhook, _ = create_webhook(project=project, url=local, by=alice, allow_private=True)
    with pytest.raises(BadInputError):
        change_webhook(webhook=webhook, by=alice, allow_private=False)
    with pytest.raises(BadInputError):
        create_webhook(project=project, url="http://169.254.169.254/", by=alice)


def test_only_an_admin_changes_where_private_addresses_are_allowed(project: Project, alice: User, bob: User) -> None:
    alice.is_superuser = True
    webhook, _ = create_webhook(project=project, url="http://127.0.0.1:9/hook", by=alice, allow_private=True)
    project.members.filter(user=bob).update(role=Role.MANAGER)
    for url in ("http://127.0.0.1:8300/", "https://example.com/hook"):
        with pytest.raises(NotAllowedError, match="change the URL"):
            change_webhook(webhook=webhook, by=bob, url=url)
    changed = change_webhook(webhook=webhook, by=bob, url="http://127.0.0.1:9/hook", name="chat")
    assert (changed.name, changed.url) == ("chat", "http://127.0.0.1:9/hook")
    changed = change_webhook(webhook=webhook, by=bob, url="https://example.com/hook", allow_private=False)
    assert (changed.url, changed.allow_private) == ("https://example.com/hook", False)


def test_a_change_is_audited_without_the_path(project: Project, alice: User) -> None:
    webhook, _ = create_webhook(project=project, url=URL, by=alice)
    change_webhook(webhook=webhook, by=alice, url="https://other.example.com/another-secret", name="chat")
    change_webhook(webhook=webhook, by=alice, name="chat")
    (entry,) = AuditEntry.objects.filter(kind="webhook.changed")
    assert entry.payload["after"] == {"name": "chat", "url": "https://other.example.com"}
    with pytest.raises(BadInputError, match="cursor_id"):
        change_webhook(webhook=webhook, by=alice, cursor_id=0)


def test_a_project_has_so_many_and_no_more(project: Project, alice: User) -> None:
    for _ in range(MOST):
        create_webhook(project=project, url=URL, by=alice)
    with pytest.raises(ConflictError):
        create_webhook(project=project, url=URL, by=alice)


def test_one_switched_off_sends_no_test_and_nothing_again(project: Project, alice: User) -> None:
    webhook, _ = create_webhook(project=project, url=URL, by=alice)
    delivery = Delivery.objects.create(webhook=webhook, kind="task.done", body={}, state="dead")
    webhook = change_webhook(webhook=webhook, by=alice, is_active=False)
    with pytest.raises(ConflictError):
        send_test(webhook=webhook, by=alice)
    with pytest.raises(ConflictError):
        redeliver(delivery=delivery, by=alice)
    delivery.refresh_from_db()
    assert delivery.state == "dead"


def test_the_health_of_each_counts_what_waits_and_what_was_given_up(project: Project, alice: User) -> None:
    first, second = (create_webhook(project=project, url=URL, by=alice)[0] for _ in range(2))
    for state in ("pending", "pending", "dead", "delivered"):
        Delivery.objects.create(webhook=first, kind="task.done", body={}, state=state)
    found = list_webhooks(project)
    assert [(row.webhook, row.pending, row.dead) for row in found] == [(first, 2, 1), (second, 0, 0)]


def test_a_secret_does_not_open_in_another_row_and_moves_to_a_new_key(
    project: Project, alice: User, settings: Settings
) -> None:
    (first, text), (second, _) = (create_webhook(project=project, url=URL, by=alice) for _ in range(2))
    second.secret_sealed = first.secret_sealed
    with pytest.raises(SealedKeyError):
        read_secrets(second)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "a-new-key-altogether-" + "x" * 40
    assert rotate_keys(by=make_user("root", is_superuser=True)).renewed == 2
    settings.SECRET_KEY_FALLBACKS = []
    first.refresh_from_db()
    assert read_secrets(first) == [text]


def test_a_deleted_one_is_gone_with_what_it_was_not_told(project: Project, alice: User) -> None:
    webhook, _ = create_webhook(project=project, url=URL, by=alice)
    Delivery.objects.create(webhook=webhook, kind="task.done", body={})
    delete_webhook(webhook=webhook, by=alice)
    assert not Delivery.objects.exists()
    assert AuditEntry.objects.filter(kind="webhook.deleted").count() == 1
