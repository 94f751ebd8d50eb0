"""Ensembles."""

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import StrictSerializer, TextField, WholeNumberField
from apps.workers.models import Ensemble
from tentalis.core.field_limits import (
    ENSEMBLE_WAIT_S,
    MAX_ENSEMBLE_MEMBERS,
    MAX_ENSEMBLE_WAIT_S,
    MIN_ENSEMBLE_MEMBERS,
)

MEMBERS_HELP = (
    f"Names of {MIN_ENSEMBLE_MEMBERS} to {MAX_ENSEMBLE_MEMBERS} workers of the project, each asked at once; "
    "where their answers leave it open a lot decides for each conversation."
)
WAIT_HELP = (
    f"Seconds in which the others may answer once one of them has; who is later is left. Default: {ENSEMBLE_WAIT_S}."
)


class EnsembleOut(RowOut[Ensemble]):
    """Workers that the gateway asks together: one of their answers is given."""

    model = serializers.CharField(read_only=True, help_text="What callers of the gateway name it by: ensemble/NAME.")
    members = serializers.ListField(child=serializers.CharField(), read_only=True, help_text=MEMBERS_HELP)

    class Meta:
        model = Ensemble
        fields = "id project name model members wait_s created_at"


class EnsembleChange(StrictSerializer):
    """What of an ensemble can change."""

    members = serializers.ListField(child=TextField(max_length=300), required=False, help_text=MEMBERS_HELP)
    wait_s = WholeNumberField(required=False, min_value=1, max_value=MAX_ENSEMBLE_WAIT_S, help_text=WAIT_HELP)


class EnsembleIn(EnsembleChange):
    """A new ensemble."""

    project = TextField(max_length=64)
    name = TextField(max_length=64)
    members = serializers.ListField(child=TextField(max_length=300), help_text=MEMBERS_HELP)
