"""Conversations cut into turns, what each turn's next words showed, and what was forgotten."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.base.models import Stateful, Timestamped
from apps.feedback.models import Feedback
from apps.inference.models import Exchange, Session
from apps.tasks.models import Task
from tentalis.core.conversations.signals import SignalKind
from tentalis.core.conversations.turns import Began


class Conversation(Timestamped):
    """How far a session is cut into turns.

    Attributes:
        seen_at: the session's `last_seen_at` when it was last cut; a later one says that there is more.
    """

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="conversation")
    seen_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"conversation {self.session_id}"


class TurnQuerySet(models.QuerySet["Turn"]):
    def unread(self) -> "TurnQuerySet":
        return self.filter(state=Turn.State.CLOSED)


class Turn(Stateful):
    """A person's words, and everything the agent did until the person's next words.

    Attributes:
        number: place in the session, from 0.
        began: how it began, seen from its parent.
        parent: the turn whose answer its words stand behind or, where it began as `again`, whose request was sent
            again; None where it goes on from none that is known.
        beside: of a turn without a parent, the turn that was under way when it began.
        head: short name of the system prompt and the tools it was asked with; "" where nobody noted it.
        heard: digests of the latest of the person's words that its requests repeat. heard_count: of how many.
        heard_from: which of the person's words in its first request are new since its parent: those from this place
            on; they are the parent's next state.
        words_from: which of them it answers: those that no answer stands behind.
        request_digest: of the messages of its last request, to know one that is sent again.
        closed_by: next (the person spoke on), done (the agent said so) or idle.
        reason: why it teaches nothing; "" where it does, or is not read yet.
        task: what it became.
    """

    class State(models.TextChoices):
        OPEN = "open", "Open"
        CLOSED = "closed", "Closed"
        SETTLED = "settled", "Settled"
        FAILED = "failed", "Failed"

    class ClosedBy(models.TextChoices):
        NEXT = "next", "The person's next words"
        DONE = "done", "The end of the session"
        IDLE = "idle", "Silence"

    MOVES: ClassVar = {
        State.OPEN: frozenset({State.CLOSED}),
        State.CLOSED: frozenset({State.SETTLED, State.FAILED}),
        State.SETTLED: frozenset({State.CLOSED}),  # where it taught nothing, and was followed by other words
        State.FAILED: frozenset({State.CLOSED}),
    }
    EVENTS: ClassVar = {
        State.CLOSED: Kind.TURN_CLOSED,
        State.SETTLED: Kind.TURN_SETTLED,
        State.FAILED: Kind.TURN_FAILED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="turns")
    session = models.ForeignKey(Session, models.CASCADE, related_name="turns")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    began = models.CharField(max_length=16, choices=[(one.value, one.value) for one in Began], default=Began.NEXT.value)
    parent = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="next_turns")
    beside = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="+")
    head = models.CharField(max_length=16, blank=True, default="")
    heard = models.JSONField(default=list)
    heard_count = models.PositiveIntegerField(default=0)
    heard_from = models.PositiveIntegerField(default=0)
    words_from = models.PositiveIntegerField(default=0)
    request_digest = models.CharField(max_length=16, blank=True)
    closed_by = models.CharField(max_length=8, choices=ClosedBy.choices, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    reason = models.CharField(max_length=300, blank=True)
    task = models.OneToOneField(Task, models.SET_NULL, null=True, blank=True, related_name="turn")

    objects = TurnQuerySet.as_manager()

    class Meta:
        ordering = ["session", "number"]
        constraints = [
            models.UniqueConstraint(fields=["session", "number"], name="one_turn_per_place"),
        ]
        indexes = [models.Index(fields=["project", "-id"], name="turn_by_project")]

    def __str__(self) -> str:
        return f"turn {self.number + 1} of session {self.session_id}"


class TurnExchange(models.Model):
    """An exchange's one place in one turn. The primary key is the promise.

    Attributes:
        turn: None where it came before the person's first words.
        is_part: it carries the turn's work on; False for what the agent asked beside it.
    """

    exchange = models.OneToOneField(Exchange, models.CASCADE, primary_key=True, related_name="place_in_turn")
    turn = models.ForeignKey(Turn, models.CASCADE, null=True, related_name="places")
    is_part = models.BooleanField(default=True)

    class Meta:
        ordering = ["exchange"]

    def __str__(self) -> str:
        return f"exchange {self.exchange_id} in turn {self.turn_id}"


class TurnSignal(Timestamped):
    """What a turn's next state showed, or that it showed nothing.

    Attributes:
        kind: "" where nothing was said.
        source: rule, or judge.
        score, trust: in [0, 1]; None where nothing was said.
        step: place of the step it is about; None: the whole turn.
        reason: why, in our words; no word of the person is kept here.
        details: votes by verdict, where a model was asked, and which that is.
        hint: what was chosen to teach.
        feedback: what it became.
    """

    class Source(models.TextChoices):
        RULE = "rule", "A rule"
        JUDGE = "judge", "A model"

    turn = models.ForeignKey(Turn, models.CASCADE, related_name="signals")
    kind = models.CharField(max_length=16, choices=[(one.value, one.value) for one in SignalKind], blank=True)
    source = models.CharField(max_length=8, choices=Source.choices)
    score = models.FloatField(null=True)
    trust = models.FloatField(null=True)
    step = models.PositiveSmallIntegerField(null=True)
    reason = models.CharField(max_length=300)
    details = models.JSONField(default=dict)
    answer = models.TextField(blank=True)
    hint = models.TextField(blank=True)
    feedback = models.OneToOneField(Feedback, models.SET_NULL, null=True, blank=True, related_name="signal")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["turn", "step"], name="one_signal_per_place", nulls_distinct=False),
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(score__gte=0, score__lte=1), name="signal_score_is_0_to_1"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind or 'nothing'} of turn {self.turn_id}"


class Forgetting(Timestamped):
    """That somebody's data was deleted: by hash, for nobody must be named here.

    Attributes:
        subject_hash: keyed SHA-256 of the end user's name or of the text that was looked for.
        what: end_user or text.
        counts: rows deleted, by kind.
        batches: primary keys of those that held a part of it.
        adapters: names of those that were trained on it.
        files: batch files that held it and were removed.
        sealed_subject: the text that was looked for, encrypted, while records of before may still come; b"" after that.
        session_hashes: keyed SHA-256 of the agents and keys of the sessions that were deleted.
    """

    BOUND_TO: ClassVar = "forgetting"

    project = models.ForeignKey(Project, models.CASCADE, related_name="forgettings")
    what = models.CharField(max_length=8)
    subject_hash = models.CharField(max_length=64)
    by = models.CharField(max_length=160)
    counts = models.JSONField(default=dict)
    batches = models.JSONField(default=list)
    adapters = models.JSONField(default=list)
    files = models.PositiveIntegerField(default=0)
    sealed_subject = models.BinaryField(default=b"")
    session_hashes = models.JSONField(default=list)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["project", "-id"], name="forgetting_by_project")]

    def __str__(self) -> str:
        return f"forgetting {self.pk}"

    def sealed_for(self, field: str) -> str:
        """The same in every row: the text is sealed before it has one."""
        return self.BOUND_TO
