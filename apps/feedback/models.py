"""Reviews, what managers say in them, and the hints drawn from that."""

from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from apps.accounts.models import Member, Project, Role, User
from apps.audit.kinds import Kind
from apps.base.models import Stateful, Timestamped
from apps.base.word_index import Words
from apps.tasks.models import Attempt, Step, Task
from apps.workers.models import Worker
from tentalis.core.judged_files import WHAT_THEY_TEACH

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

FEEDBACK_WORDS = ("text", "edited_answer", "hint_text")
COMMENT_WORDS = ("comment",)


class ReviewQuerySet(models.QuerySet["Review"]):
    def visible_to(self, user: "User | AnonymousUser") -> "ReviewQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))


class Review(Stateful):
    """A place for one manager's judgement of a task.

    Attributes:
        audience: human or ai: who is asked.
        purpose: the work itself, a blind second opinion, a gold item whose right judgement is known, an appeal, or
            which of two answers is better, whoever wrote them.
        about: the feedback an appeal disputes; appellant: who disputes it, and never judges it.
        priority: how much is learned from judging it, in [0, 1]: uncertainty and disagreement.
        lowest_score: the least any scorer said of an attempt as a whole, in [0, 1]; None: none said anything.
        rank_at: where it stands in the queue, oldest first: when it was opened, moved back in time by its priority.
        assigned_to: the only person it is for; None: for anyone.
        claimed_by, lease_until: who has it open, in database time.
        snoozed_until: nobody is given it before.
        due_at: when the policy's patience ends; None: waits for ever.
    """

    class State(models.TextChoices):
        OPEN = "open", "Open"
        CLOSED = "closed", "Closed"
        SKIPPED = "skipped", "Skipped"
        EXPIRED = "expired", "Expired"

    class Audience(models.TextChoices):
        HUMAN = "human", "A person"
        AI = "ai", "An AI manager"

    class Purpose(models.TextChoices):
        WORK = "work", "Judge the work"
        SECOND = "second", "Second opinion"
        GOLD = "gold", "Known answer"
        APPEAL = "appeal", "Appeal"
        PAIR = "pair", "Side by side"

    MOVES: ClassVar = {
        State.OPEN: frozenset({State.CLOSED, State.SKIPPED, State.EXPIRED}),
        State.CLOSED: frozenset({State.OPEN}),
        State.SKIPPED: frozenset({State.OPEN}),
        State.EXPIRED: frozenset(),
    }
    EVENTS: ClassVar = {
        State.OPEN: Kind.REVIEW_OPENED,
        State.CLOSED: Kind.REVIEW_CLOSED,
        State.SKIPPED: Kind.REVIEW_SKIPPED,
        State.EXPIRED: Kind.REVIEW_EXPIRED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="reviews")
    task = models.ForeignKey(Task, models.CASCADE, related_name="reviews")
    audience = models.CharField(max_length=8, choices=Audience.choices)
    purpose = models.CharField(max_length=8, choices=Purpose.choices, default=Purpose.WORK)
    about = models.ForeignKey("Feedback", models.CASCADE, null=True, blank=True, related_name="appeals")
    appellant = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    reason = models.CharField(max_length=300, blank=True, help_text="Why the policy asked.")
    priority = models.FloatField(default=0.0)
    lowest_score = models.FloatField(null=True, blank=True)
    rank_at = models.DateTimeField(db_default=Now())
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    assigned_to = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    needs_expert = models.BooleanField(default=False)
    snoozed_until = models.DateTimeField(null=True, blank=True)
    claimed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    lease_until = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    objects = ReviewQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["task", "audience"],
                condition=Q(state="open") & ~Q(purpose="gold"),
                name="one_open_review_per_audience",
            ),
            models.CheckConstraint(condition=Q(priority__gte=0, priority__lte=1), name="review_priority_is_0_to_1"),
        ]
        indexes = [
            models.Index(
                fields=["project", "audience", "rank_at", "id"], condition=Q(state="open"), name="review_open"
            ),
            models.Index(
                fields=["assigned_to", "rank_at"],
                condition=Q(state="open", assigned_to__isnull=False),
                name="review_assigned",
            ),
            models.Index(fields=["due_at"], condition=Q(state="open", due_at__isnull=False), name="review_due"),
        ]

    def __str__(self) -> str:
        return f"review of task {self.task_id} by {self.get_audience_display()}"

    @property
    def shown_purpose(self) -> str:
        """The purpose as reviewers may know it: a gold item passes for work."""
        return Review.Purpose.WORK if self.purpose == Review.Purpose.GOLD else self.purpose


UNHEARD = (Review.Purpose.SECOND, Review.Purpose.APPEAL, Review.Purpose.GOLD, Review.Purpose.PAIR)
"""Reviews for those who have not spoken on the task."""


class GoldItem(Timestamped):
    """A task whose right judgement is known: handed out among the others, it tells how well people judge.

    Attributes:
        expected: {"score": in [0, 1] or null, "attempts": {"<index>": in [0, 1]}}.
        truth: verified (the world checked the answers) or reference (a manager's judgement).
        reference: the feedback that was taken for the truth; None where it was given otherwise.
        removed_at: it is handed out no more.
    """

    class Truth(models.TextChoices):
        VERIFIED = "verified", "Verified outcome"
        REFERENCE = "reference", "A manager's judgement"

    project = models.ForeignKey(Project, models.CASCADE, related_name="gold_items")
    task = models.ForeignKey(Task, models.CASCADE, related_name="gold_items")
    expected = models.JSONField()
    truth = models.CharField(max_length=16, choices=Truth.choices)
    reference = models.ForeignKey("Feedback", models.SET_NULL, null=True, blank=True, related_name="gold_items")
    added_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["task"], condition=Q(removed_at__isnull=True), name="one_gold_item_per_task"
            )
        ]

    def __str__(self) -> str:
        return f"gold: task {self.task_id}"


class ReviewSkip(Timestamped):
    """Somebody passed a review over, so that it is not given to them again."""

    review = models.ForeignKey(Review, models.CASCADE, related_name="skips")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    reason = models.CharField(max_length=300)
    then = models.CharField(max_length=8, help_text="later, others, expert or nobody.")

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["review", "user"], name="skip_by_user")]

    def __str__(self) -> str:
        return f"{self.user} skipped review {self.review_id}"


class ReviewDraft(models.Model):
    """What somebody has typed into a review and not sent.

    Attributes:
        data: the form's fields by name, as they were typed.
        version: raised by every save; an older one is refused.
    """

    review = models.ForeignKey(Review, models.CASCADE, related_name="drafts")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    data = models.JSONField(default=dict)
    version = models.PositiveIntegerField(default=1)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["review", "user"], name="one_draft_per_reviewer")]

    def __str__(self) -> str:
        return f"{self.user}'s draft of review {self.review_id}"


class BulkJudgement(Stateful):
    """One judgement, or one other action, for many rows, one by one in the background.

    Attributes:
        action: what is done to each; of reviews, tasks, or work that failed.
        filters: the list's filters that chose them, as in its address.
        chosen: ids of what was ticked; []: all that match.
        words: what is said of each: score, text, or how it is done: to, reason.
        last_review_id: id up to which it came; it goes on from there after a crash.
        report: what could not be done, or not be taken back: [{<kind of row>: id, "reason"}], the first ones of them.
        undone, last_undone_id: how much of it was taken back, and up to which feedback that came.
        failure: why the rest could not be done, or not be taken back: the link, and what it met.
    """

    class Action(models.TextChoices):
        JUDGE = "judge", "Judge reviews"
        ASSIGN = "assign", "Assign reviews"
        CLOSE = "close", "Close reviews without a judgement"
        CANCEL = "cancel", "Cancel tasks"
        REPLAY = "replay", "Replay failed work"
        PUT_AWAY = "put_away", "Put failed work away"

    class State(models.TextChoices):
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        CANCELLED = "cancelled", "Cancelled"
        UNDOING = "undoing", "Being undone"
        UNDONE = "undone", "Undone"
        FAILED = "failed", "Failed"

    MOVES: ClassVar = {
        State.RUNNING: frozenset({State.DONE, State.CANCELLED, State.FAILED}),
        State.DONE: frozenset({State.UNDOING}),
        State.CANCELLED: frozenset({State.UNDOING}),
        State.UNDOING: frozenset({State.UNDONE, State.FAILED}),
        State.UNDONE: frozenset(),
        State.FAILED: frozenset({State.RUNNING, State.UNDOING}),
    }
    EVENTS: ClassVar = {
        State.RUNNING: Kind.BULK_STARTED,
        State.DONE: Kind.BULK_DONE,
        State.CANCELLED: Kind.BULK_CANCELLED,
        State.UNDOING: Kind.BULK_UNDOING,
        State.UNDONE: Kind.BULK_UNDONE,
        State.FAILED: Kind.BULK_FAILED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="bulk_judgements")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    action = models.CharField(max_length=16, choices=Action.choices, default=Action.JUDGE, db_default="judge")
    filters = models.JSONField(default=dict)
    chosen = models.JSONField(default=list, db_default=[], blank=True)
    words = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    total = models.PositiveIntegerField()
    done = models.PositiveIntegerField(default=0)
    last_review_id = models.BigIntegerField(default=0)
    report = models.JSONField(default=list)
    undone = models.PositiveIntegerField(default=0)
    last_undone_id = models.BigIntegerField(default=0)
    failure = models.TextField(blank=True, default="", db_default="")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"bulk judgement {self.pk}: {self.done} of {self.total}"


class RowImport(Stateful):
    """A file of finished work with its judgement, made into tasks chunk by chunk; it is traced to who brought it.

    Attributes:
        kind: of its rows: preferences, sft, kto or stepwise (`tentalis.core.judged_files`).
        file: the name it came under; sha256: of `text`.
        text: its rows as JSON lines, until all of them are in.
        total, done: rows, and how many of them are tasks now; from there it goes on after a crash, and when it is
            tried again. It ends before all are where its text held what was forgotten.
        failure: why the rest could not be made into tasks.
    """

    class State(models.TextChoices):
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"

    MOVES: ClassVar = {
        State.RUNNING: frozenset({State.DONE, State.FAILED}),
        State.DONE: frozenset(),
        State.FAILED: frozenset({State.RUNNING, State.DONE}),
    }
    EVENTS: ClassVar = {
        State.RUNNING: Kind.IMPORT_STARTED,
        State.DONE: Kind.IMPORT_DONE,
        State.FAILED: Kind.IMPORT_FAILED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="imports")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    worker = models.ForeignKey(Worker, models.PROTECT, related_name="+")
    environment = models.CharField(max_length=16)
    kind = models.CharField(max_length=16)
    file = models.CharField(max_length=200, blank=True)
    sha256 = models.CharField(max_length=64)
    text = models.TextField(blank=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    total = models.PositiveIntegerField()
    done = models.PositiveIntegerField(default=0)
    failure = models.TextField(blank=True, default="", db_default="")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"import {self.pk}: {self.done} of {self.total} {self.kind}"

    @property
    def teaches(self) -> str:
        return WHAT_THEY_TEACH[self.kind]


class FeedbackQuerySet(models.QuerySet["Feedback"]):
    def standing(self) -> "FeedbackQuerySet":
        """What was not taken back."""
        return self.filter(retracted_at__isnull=True)

    def with_gold(self) -> "FeedbackQuerySet":
        """Each with `is_gold`: its task is handed out as a control item."""
        items = GoldItem.objects.filter(task=OuterRef("task"), removed_at__isnull=True)
        return self.annotate(is_gold=Exists(items)).select_related("review")

    def readable_by(self, user: User) -> "FeedbackQuerySet":
        """Without what others said of a task while somebody is asked about it blindly, but for managers."""
        if user.is_superuser:
            return self
        managed = Member.objects.filter(user=user, role__in=(Role.OWNER, Role.MANAGER)).values("project")
        blind = Review.objects.filter(
            task=OuterRef("task"),
            state=Review.State.OPEN,
            purpose__in=UNHEARD,
        )
        return self.filter(Q(author=user.handle) | Q(project__in=managed) | ~Exists(blind))

    def counting(self) -> "FeedbackQuerySet":
        """What the work is judged by: standing, and not said of a gold item, which only tells how people judge."""
        return self.standing().filter(Q(review__isnull=True) | ~Q(review__purpose=Review.Purpose.GOLD))

    def by_people(self) -> "FeedbackQuerySet":
        return self.filter(source=Feedback.Source.HUMAN)


class Feedback(Timestamped):
    """What a manager said of a task. A person's word outranks an AI's, and both are kept apart from scores.

    Attributes:
        ranking: attempt indices from best to worst, equals together: [[2], [0, 1]]; [] where nothing was ranked.
        none_good: even the best attempt is not good enough.
        hint_text: the hint in the reviewer's own words; "" lets it be drawn from what was said.
        shown_order: attempt indices in the order in which they were shown, drawn by lot.
        active_s: seconds somebody worked on it, idle time left out; None where nobody measured.
        undo_until: until then its author may take it back as if it had not been; None: it stands.
        retracted_at: taken back; it counts for nothing from then on.
        in_bulk: the bulk judgement it was given in.
        judge: the judge whose word it is, as `tell_judge` tells it, with "of": "hint" where only its hint is; {}: none
            is known to have been asked.
    """

    class Source(models.TextChoices):
        HUMAN = "human", "A person"
        AI = "ai", "An AI manager"
        OUTSIDE = "outside", "An agent or app, for its user"
        IMPLICIT = "implicit", "What a person's next words showed"
        IMPORTED = "imported", "Imported with the work it is about"

    project = models.ForeignKey(Project, models.CASCADE, related_name="feedback")
    task = models.ForeignKey(Task, models.CASCADE, related_name="feedback")
    review = models.ForeignKey(Review, models.SET_NULL, null=True, blank=True, related_name="given")
    source = models.CharField(max_length=8, choices=Source.choices)
    author = models.CharField(max_length=120, help_text="Handle of who said it.")
    score = models.FloatField(null=True, blank=True)
    text = models.TextField(blank=True)
    preferred_attempt = models.ForeignKey(Attempt, models.SET_NULL, null=True, blank=True, related_name="+")
    edited_answer = models.TextField(blank=True)
    ranking = models.JSONField(default=list, blank=True)
    none_good = models.BooleanField(default=False)
    hint_text = models.TextField(blank=True)
    trust = models.FloatField(default=1.0)
    shown_order = models.JSONField(default=list, blank=True)
    active_s = models.FloatField(null=True, blank=True)
    undo_until = models.DateTimeField(null=True, blank=True)
    retracted_at = models.DateTimeField(null=True, blank=True)
    retracted_by = models.CharField(max_length=120, blank=True)
    retract_reason = models.CharField(max_length=300, blank=True)
    in_bulk = models.ForeignKey(
        BulkJudgement, models.SET_NULL, null=True, blank=True, related_name="feedback", db_index=False
    )

    judge = models.JSONField(default=dict, db_default={}, blank=True)

    objects = FeedbackQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(score__gte=0, score__lte=1), name="feedback_score_is_0_to_1"
            ),
            models.UniqueConstraint(
                fields=["review"], condition=Q(retracted_at__isnull=True), name="one_standing_feedback_per_review"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "author", "-id"], name="feedback_by_author"),
            models.Index(fields=["in_bulk", "id"], condition=Q(in_bulk__isnull=False), name="feedback_in_bulk"),
            models.Index(fields=["undo_until"], condition=Q(undo_until__isnull=False), name="feedback_undoable"),
            GinIndex(Words(*FEEDBACK_WORDS), name="feedback_words"),
        ]
        verbose_name_plural = "feedback"

    def __str__(self) -> str:
        return f"feedback {self.pk} on task {self.task_id}"


class StepFeedback(models.Model):
    """A manager's word on one step, or on one attempt as a whole (`step` empty).

    Attributes:
        spans: marked stretches of the step's text: [[start, end, label]], in characters.
        items: what a rubric manager found in an attempt, by item; {} of everybody else.
    """

    feedback = models.ForeignKey(Feedback, models.CASCADE, related_name="steps")
    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="feedback")
    step = models.ForeignKey(Step, models.CASCADE, null=True, blank=True, related_name="feedback")
    score = models.FloatField(null=True, blank=True)
    comment = models.TextField(blank=True)
    spans = models.JSONField(default=list, blank=True)
    items = models.JSONField(default=dict, db_default={}, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["feedback", "attempt", "step"], name="one_word_per_step", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(score__gte=0, score__lte=1), name="step_feedback_is_0_to_1"
            ),
        ]
        indexes = [GinIndex(Words(*COMMENT_WORDS), condition=~Q(comment=""), name="step_feedback_words")]

    def __str__(self) -> str:
        return f"feedback {self.feedback_id} on step {self.step_id}"


class Hint(Timestamped):
    """What feedback on a task teaches: read by the teacher of OPD with the task's prompt."""

    task = models.ForeignKey(Task, models.CASCADE, related_name="hints")
    feedback = models.ForeignKey(Feedback, models.CASCADE, related_name="hints")
    text = models.TextField(blank=True, help_text="Empty: nothing to teach, for `reason`.")
    source = models.CharField(max_length=64, help_text="Grammar or model that drew it.")
    reason = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["feedback"], name="one_hint_per_feedback")]

    def __str__(self) -> str:
        return self.text or f"no hint: {self.reason}"
