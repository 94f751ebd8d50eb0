"""Trained step scorers."""

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import StrictSerializer, TextField
from apps.scoring.models import RewardModel
from apps.training.scorers import BACKENDS


class RewardModelOut(RowOut[RewardModel]):
    """A trained step scorer.

    `measured`: its gate's numbers on held-out steps of known truth: `candidate` (its AUC) beside `reference` (the AUC
    of `against`), `difference` in [`low`, `high`], `items`. `words`: why it scores or was refused.
    """

    class Meta:
        model = RewardModel
        fields = "id project worker name version state run sha256 measured words created_at"


class RewardModelIn(StrictSerializer):
    """Train a step scorer now, on what is labelled."""

    project = TextField(max_length=64)
    worker = TextField(max_length=64)
    backend = serializers.ChoiceField(
        choices=BACKENDS, required=False, help_text="Default: standalone, the box itself."
    )
