"""The secrets messages are signed with: made here, kept encrypted, two in force while one replaces the other."""

import secrets
from datetime import timedelta

from django.utils import timezone

from apps.base.sealing import seal, unseal
from apps.webhooks.models import Webhook
from tentalis.core.webhooks import write_secret

SECRET_BYTES = 32
OVERLAP = timedelta(hours=24)


def give_secret(webhook: Webhook) -> str:
    """Give a saved webhook its secret, which the caller saves; its text, which is nowhere else."""
    text = write_secret(secrets.token_bytes(SECRET_BYTES))
    webhook.secret_sealed = seal(text, bound_to=webhook.sealed_for())
    return text


def replace_secret(webhook: Webhook) -> str:
    """As `give_secret`; what it replaces signs too for a day."""
    webhook.old_secret_sealed = webhook.secret_sealed
    webhook.old_until = timezone.now() + OVERLAP
    return give_secret(webhook)


def read_secrets(webhook: Webhook) -> list[str]:
    """Every secret in force, the newest first; none of the installation's webhook where the settings name none.

    Raises:
        SealedKeyError: it was sealed under a key that is no more, or for another row.
    """
    bound_to = webhook.sealed_for()
    text = unseal(webhook.secret_sealed, bound_to=bound_to)
    found = [text] if text else []
    if webhook.old_secret_sealed and webhook.old_until and webhook.old_until > timezone.now():
        found.append(unseal(webhook.old_secret_sealed, bound_to=bound_to))
    return found
