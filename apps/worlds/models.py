"""Certificates of worlds: what their examination found, and of what. Admissions of tasks that were handed in."""

from collections.abc import Collection
from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from apps.audit.kinds import Kind
from apps.base.models import Stateful
from tentalis.core.swe.admission import ROUNDS
from tentalis.verification.store import SPLITS


class WorldCertificateQuerySet(models.QuerySet["WorldCertificate"]):
    def find_newest(self, worlds: Collection[str]) -> "dict[str, WorldCertificate]":
        """The newest of each, by its name."""
        rows = self.filter(world__in=worlds).order_by("world", "-pk").distinct("world")
        return {row.world: row for row in rows}


class WorldCertificate(models.Model):
    """What an examination of a world found. It speaks of the world that has its hash, and of no other; it is never
    changed, and a later one of the same world stands in its place."""

    world = models.CharField(max_length=64, help_text="Name of the environment.")
    version = models.CharField(max_length=64, blank=True, help_text="As the world says it.")
    sha256 = models.CharField(max_length=64, help_text="Of all files that it is made of.")
    passed = models.BooleanField(help_text="Nothing that was looked at speaks against training there.")
    checks = models.JSONField(help_text="One entry each: name, passed (null: could not be looked at), words.")
    figures = models.JSONField(help_text="Episodes, steps, steps a second, memory.")
    accepted = models.CharField(
        max_length=300,
        blank=True,
        help_text="Why it may train although it did not pass, as somebody said.",
    )
    examined_by = models.CharField(max_length=120)
    created_at = models.DateTimeField(db_default=Now())

    objects = WorldCertificateQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["world", "-id"], name="certificate_by_world")]

    def __str__(self) -> str:
        return f"{self.world}+{self.sha256[:12]} {'passed' if self.passed else 'failed'}"


class RepoTaskAdmission(Stateful):
    """A task of an own repository that was handed in, and whether it may be used: then it was added.

    Attributes:
        name: the task's. split: what it is added to.
        task: as `RepoTask` writes itself.
        repository: sha256 of the file that holds its repository.
        runs: of its tests, as far as they are done.
        report: as `Admission` writes itself.
        added_as: its name from then on; while it runs, the name that it is about to be added by.
        reason: why it is not used, or why nothing could be found out.
        asked_by: handle.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        ADMITTED = "admitted", "Admitted"
        QUARANTINED = "quarantined", "Quarantined"
        FAILED = "failed", "Not found out"

    MOVES: ClassVar = {
        State.QUEUED: frozenset({State.RUNNING, State.FAILED}),
        State.RUNNING: frozenset({State.ADMITTED, State.QUARANTINED, State.FAILED}),
        State.ADMITTED: frozenset(),
        State.QUARANTINED: frozenset(),
        State.FAILED: frozenset(),
    }
    EVENTS: ClassVar = {
        State.RUNNING: Kind.REPO_TASK_STARTED,
        State.ADMITTED: Kind.REPO_TASK_ADMITTED,
        State.QUARANTINED: Kind.REPO_TASK_QUARANTINED,
        State.FAILED: Kind.REPO_TASK_FAILED,
    }
    RUNS: ClassVar = 2 * ROUNDS

    name = models.CharField(max_length=120)
    split = models.CharField(max_length=16, choices=[(one, one) for one in SPLITS])
    task = models.JSONField()
    repository = models.CharField(max_length=64)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    runs = models.PositiveSmallIntegerField(default=0)
    report = models.JSONField(default=dict)
    added_as = models.CharField(max_length=160, blank=True)
    reason = models.TextField(blank=True)
    asked_by = models.CharField(max_length=150)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(fields=["id"], condition=models.Q(state="queued"), name="admissions_that_wait"),
        ]

    def __str__(self) -> str:
        return f"admission {self.pk} of {self.name}"

    def count_tests(self) -> int | None:
        """How many decide; None until that is found out."""
        counts = [self.report.get(name) for name in ("fail_to_pass", "pass_to_pass")]
        return None if None in counts else sum(counts)
