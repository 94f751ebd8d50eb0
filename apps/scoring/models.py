"""Scores of steps and attempts, and the judges that give them."""

from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.base.models import Timestamped
from apps.inference.models import Provider
from apps.tasks.models import Attempt, Step


class Judge(Timestamped):
    """A model that scores, by votes."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="judges")
    name = models.SlugField(max_length=64)
    provider = models.ForeignKey(Provider, models.PROTECT, related_name="+")
    model = models.CharField(max_length=200)
    votes = models.PositiveSmallIntegerField(default=3)
    trust = models.FloatField(default=1.0, help_text="Weight of its word, in [0, 1].")
    is_active = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="judge_name_is_unique"),
            models.CheckConstraint(condition=Q(votes__gte=1, votes__lte=25), name="judge_votes_are_1_to_25"),
            models.CheckConstraint(condition=Q(trust__gte=0, trust__lte=1), name="judge_trust_is_0_to_1"),
        ]

    def __str__(self) -> str:
        return self.name


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
