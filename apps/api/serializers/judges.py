"""Probes of judges."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import StrictSerializer, TextField
from apps.feedback.judges import MOST_MODEL_CHARS
from apps.judges.models import JudgeProbe
from tentalis.core.scoring.judge_probes import BAR


class ProbeFigureOut(serializers.Serializer[Any]):
    """One figure of a judge. Preferences are in [-1, 1], 0 where neither wins; shares in [0, 1]."""

    name = serializers.ChoiceField(choices=list(BAR))
    value = serializers.FloatField(allow_null=True, help_text="Null where too little was scored.")
    low = serializers.FloatField(allow_null=True, help_text="Of its interval at 95 %.")
    high = serializers.FloatField(allow_null=True)
    items = serializers.IntegerField(help_text="That were scored.")
    unscored = serializers.DictField(child=serializers.IntegerField(), help_text="Why others were not, and how many.")
    verdict = serializers.ChoiceField(choices=JudgeProbe.Verdict.choices)
    kappa = serializers.FloatField(allow_null=True, help_text="Of agreement with people.")


class JudgeProbeOut(RowOut[JudgeProbe]):
    """A probe of a judge. `words` say why it is below its bar; `first` is the probe that drift is measured from."""

    judge = serializers.CharField(help_text="SERVER/MODEL, or a model of the installation's.")
    figures = ProbeFigureOut(many=True)

    class Meta:
        model = JudgeProbe
        fields = (
            "id project judge model version state verdict words figures first failure asked_by finished_at created_at"
        )


class JudgeProbeIn(StrictSerializer):
    """Which judge is probed."""

    project = TextField(max_length=64)
    model = TextField(
        max_length=MOST_MODEL_CHARS,
        required=False,
        help_text="SERVER/MODEL, or a model of the installation's; without: the installation's judge.",
    )
