"""What is wrong with the installation, since when, and until when."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from apps.audit.kinds import Kind
from apps.base.models import Stateful

SUBJECT_CHARS, WORDS_CHARS, MAIL_FAULT_CHARS = 100, 500, 500
"""What an alarm holds of each."""
MOST_MAIL_TRIES = 6


class ServerLook(models.Model):
    """The last look at a model server that workers use: whether it answers.

    Attributes:
        provider_id: of `inference.Provider`; 0: the installation's own engine.
        projects: ids of the projects whose workers use it.
        looked_at: database time; away_since: when it was first found away; None while it answers.
        words: what it said last that was no answer; "" for none.
        latency_ms: of its last answer.
    """

    provider_id = models.BigIntegerField(unique=True)
    name = models.CharField(max_length=100)
    projects = models.JSONField(default=list)
    looked_at = models.DateTimeField()
    away_since = models.DateTimeField(null=True)
    words = models.CharField(max_length=500, blank=True, default="")
    latency_ms = models.FloatField(null=True)

    def __str__(self) -> str:
        return f"{self.name}: {'away' if self.away_since else 'answers'}"


class SpanCursor(models.Model):
    """Up to where spans were told to a collector: behind which audit entry, and behind which exchange.

    Attributes:
        endpoint: the collector's address.
        epoch, xid, entry_id: the entry's place (`apps.audit.models.Place`).
    """

    endpoint = models.CharField(max_length=500, unique=True)
    epoch = models.IntegerField()
    xid = models.BigIntegerField()
    entry_id = models.BigIntegerField(default=0)
    exchange_id = models.BigIntegerField()

    def __str__(self) -> str:
        return self.endpoint


class Alarm(Stateful):
    """One rule of `apps.operations.rules` that was broken by one thing, from its opening to its end.

    Attributes:
        subject: what broke it, such as the name of a queue; "" where there is one such thing.
        words: what is wrong, as it was last found.
        told: the state that people were last told of by mail; "" for none.
        mail_tries: how often the mail server refused the mail about its state; from `MOST_MAIL_TRIES` on it is sent no
            more. mail_after: not before then. mail_fault: what the server said, "" where it took the last mail.
    """

    class State(models.TextChoices):
        OPEN = "open", "Open"
        CLOSED = "closed", "Closed"

    MOVES: ClassVar = {State.OPEN: frozenset({State.CLOSED}), State.CLOSED: frozenset()}
    EVENTS: ClassVar = {State.OPEN: Kind.ALARM_OPENED, State.CLOSED: Kind.ALARM_CLOSED}

    rule = models.CharField(max_length=40)
    subject = models.CharField(max_length=SUBJECT_CHARS, blank=True)
    words = models.CharField(max_length=WORDS_CHARS)
    state = models.CharField(max_length=8, choices=State.choices, default=State.OPEN)
    closed_at = models.DateTimeField(null=True)
    told = models.CharField(max_length=8, blank=True, default="")
    mail_tries = models.PositiveSmallIntegerField(default=0, db_default=0)
    mail_after = models.DateTimeField(null=True, blank=True)
    mail_fault = models.CharField(max_length=MAIL_FAULT_CHARS, blank=True, default="", db_default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject"], condition=Q(state="open"), name="one_open_alarm_per_subject"
            ),
        ]
        indexes = [models.Index(fields=["-id"], condition=Q(state="open"), name="alarm_open")]

    def __str__(self) -> str:
        return f"{self.rule} {self.subject}".strip()

    @property
    def is_untellable(self) -> bool:
        """Whether nobody is told of its state by mail any more: the mail server refused that too often."""
        return self.told != self.state and self.mail_tries >= MOST_MAIL_TRIES
