"""Scores of steps and attempts, and the reward models that were trained to give them."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.base.models import Stateful, Timestamped
from apps.tasks.models import Attempt, Step
from apps.workers.models import Worker


class StepScore(Timestamped):
    """What one scorer said of a step, or of a whole attempt (`step` empty). `score` None: unscored, for `reason`.

    Attributes:
        spread: how far the votes lay apart, in [0, 1]; None for scorers that do not vote.
        details: votes, invalid votes and why.
    """

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="step_scores")
    step = models.ForeignKey(Step, models.CASCADE, null=True, blank=True, related_name="scores")
    scorer = models.CharField(max_length=64)
    score = models.FloatField(null=True)
    reason = models.TextField(blank=True)
    spread = models.FloatField(null=True)
    details = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "step", "scorer"], name="one_score_per_scorer", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=Q(score__gte=0, score__lte=1) | (Q(score__isnull=True) & ~Q(reason="")),
                name="a_score_is_0_to_1_or_has_a_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scorer}: {'unscored' if self.score is None else round(self.score, 3)}"


class StepLabel(Timestamped):
    """What was found out about one step, for a reward model to learn or to be tested on.

    Attributes:
        value: in [0, 1]. monte_carlo: 1 where any completion from the step's end reached the verified outcome;
            verified: what the world says of the step.
        details: {"completions": k, "reached": n} of monte_carlo.
    """

    class Source(models.TextChoices):
        MONTE_CARLO = "monte_carlo", "Completions from its end"
        VERIFIED = "verified", "Verified by the world"

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="step_labels")
    step = models.ForeignKey(Step, models.CASCADE, related_name="labels")
    source = models.CharField(max_length=16, choices=Source.choices)
    value = models.FloatField()
    details = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "source"], name="one_label_per_source"),
            models.CheckConstraint(condition=Q(value__gte=0, value__lte=1), name="step_label_is_0_to_1"),
        ]

    def __str__(self) -> str:
        return f"{self.source} of step {self.step_id}: {self.value:g}"


class RewardModel(Stateful):
    """A trained step scorer: a head on the hidden states of a worker's base model, immutable, one version a training.

    Attributes:
        name: what the engine knows it by.
        run_id: the training run it came from (the row lives on a higher floor).
        sha256: of the manifest file, which holds the hash of every other file.
        words: what its gate found, in words.
        measured: the gate's numbers: {"candidate", "reference", "difference", "low", "high", "items", "against", …}.
        barred: why it may never score again, whoever asks; "" while it may.
    """

    class State(models.TextChoices):
        CANDIDATE = "candidate", "Candidate"
        LIVE = "live", "Scores steps"
        RETIRED = "retired", "Retired"
        REFUSED = "refused", "Refused"

    MOVES: ClassVar = {
        State.CANDIDATE: frozenset({State.LIVE, State.REFUSED}),
        State.LIVE: frozenset({State.RETIRED}),
        State.RETIRED: frozenset({State.LIVE}),
        State.REFUSED: frozenset({State.CANDIDATE}),  # only where it could not be judged
    }
    EVENTS: ClassVar = {
        State.CANDIDATE: Kind.REWARD_MODEL_REPLAYED,
        State.LIVE: Kind.REWARD_MODEL_LIVE,
        State.RETIRED: Kind.REWARD_MODEL_RETIRED,
        State.REFUSED: Kind.REWARD_MODEL_REFUSED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="reward_models")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="reward_models")
    name = models.CharField(max_length=200, unique=True)
    version = models.PositiveIntegerField()
    run_id = models.BigIntegerField(unique=True)
    uri = models.CharField(max_length=1000)
    sha256 = models.CharField(max_length=64)
    manifest = models.JSONField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.CANDIDATE)
    words = models.CharField(max_length=500, blank=True, default="")
    measured = models.JSONField(default=dict)
    barred = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["worker", "version"], name="reward_model_version_is_unique"),
            models.UniqueConstraint(
                fields=["worker"], condition=Q(state="live"), name="one_live_reward_model_per_worker"
            ),
        ]
        indexes = [models.Index(fields=["project", "-id"], name="reward_model_by_project")]

    def __str__(self) -> str:
        return self.name

    @property
    def rater(self) -> str:
        """Its handle in the calibration tables; every version starts with a standing of its own."""
        return f"scorer:prm@{self.worker.name}-v{self.version}"[:120]
