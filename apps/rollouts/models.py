"""The ledger: each usable attempt becomes exactly one rollout, each rollout enters exactly one batch."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.base.models import Stateful, Timestamped
from apps.feedback.models import Hint
from apps.tasks.models import Attempt, Task
from apps.workers.models import Worker


class Rollout(Timestamped):
    """An attempt as training data. Its exact tokens are its attempt's exchange; what was judged of them is here.

    Attributes:
        reward: in [0, 1]; None when nobody could judge it.
        steps: [[token_start, token_end, score or null, a person's word or null], …] of its sampled steps.
        missing_steps: steps a whole answer would have had beyond those.
        weight: trust in the judgement, in [0, 1].
        reward_source: human, verified, ai or scorers: whose word the reward is.
        unusable_reason: why it trains nothing; "" for a usable one.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="rollouts")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="rollouts")
    task = models.ForeignKey(Task, models.CASCADE, related_name="rollouts")
    attempt = models.OneToOneField(Attempt, models.CASCADE, related_name="rollout")
    adapter = models.ForeignKey(Adapter, models.PROTECT, null=True, blank=True, related_name="rollouts")
    hint = models.ForeignKey(Hint, models.SET_NULL, null=True, blank=True, related_name="rollouts")
    is_usable = models.BooleanField()
    unusable_reason = models.CharField(max_length=300, blank=True)
    reward = models.FloatField(null=True)
    reward_source = models.CharField(max_length=16, blank=True)
    steps = models.JSONField(default=list)
    missing_steps = models.PositiveSmallIntegerField(default=0)
    weight = models.FloatField(default=1.0)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(is_usable=True, unusable_reason="") | (Q(is_usable=False) & ~Q(unusable_reason="")),
                name="an_unusable_rollout_has_a_reason",
            ),
            models.CheckConstraint(
                condition=Q(reward__isnull=True) | Q(reward__gte=0, reward__lte=1), name="reward_is_0_to_1"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="rollout_by_project"),
            models.Index(fields=["project", "-id"], condition=Q(is_usable=False), name="rollout_unusable_by_project"),
            models.Index(fields=["worker", "unusable_reason"], condition=Q(is_usable=False), name="rollout_unusable"),
        ]

    def __str__(self) -> str:
        return f"rollout {self.pk}"


class Batch(Stateful):
    """The rollouts of one training run. Fills task by task, closes when it holds enough tasks.

    Attributes:
        end_user: whose adapter it trains; "" for the worker's.
    """

    class State(models.TextChoices):
        OPEN = "open", "Filling"
        CLOSED = "closed", "Full"

    MOVES: ClassVar = {State.OPEN: frozenset({State.CLOSED}), State.CLOSED: frozenset()}
    EVENTS: ClassVar = {State.CLOSED: Kind.BATCH_CLOSED}

    project = models.ForeignKey(Project, models.CASCADE, related_name="batches")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="batches")
    end_user = models.CharField(max_length=200, blank=True, default="")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    target_tasks = models.PositiveIntegerField()
    task_count = models.PositiveIntegerField(default=0)
    rollout_count = models.PositiveIntegerField(default=0)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "batches"
        constraints = [
            models.UniqueConstraint(fields=["worker", "number"], name="batch_number_is_unique"),
            models.UniqueConstraint(
                fields=["worker", "end_user"], condition=Q(state="open"), name="one_open_batch_per_line"
            ),
        ]

    def __str__(self) -> str:
        return f"batch {self.number} of {self.worker}{f' for {self.end_user}' if self.end_user else ''}"


class TrainingUse(models.Model):
    """A rollout's one place in one batch. The primary key is the promise."""

    rollout = models.OneToOneField(Rollout, models.CASCADE, primary_key=True, related_name="training_use")
    batch = models.ForeignKey(Batch, models.CASCADE, related_name="uses")

    def __str__(self) -> str:
        return f"rollout {self.rollout_id} in batch {self.batch_id}"
