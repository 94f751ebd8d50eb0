"""One row a started segment: outbox entry, step counter, lease, retries and dead letter in one."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.base.models import Timestamped


class Segment(Timestamped):
    """A chain of links at work on one subject.

    The row is the truth: `links[position]` is the link that is due. A Celery message is only a nudge to look here, so a
    message that is lost, late or doubled costs time and nothing else. Times are database times.

    Attributes:
        published_at: when its messages were last sent; None while it waits to be sent.
        run_after: not before this (the wait before a retry).
        fence, lease_until: who holds the link that is due, and until when; both None while nobody does.
        lease_owner: the process that held it last, as host:identity.
        away_since: since when whom the link that is due needs is away; None while nobody is known to be.
        attempts: claims of the link that is due; counts anew at the next link.
        errors: one entry a failed try: {"link", "attempt", "type", "message", "at"}.
    """

    class State(models.TextChoices):
        OPEN = "open"
        DONE = "done"
        DEAD = "dead"
        CANCELLED = "cancelled"

    kind = models.CharField(max_length=32)
    subject_id = models.BigIntegerField()
    project_id = models.BigIntegerField(null=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    links = models.JSONField()
    position = models.PositiveSmallIntegerField(default=0)
    queue = models.CharField(max_length=32)
    published_at = models.DateTimeField(null=True)
    run_after = models.DateTimeField(db_default=Now())
    fence = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    lease_owner = models.CharField(max_length=120, blank=True)
    away_since = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    errors = models.JSONField(default=list)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject_id"], condition=Q(state="open"), name="one_open_segment_per_subject"
            ),
            models.CheckConstraint(
                condition=Q(fence__isnull=True, lease_until__isnull=True)
                | Q(fence__isnull=False, lease_until__isnull=False),
                name="a_fence_has_a_lease",
            ),
        ]
        indexes = [
            models.Index(
                fields=["run_after", "id"],
                condition=Q(state="open", published_at__isnull=True),
                name="segment_to_publish",
            ),
            models.Index(
                fields=["queue", "published_at"],
                condition=Q(state="open", published_at__isnull=False),
                name="segment_in_flight",
            ),
            models.Index(fields=["kind", "subject_id", "-id"], name="segment_by_subject"),
            models.Index(
                fields=["finished_at"], condition=Q(state__in=["done", "cancelled"]), name="segment_kept_no_longer"
            ),
            models.Index(F("finished_at").desc(), condition=Q(state="dead"), name="segment_dead"),
            models.Index(
                fields=["project_id", "away_since"],
                condition=Q(state="open", away_since__isnull=False),
                name="segment_waits_for_server",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.subject_id}: {self.state} at {self.link or 'its end'}"

    @property
    def link(self) -> str | None:
        """Name of the link that is due; None behind the last."""
        return self.links[self.position] if self.position < len(self.links) else None

    @property
    def holder(self) -> str:
        """Host and number of the process that held it last."""
        return ":".join(self.lease_owner.split(":")[:2])
