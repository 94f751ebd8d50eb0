"""Reviews, what managers say in them, and the hints drawn from that."""

from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.accounts.models import Project, User
from apps.audit.kinds import Kind
from apps.base.models import Stateful, Timestamped
from apps.tasks.models import Attempt, Step, Task

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


class ReviewQuerySet(models.QuerySet["Review"]):
    def visible_to(self, user: "User | AnonymousUser") -> "ReviewQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))


class Review(Stateful):
    """A place for one manager's judgement of a task.

    Attributes:
        audience: human or ai: who is asked.
        claimed_by, lease_until: who has it open, in database time.
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

    MOVES: ClassVar = {
        State.OPEN: frozenset({State.CLOSED, State.SKIPPED, State.EXPIRED}),
        State.CLOSED: frozenset(),
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
    reason = models.CharField(max_length=300, blank=True, help_text="Why the policy asked.")
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    claimed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    lease_until = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    objects = ReviewQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["task", "audience"], condition=Q(state="open"), name="one_open_review_per_audience"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "audience", "id"], condition=Q(state="open"), name="review_open"),
            models.Index(fields=["due_at"], condition=Q(state="open", due_at__isnull=False), name="review_due"),
        ]

    def __str__(self) -> str:
        return f"review of task {self.task_id} by {self.get_audience_display()}"


class Feedback(Timestamped):
    """What a manager said of a task. A person's word outranks an AI's, and both are kept apart from scores."""

    class Source(models.TextChoices):
        HUMAN = "human", "A person"
        AI = "ai", "An AI manager"
        OUTSIDE = "outside", "An agent or app, for its user"

    project = models.ForeignKey(Project, models.CASCADE, related_name="feedback")
    task = models.ForeignKey(Task, models.CASCADE, related_name="feedback")
    review = models.OneToOneField(Review, models.SET_NULL, null=True, blank=True, related_name="feedback")
    source = models.CharField(max_length=8, choices=Source.choices)
    author = models.CharField(max_length=120, help_text="Handle of who said it.")
    score = models.FloatField(null=True, blank=True)
    text = models.TextField(blank=True)
    preferred_attempt = models.ForeignKey(Attempt, models.SET_NULL, null=True, blank=True, related_name="+")
    edited_answer = models.TextField(blank=True)
    trust = models.FloatField(default=1.0)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(score__gte=0, score__lte=1), name="feedback_score_is_0_to_1"
            ),
        ]
        verbose_name_plural = "feedback"

    def __str__(self) -> str:
        return f"feedback {self.pk} on task {self.task_id}"


class StepFeedback(models.Model):
    """A manager's word on one step, or on one attempt as a whole (`step` empty)."""

    feedback = models.ForeignKey(Feedback, models.CASCADE, related_name="steps")
    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="feedback")
    step = models.ForeignKey(Step, models.CASCADE, null=True, blank=True, related_name="feedback")
    score = models.FloatField(null=True, blank=True)
    comment = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["feedback", "attempt", "step"], name="one_word_per_step", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(score__gte=0, score__lte=1), name="step_feedback_is_0_to_1"
            ),
        ]

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
