"""New grades of what was answered before."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.serializers.rows import RowOut, may_know
from apps.api.serializers.strict import (
    AnyJSONField,
    NumberField,
    ObjectField,
    StrictSerializer,
    TextField,
    WholeNumberField,
    WordField,
)
from apps.regrading.models import Regrade, Regrading
from apps.regrading.rules import MAX_RUBRIC_CHARS


class RegradingOut(RowOut[Regrading]):
    """A set of new grades by one rule, beside the old ones. The rule is null for all but owners and managers."""

    rule = serializers.SerializerMethodField()
    graders = serializers.ListField(child=serializers.CharField(), help_text="Who graded, with versions.")
    counts = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Once it is done: higher, lower, same; gained and lost the good side; newly_scored, unscored.",
    )

    class Meta:
        model = Regrading
        fields = (
            "id project source evaluation worker rule graders side state planned graded unscored counts failure "
            "asked_by finished_at created_at"
        )

    @extend_schema_field(AnyJSONField(allow_null=True))
    def get_rule(self, row: Regrading) -> Any:
        return row.rule if may_know(self, row.project_id) else None


class RegradeOut(RowOut[Regrade]):
    """An answer's new grade beside the old one."""

    details = serializers.SerializerMethodField(help_text="What each check said; null for all but owners and managers.")

    class Meta:
        model = Regrade
        fields = "id subject_id old new cause details"

    @extend_schema_field(AnyJSONField(allow_null=True))
    def get_details(self, row: Regrade) -> Any:
        return row.details if may_know(self, row.regrading.project_id) else None


class RescoreIn(StrictSerializer):
    """What grades anew: one of grader, scorer, checks and rubric."""

    grader = TextField(max_length=120, required=False, help_text="Name, maybe @version, which must be installed.")
    options = ObjectField(required=False, help_text="Of the grader.")
    scorer = TextField(max_length=120, required=False)
    checks = AnyJSONField(required=False, help_text="A check, or a list of them.")
    rubric = TextField(max_length=MAX_RUBRIC_CHARS, required=False)
    constitution = TextField(max_length=MAX_RUBRIC_CHARS, required=False, help_text="With a rubric: for its judge.")
    side = NumberField(
        min_value=0.0001, max_value=1, default=0.5, help_text="An answer is on the good side from so much on."
    )


class RegradingIn(RescoreIn):
    """What is graded anew, and by what: one of grader, scorer, checks and rubric."""

    project = TextField(max_length=64)
    evaluation = WholeNumberField(min_value=1, max_value=2**62, required=False, help_text="A run; else a history.")
    history = WordField(
        choices=[one for one in Regrading.Source.choices if one[0] != Regrading.Source.RUN],
        default=Regrading.Source.ATTEMPTS.value,
        help_text="Of the project, where no run is named.",
    )
    worker = TextField(max_length=64, required=False, help_text="Of a history: whose; all workers' without.")
