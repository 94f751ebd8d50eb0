"""A set of new grades of answers that are there, and each of them."""

from typing import ClassVar

from django.db import models

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.base.models import Stateful
from apps.evals.models import Evaluation
from apps.workers.models import Worker


class Regrading(Stateful):
    """A set of new grades, by one rule, beside those that are there: these, and what was trained with them, stay.

    Attributes:
        source: what is graded anew: the tries of a run, or what a project keeps of its history.
        evaluation: the run; None of a history. worker: whose history; None: all workers'.
        rule: how (`apps.regrading.rules.GradingRule`); graders: who graded, with versions, once anything was.
        last_id: the highest id of what is graded: nothing that came later is.
        side: an answer is on the good side from so much on, in [0, 1].
        planned, graded, unscored: answers; graded counts those without a new grade too.
        counts: the diff once it is done (`apps.regrading.services.DIFF`).
    """

    class Source(models.TextChoices):
        RUN = "run", "Tries of a run"
        ATTEMPTS = "attempts", "Attempts"
        REVIEWS = "reviews", "Reviewed attempts, beside what people said"
        ROLLOUTS = "rollouts", "Rollouts, beside their rewards"

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"

    MOVES: ClassVar = {
        State.QUEUED: frozenset({State.RUNNING, State.FAILED}),
        State.RUNNING: frozenset({State.DONE, State.FAILED}),
        State.DONE: frozenset(),
        State.FAILED: frozenset({State.RUNNING}),
    }
    EVENTS: ClassVar = {
        State.RUNNING: Kind.REGRADING_STARTED,
        State.DONE: Kind.REGRADING_FINISHED,
        State.FAILED: Kind.REGRADING_FAILED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="regradings")
    source = models.CharField(max_length=16, choices=Source.choices)
    evaluation = models.ForeignKey(Evaluation, models.CASCADE, null=True, blank=True, related_name="regradings")
    worker = models.ForeignKey(Worker, models.CASCADE, null=True, blank=True, related_name="regradings")
    rule = models.JSONField()
    graders = models.JSONField(default=list)
    last_id = models.BigIntegerField()
    side = models.FloatField(default=0.5)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    planned = models.PositiveIntegerField()
    graded = models.PositiveIntegerField(default=0)
    unscored = models.PositiveIntegerField(default=0)
    counts = models.JSONField(default=dict)
    failure = models.TextField(blank=True)
    asked_by = models.CharField(max_length=150)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["project", "-id"], name="regrading_by_project")]

    def __str__(self) -> str:
        return f"regrading {self.pk}"


class Regrade(models.Model):
    """One answer's new grade beside the old one.

    Attributes:
        subject_id: of the try of a run, or of the attempt.
        old, new: in [0, 1]; None where there is none: of the new one `cause` says why.
        details: what each check said, as JSON.
    """

    regrading = models.ForeignKey(Regrading, models.CASCADE, related_name="grades")
    subject_id = models.BigIntegerField()
    old = models.FloatField(null=True)
    new = models.FloatField(null=True)
    cause = models.CharField(max_length=300, blank=True)
    details = models.JSONField(default=list)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["regrading", "subject_id"], name="one_new_grade_per_answer"),
            models.CheckConstraint(
                condition=models.Q(new__isnull=False, cause="") | (models.Q(new__isnull=True) & ~models.Q(cause="")),
                name="a_new_grade_or_a_cause",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject_id}: {self.old} -> {self.new}"
