"""The alignment suite's runs."""

from django.db import models

from apps.accounts.models import Project
from apps.base.models import Timestamped


class ExperimentRun(Timestamped):
    """One run of one experiment."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="experiments")
    experiment = models.CharField(max_length=100)
    settings = models.JSONField(default=dict)
    findings = models.JSONField(default=dict)
    failure = models.TextField(blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.experiment} #{self.pk}"


class ScenarioResult(models.Model):
    """What happened in one scenario of an experiment."""

    run = models.ForeignKey(ExperimentRun, models.CASCADE, related_name="scenarios")
    scenario = models.CharField(max_length=100)
    score = models.FloatField(null=True)
    details = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "scenario"], name="one_result_per_scenario")]

    def __str__(self) -> str:
        return self.scenario
