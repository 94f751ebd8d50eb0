"""Raters, and what was found when their words met the truth."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import Project
from apps.base.models import Timestamped
from apps.tasks.models import Attempt, Step
from tentalis.core.scoring.calibration import Confusion


class Rater(Timestamped):
    """Somebody or something whose judgement is compared with the truth, in one project.

    Attributes:
        handle: `user:alice`, `agent:rule-book`, `scorer:prm`: as feedback and audit name it.
        weight: how far it is trusted, in [0, 1]; an unknown one has 1.
        told_weight: the weight the audit last told of.
        standing: what the weight is made of (`core.scoring.calibration.Standing`).
        bad, false_approvals: items that entered the weight since `counted_from` and were bad, and how many of them it
            approved; good, false_rejections: likewise the good ones it rejected.
        sittings: feedbacks those items came in.
        counted_from: what was compared before does not count any more: it was reinstated then.
        drifted_at: when the drift detector last rang.
        quarantined_at: since when its word is not used; None: it is.
        quarantined_by: the person who decided that, with `quarantine_reason`, and until a person reinstates it; "":
            its errors did.
        rubric: weights in use of a rubric manager, {"of": hash of the rubric as it was written, "weights": {item: w}};
            {}: those it was written with.
        adapter: what a manager that is a language model judges by, {"name", "uri", "sha256"}; {}: its model as it is.
        gate: factor on its weight, in [0, 1], that its own learning allows it; None where it does not learn.
    """

    class Kind(models.TextChoices):
        PERSON = "person", "A person"
        AI = "ai", "An AI manager"
        SCORER = "scorer", "A judging scorer"

    project = models.ForeignKey(Project, models.CASCADE, related_name="raters")
    handle = models.CharField(max_length=120)
    kind = models.CharField(max_length=8, choices=Kind.choices)
    weight = models.FloatField(default=1.0)
    told_weight = models.FloatField(default=1.0)
    standing = models.JSONField(default=dict)
    bad = models.PositiveIntegerField(default=0)
    false_approvals = models.PositiveIntegerField(default=0)
    good = models.PositiveIntegerField(default=0)
    false_rejections = models.PositiveIntegerField(default=0)
    sittings = models.PositiveIntegerField(default=0)
    counted_from = models.DateTimeField(null=True, blank=True)
    drifted_at = models.DateTimeField(null=True, blank=True)
    quarantined_at = models.DateTimeField(null=True, blank=True)
    rubric = models.JSONField(default=dict, db_default={}, blank=True)
    adapter = models.JSONField(default=dict, db_default={}, blank=True)
    gate = models.FloatField(null=True, blank=True)
    quarantined_by = models.CharField(max_length=120, blank=True, default="", db_default="")
    quarantine_reason = models.CharField(max_length=300, blank=True, default="", db_default="")
    reinstated_by = models.CharField(max_length=120, blank=True)
    reinstate_reason = models.CharField(max_length=300, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["handle"]
        constraints = [
            models.UniqueConstraint(fields=["project", "handle"], name="one_rater_per_handle"),
            models.CheckConstraint(condition=Q(weight__gte=0, weight__lte=1), name="rater_weight_is_0_to_1"),
            models.CheckConstraint(
                condition=Q(gate__isnull=True) | Q(gate__gte=0, gate__lte=1), name="rater_gate_is_0_to_1"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.handle} at {self.weight:.2f}"

    @property
    def audited(self) -> int:
        return self.bad + self.good

    @property
    def errors(self) -> int:
        return self.false_approvals + self.false_rejections

    @property
    def confusion(self) -> Confusion:
        return Confusion(
            true_approvals=self.good - self.false_rejections,
            false_approvals=self.false_approvals,
            true_rejections=self.bad - self.false_approvals,
            false_rejections=self.false_rejections,
        )


class Comparison(models.Model):
    """One judgement beside the truth, or beside another's judgement (`peer`). Written once, whatever is replayed.

    Attributes:
        step: None: the attempt as a whole.
        said, truth: scores in [0, 1].
        against: handle of who said `truth`, where that is somebody.
        counts: it entered the rater's weight.
        at: when, the same for all of one sitting.
    """

    class Source(models.TextChoices):
        VERIFIED = "verified", "Verified by the world"
        GOLD = "gold", "Known answer"
        HUMAN = "human", "A person's word"
        PEER = "peer", "Another's word on the same"

    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    rater = models.ForeignKey(Rater, models.CASCADE, related_name="comparisons", db_index=False)
    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="+")
    step = models.ForeignKey(Step, models.CASCADE, null=True, blank=True, related_name="+")
    said = models.FloatField()
    truth = models.FloatField()
    source = models.CharField(max_length=8, choices=Source.choices)
    against = models.CharField(max_length=120, blank=True, db_default="")
    counts = models.BooleanField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["rater", "attempt", "step", "source", "against"],
                name="one_comparison_per_item",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(said__gte=0, said__lte=1, truth__gte=0, truth__lte=1), name="comparison_is_0_to_1"
            ),
        ]
        indexes = [
            models.Index(fields=["rater", "-id"], name="comparison_by_rater"),
            models.Index(fields=["project", "-id"], condition=Q(source="peer"), name="comparison_of_peers"),
            models.Index(fields=["project", "-id"], condition=Q(source="human"), name="comparison_with_people"),
        ]

    def __str__(self) -> str:
        return f"{self.said:.2f} against {self.truth:.2f} ({self.source})"


class FavourScreen(Timestamped):
    """The last look for reviewers of a project who favour a worker or adapter (`core.scoring.favour`).

    Attributes:
        screened_at: when.
        raters, lines: that could be held beside others.
        reason: why nothing can be told; "" where it can.
        groups: what was found: [{"key", "line", "raters", "p", "tasks", "share", "expected", "known_right",
            "known_items", "cleared", "examples": ids of tasks, "found_at", "dismissed_by", "dismiss_reason"}].
    """

    project = models.OneToOneField(Project, models.CASCADE, related_name="favour_screen")
    screened_at = models.DateTimeField()
    raters = models.PositiveIntegerField(default=0)
    lines = models.PositiveIntegerField(default=0)
    reason = models.CharField(max_length=300, blank=True)
    groups = models.JSONField(default=list)

    class Meta:
        indexes = [models.Index(fields=["screened_at"], name="favour_screen_oldest")]

    def __str__(self) -> str:
        return f"favour screen of {self.project_id}: {len(self.groups)} groups"
