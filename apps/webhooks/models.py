"""Addresses that are told what happens, and each message to them."""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import Project
from apps.audit.models import ChainPlace
from apps.base.models import Timestamped

CURSOR = ("cursor_epoch", "cursor_xid", "cursor_id")


class Webhook(Timestamped):
    """An address that is told of a project's audit entries, in the order of their transactions.

    Attributes:
        project: None: the address that the installation's settings name for alarms (`apps.webhooks.installation`); it
            is told of entries that belong to no project, and changed by those settings alone.
        secret_sealed, old_secret_sealed: encrypted `whsec_…` texts; messages are signed with both until `old_until`.
        kinds: of `apps.audit.kinds.Kind`; empty: every kind. What webhooks themselves do is never told.
        include_details: messages carry the entry's payload too, which may hold free text.
        allow_private: loopback and private addresses are allowed; only an installation's admin may say so.
        cursor_epoch, cursor_xid, cursor_id: `cursor`, the last entry looked at; what comes behind it is still to be
            enqueued.
        failures, failing_since: failed attempts in a row, of whatever message, and since when.
        paused_until: nothing is sent before: the address failed a moment ago. Else when it last had its turn.
        disabled_reason: why it was switched off without a person; "" where it was not.
        fence, lease_until: which process sends to it, and until when; both None while none does.
    """

    GOES_WITH_PROJECT: ClassVar = True  # no evidence of work: the audit is

    project = models.ForeignKey(Project, models.CASCADE, related_name="webhooks", null=True)
    name = models.CharField(max_length=100, blank=True)
    url = models.CharField(max_length=500)
    secret_sealed = models.BinaryField(editable=False)
    old_secret_sealed = models.BinaryField(default=b"", editable=False)
    old_until = models.DateTimeField(null=True, editable=False)
    kinds = models.JSONField(default=list, blank=True)
    include_details = models.BooleanField(default=False)
    allow_private = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    cursor_epoch = models.IntegerField(default=0)
    cursor_xid = models.BigIntegerField(default=0)
    cursor_id = models.BigIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True)
    paused_until = models.DateTimeField(db_default=Now())
    disabled_reason = models.CharField(max_length=300, blank=True)
    fence = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(fence__isnull=True, lease_until__isnull=True)
                | Q(fence__isnull=False, lease_until__isnull=False),
                name="a_sending_webhook_has_a_lease",
            ),
            models.UniqueConstraint(
                fields=["name"], condition=Q(project__isnull=True), name="one_webhook_of_the_installation"
            ),
        ]
        indexes = [models.Index(fields=["project", "id"], name="webhook_by_project")]

    def __str__(self) -> str:
        return f"webhook {self.pk} of {self.project or 'the installation'}"

    @property
    def cursor(self) -> ChainPlace:
        return ChainPlace(self.cursor_epoch, self.cursor_xid, self.cursor_id)

    @cursor.setter
    def cursor(self, place: ChainPlace) -> None:
        self.cursor_epoch, self.cursor_xid, self.cursor_id = place

    def sealed_for(self, field: str = "") -> str:
        """What its secrets are bound to, so that they open in no other row."""
        return f"webhook {self.pk} of project {self.project_id}"


class Delivery(models.Model):
    """One message to one address: pending until the address took it, or it was given up.

    Attributes:
        event_id: the message's id, the same however often it is sent.
        entry_id: of the audit entry; None for a test.
        body: what is sent, as JSON: {"type", "timestamp", "data"}.
        next_at: not sent before.
        attempts: how often it was sent since it was last asked for.
        tries: the latest of them: {"at", "status" (0: no answer), "words", "ms"}.
    """

    class State(models.TextChoices):
        PENDING = "pending"
        DELIVERED = "delivered"
        DEAD = "dead"

    created_at = models.DateTimeField(db_default=Now(), editable=False)
    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="deliveries")
    event_id = models.UUIDField(default=uuid.uuid4, editable=False)
    entry_id = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=40)
    body = models.JSONField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(db_default=Now())
    status = models.PositiveSmallIntegerField(default=0)
    tries = models.JSONField(default=list)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(fields=["webhook", "entry_id"], name="one_delivery_per_entry"),
        ]
        indexes = [
            models.Index(fields=["webhook", "id"], condition=Q(state="pending"), name="delivery_due"),
            models.Index(fields=["webhook", "state", "-id"], name="delivery_by_state"),
            models.Index(fields=["ended_at"], condition=Q(state="delivered"), name="delivery_done"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to webhook {self.webhook_id}: {self.state}"
