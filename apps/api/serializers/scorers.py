"""Trained step scorers."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.strict import StrictSerializer, TextField
from apps.scoring.models import RewardModel


class RewardModelOut(serializers.ModelSerializer[RewardModel]):
    """A trained step scorer.

    `measured`: its gate's numbers on held-out steps of known truth: `candidate` (its AUC) beside `reference` (the AUC
    of `against`), `difference` in [`low`, `high`], `items`. `words`: why it scores or was refused.
    """

    project = serializers.CharField(source="project.slug")
    worker = serializers.CharField(source="worker.name")
    run: Any = serializers.IntegerField(source="run_id")

    class Meta:
        model = RewardModel
        fields = [
            "id",
            "project",
            "worker",
            "name",
            "version",
            "state",
            "run",
            "sha256",
            "measured",
            "words",
            "created_at",
        ]


class RewardModelIn(StrictSerializer):
    """Train a step scorer now, on what is labelled."""

    project = TextField(max_length=64)
    worker = TextField(max_length=64)
    backend = serializers.ChoiceField(
        choices=["standalone", "openrlhf"], required=False, help_text="Default: standalone, the box itself."
    )
