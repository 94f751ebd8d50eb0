"""Webhooks: made, changed, switched on and off, tried, and what was not taken sent again."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.models import find_horizon
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError, NotAllowedError
from apps.webhooks.addresses import check_address
from apps.webhooks.enqueueing import OWN
from apps.webhooks.models import CURSOR, Delivery, Webhook
from apps.webhooks.secrets import give_secret, replace_secret

MOST = 20
MAX_ENDPOINT_NAME_CHARS = 100
TEST_KIND = "webhook.test"
TELLABLE = tuple(kind for kind in Kind.values if not kind.startswith(OWN))
"""What a webhook can be told of."""
CHANGEABLE = frozenset({"name", "url", "kinds", "include_details", "allow_private", "is_active"})


def create_webhook(
    *,
    project: Project,
    url: str,
    by: User,
    name: str = "",
    kinds: Iterable[str] = (),
    include_details: bool = False,
    allow_private: bool = False,
) -> tuple[Webhook, str]:
    """Tell an address of a project's entries from now on. The secret's text is in the return value and nowhere else.

    Args:
        kinds: of `TELLABLE`; none: all of them.
        include_details: messages carry the entries' payloads too.
        allow_private: see `Webhook`.
    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field.
        ConflictError: the project has as many as it may.
    """
    require_right(by, project, Right.WEBHOOKS_WRITE)
    webhook = Webhook(project=project)
    _set_fields(
        webhook,
        {
            "name": name,
            "url": url,
            "kinds": list(kinds),
            "include_details": include_details,
            "allow_private": allow_private,
        },
        by=by,
    )
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        if Webhook.objects.filter(project=project).count() >= MOST:
            raise ConflictError(f"{project.slug} has {MOST} webhooks already, which is the most")
        webhook.cursor = find_horizon()
        webhook.save(force_insert=True)
        text = give_secret(webhook)
        webhook.save(update_fields=["secret_sealed"])
        payload = {"origin": find_origin(webhook.url), "kinds": webhook.kinds}
        record(Kind.WEBHOOK_CREATED, subject=webhook, by=by.handle, payload=payload)
    return webhook, text


def change_webhook(*, webhook: Webhook, by: User, **changes: Any) -> Webhook:
    """Change some of `CHANGEABLE`. Switched on again it is told what happens from then on; what was pending still goes.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        BadInputError: naming the field.
    """
    _require_own(webhook, by)
    with transaction.atomic():
        row = _lock(webhook)
        before = {name: getattr(row, name) for name in sorted(changes) if name in CHANGEABLE}
        _set_fields(row, changes, by=by)
        changed = {name: value for name, value in before.items() if getattr(row, name) != value}
        if changed:
            fields = {*changed}
            if changed.get("is_active") is False:
                _wake(row)
                fields |= {*CURSOR, "failures", "failing_since", "disabled_reason", "paused_until"}
            if "url" in changed:
                row.fence = row.lease_until = None  # what is on its way to the old address is not counted
                fields |= {"fence", "lease_until"}
            row.save(update_fields=sorted(fields))
            after = {name: getattr(row, name) for name in changed}
            payload = {"before": _public(changed), "after": _public(after)}
            record(Kind.WEBHOOK_CHANGED, subject=row, by=by.handle, payload=payload)
    return row


def rotate_secret(*, webhook: Webhook, by: User) -> tuple[Webhook, str]:
    """Give it a new secret; for a day messages are signed with the old one too.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
    """
    _require_own(webhook, by)
    with transaction.atomic():
        row = _lock(webhook)
        text = replace_secret(row)
        row.save(update_fields=["secret_sealed", "old_secret_sealed", "old_until"])
        record(Kind.WEBHOOK_CHANGED, subject=row, by=by.handle, payload={"new_secret": True})
    return row, text


def delete_webhook(*, webhook: Webhook, by: User) -> None:
    """Tell an address nothing more; what was not sent is not sent.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
    """
    _require_own(webhook, by)
    with transaction.atomic():
        row = _lock(webhook)
        record(Kind.WEBHOOK_DELETED, subject=row, by=by.handle, payload={"origin": find_origin(row.url)})
        row.delete()


def send_test(*, webhook: Webhook, by: User) -> Delivery:
    """Put a message of the kind `webhook.test` on its way.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: it is switched off.
    """
    project = _require_own(webhook, by)
    if not webhook.is_active:
        raise ConflictError(f"webhook {webhook.pk} is switched off: nothing is sent")
    data = {
        "id": None,
        "project": project.slug,
        "subject": {"type": "webhook", "id": webhook.pk},
        "by": by.handle,
    }
    body = {"type": TEST_KIND, "timestamp": timezone.now().isoformat(), "data": data}
    with transaction.atomic():
        Webhook.objects.filter(pk=webhook.pk).update(paused_until=Now())
        return Delivery.objects.create(webhook=webhook, kind=TEST_KIND, body=body)


def redeliver(*, delivery: Delivery, by: User) -> Delivery:
    """Send a message again from its first attempt on, under the same id, whether it was taken or given up.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: its webhook is switched off.
    """
    redeliver_all(webhook=delivery.webhook, by=by, deliveries=Delivery.objects.filter(pk=delivery.pk))
    delivery.refresh_from_db()
    return delivery


def redeliver_all(*, webhook: Webhook, by: User, deliveries: QuerySet[Delivery] | None = None) -> int:
    """Send every message again that was given up, or those given; how many.

    Raises:
        NotAllowedError, NotFoundError: `by` may not.
        ConflictError: the webhook is switched off.
    """
    _require_own(webhook, by)
    chosen = webhook.deliveries.filter(state=Delivery.State.DEAD) if deliveries is None else deliveries
    with transaction.atomic():
        row = _lock(webhook)
        if not row.is_active:
            raise ConflictError(f"webhook {row.pk} is switched off: switch it on first")
        Webhook.objects.filter(pk=row.pk).update(paused_until=Now())
        return chosen.filter(webhook=row).update(state=Delivery.State.PENDING, attempts=0, next_at=Now(), ended_at=None)


def find_origin(url: str) -> str:
    """Scheme, host and port: what may be shown to who may not see the address, whose path can be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _require_own(webhook: Webhook, by: User) -> Project:
    """Its project, where `by` may write webhooks. Raises NotAllowedError, NotFoundError otherwise."""
    if webhook.project is None:
        raise NotAllowedError("this webhook is the installation's: TENTALIS_ALARM_WEBHOOK_URL says where it goes")
    require_right(by, webhook.project, Right.WEBHOOKS_WRITE)
    return webhook.project


def _lock(webhook: Webhook) -> Webhook:
    return Webhook.objects.select_for_update(of=("self",)).select_related("project").get(pk=webhook.pk)


def _wake(row: Webhook) -> None:
    row.cursor = find_horizon()
    row.failures, row.failing_since, row.disabled_reason = 0, None, ""
    row.paused_until = timezone.now()


def _public(values: dict[str, Any]) -> dict[str, Any]:
    return {name: find_origin(value) if name == "url" else value for name, value in values.items()}


def _set_fields(webhook: Webhook, values: dict[str, Any], *, by: User) -> None:
    if unknown := sorted(set(values) - CHANGEABLE):
        known = ", ".join(sorted(CHANGEABLE))
        raise BadInputError(
            f"of a webhook {known} can change; found {', '.join(unknown)}",
            errors={name: ["No such field."] for name in unknown},
        )
    is_elsewhere = not webhook.allow_private or values.get("url", webhook.url) != webhook.url
    if values.get("allow_private", webhook.allow_private) and is_elsewhere and not by.is_superuser:
        raise NotAllowedError(
            "allow_private: only an admin of the installation may allow private addresses, and change the URL where "
            "they are allowed"
        )
    for name, value in values.items():
        setattr(webhook, name, value)
    if "kinds" in values:
        webhook.kinds = _check_kinds(values["kinds"])
    if not isinstance(name := values.get("name", ""), str) or len(name) > MAX_ENDPOINT_NAME_CHARS:
        raise BadInputError.at(
            "name", f"wanted a text of at most {MAX_ENDPOINT_NAME_CHARS} characters, found {str(name)[:40]!r}…"
        )
    for name in ("include_details", "allow_private", "is_active"):
        if not isinstance(getattr(webhook, name), bool):
            raise BadInputError.at(name, f"wanted true or false, found {getattr(webhook, name)!r}")
    if {"url", "allow_private"} & set(values) and (
        complaint := check_address(webhook.url, allow_private=webhook.allow_private)
    ):
        raise BadInputError.at("url", complaint)


def _check_kinds(kinds: Any) -> list[str]:
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise BadInputError.at("kinds", f"wanted a list of texts, found {type(kinds).__name__}")
    if unknown := sorted(set(kinds) - set(TELLABLE)):
        raise BadInputError.at(
            "kinds", f"wanted kinds of entries such as {TELLABLE[0]}, found {', '.join(unknown)[:200]}"
        )
    return sorted(set(kinds))
