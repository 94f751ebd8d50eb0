"""Training runs: specs out, results in."""

from typing import ClassVar

from django.db import models

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.base.models import Stateful, Timestamped
from apps.rollouts.models import Batch
from apps.workers.models import Worker


class TrainingRun(Stateful):
    """One training of one batch.

    Attributes:
        attempt: tries so far; a result that carries another number is dropped.
        recipe, recipe_hash: how it learns, stored whole.
        metrics: one mapping per optimiser update; summary: the run in a few numbers.
        heartbeat_at: last sign of life from the training box, database time.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Training"
        SUCCEEDED = "succeeded", "Trained"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    MOVES: ClassVar = {
        State.QUEUED: frozenset({State.RUNNING, State.FAILED, State.CANCELLED}),
        State.RUNNING: frozenset({State.QUEUED, State.SUCCEEDED, State.FAILED, State.CANCELLED}),
        State.SUCCEEDED: frozenset(),
        State.FAILED: frozenset({State.QUEUED}),
        State.CANCELLED: frozenset(),
    }
    EVENTS: ClassVar = {
        State.QUEUED: Kind.RUN_RETRIED,
        State.RUNNING: Kind.RUN_STARTED,
        State.SUCCEEDED: Kind.RUN_SUCCEEDED,
        State.FAILED: Kind.RUN_FAILED,
        State.CANCELLED: Kind.RUN_CANCELLED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="runs")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="runs")
    batch = models.OneToOneField(Batch, models.PROTECT, related_name="run")
    parent = models.ForeignKey(
        Adapter, models.PROTECT, null=True, blank=True, related_name="+", help_text="Continued from."
    )
    backend = models.CharField(max_length=16, default="standalone")
    recipe = models.JSONField()
    recipe_hash = models.CharField(max_length=64)
    seed = models.BigIntegerField(default=0)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    attempt = models.PositiveSmallIntegerField(default=0)
    spec = models.JSONField(default=dict)
    metrics = models.JSONField(default=list)
    summary = models.JSONField(default=dict)
    versions = models.JSONField(default=dict)
    failure = models.TextField(blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["project", "-id"], name="run_by_project"),
            models.Index(fields=["heartbeat_at"], condition=models.Q(state="running"), name="run_alive"),
        ]

    def __str__(self) -> str:
        return f"run {self.pk}"


class ManagerRun(Timestamped):
    """One re-fitting of a manager's own judgement (the outer loop)."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="manager_runs")
    manager = models.CharField(max_length=120)
    weights = models.JSONField(default=dict)
    metrics = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"manager run {self.pk} of {self.manager}"
