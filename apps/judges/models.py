"""Probes of judges: what was asked of a model that judges, and what came of it."""

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.base.models import Stateful
from apps.inference.models import Provider


def name_judge(provider: Provider | None, model: str) -> str:
    """As a policy names it."""
    return f"{provider.name}/{model}" if provider else model


def tell_judge(provider_id: int | None, model: str) -> dict[str, Any]:
    """A judge as it is kept with what it said: its server, None of the installation's own, and the model."""
    return {"provider": provider_id, "model": model}


def name_llm_manager(model: str) -> str:
    """Handle of the AI manager that is a model; it names no server."""
    return f"agent:llm:{model}"[:120]


def name_pair_rater(model: str) -> str:
    """Handle of that manager where it says which of two answers is better."""
    return f"agent:pairs:{model}"[:120]


class JudgeProbe(Stateful):
    """One probe of a judge, which is a model at a server, in a project.

    Attributes:
        provider: whose server; None: the installation's own. model: as the server knows it.
        version: of all that is asked (`core.scoring.judge_probes.find_probes_version`).
        answers: probe -> what was said of each item, as far as it was asked.
        figures: each as `ProbeFigure` has it, once it is done.
        verdict: above the bar, below it, or neither: too little was scored; "" until it is done.
        words: why it is below the bar.
        first: the probe whose scores the drift is measured from; None: this is the first of its version.
        failure: why it could not be done.
        asked_by: handle; of a monthly one the timetable's.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Could not be done"

    class Verdict(models.TextChoices):
        ABOVE = "above", "Above its bar"
        BELOW = "below", "Below its bar"
        UNSCORED = "unscored", "Unscored"

    MOVES: ClassVar = {
        State.QUEUED: frozenset({State.RUNNING, State.FAILED}),
        State.RUNNING: frozenset({State.DONE, State.FAILED}),
        State.DONE: frozenset(),
        State.FAILED: frozenset({State.RUNNING}),
    }
    EVENTS: ClassVar = {
        State.RUNNING: Kind.JUDGE_PROBE_STARTED,
        State.DONE: Kind.JUDGE_PROBE_FINISHED,
        State.FAILED: Kind.JUDGE_PROBE_FAILED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="judge_probes")
    provider = models.ForeignKey(Provider, models.PROTECT, null=True, blank=True, related_name="+")
    model = models.CharField(max_length=200)
    version = models.CharField(max_length=12)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    answers = models.JSONField(default=dict)
    figures = models.JSONField(default=list)
    verdict = models.CharField(max_length=16, choices=Verdict.choices, blank=True, default="")
    words = models.TextField(blank=True)
    first = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="+")
    failure = models.TextField(blank=True)
    asked_by = models.CharField(max_length=150)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["project", "model", "-id"], name="judge_probe_by_model")]
        constraints = [
            models.UniqueConstraint(
                fields=["project", "provider", "model"],
                condition=Q(state__in=["queued", "running"]),
                name="one_probe_of_a_judge_at_a_time",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(state="done") & ~Q(verdict="") | ~Q(state="done") & Q(verdict=""),
                name="a_probe_that_is_done_has_a_verdict",
            ),
        ]

    def __str__(self) -> str:
        return f"probe {self.pk} of {self.judge}"

    @property
    def judge(self) -> str:
        return name_judge(self.provider, self.model)
