"""Data sets, and what models do on them."""

from django.db import models

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.base.models import Timestamped


class Dataset(Timestamped):
    """A named, hashed set of items."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="datasets")
    name = models.SlugField(max_length=100)
    uri = models.CharField(max_length=1000)
    sha256 = models.CharField(max_length=64)
    size = models.PositiveIntegerField(help_text="Items.")
    about = models.TextField(blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="dataset_name_is_unique")]

    def __str__(self) -> str:
        return self.name


class EvalRun(Timestamped):
    """One benchmark run of one model."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="eval_runs")
    benchmark = models.CharField(max_length=100)
    dataset = models.ForeignKey(Dataset, models.PROTECT, null=True, blank=True, related_name="eval_runs")
    adapter = models.ForeignKey(Adapter, models.SET_NULL, null=True, blank=True, related_name="eval_runs")
    settings = models.JSONField(default=dict)
    metrics = models.JSONField(default=dict)
    failure = models.TextField(blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.benchmark} of {self.adapter or 'base'}"


class EvalResult(models.Model):
    """One item's result in a benchmark run."""

    run = models.ForeignKey(EvalRun, models.CASCADE, related_name="results")
    item = models.CharField(max_length=200)
    score = models.FloatField(null=True)
    details = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "item"], name="one_result_per_item")]

    def __str__(self) -> str:
        return f"{self.item}: {self.score}"
