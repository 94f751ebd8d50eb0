"""Evaluations, comparisons, experiments."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.serializers.returns import ComparisonOut
from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import StrictSerializer, TextField, TrueFalseField, WholeNumberField, WordField
from apps.evals.asking import MOST_DRAW, MOST_ITEMS, MOST_TRIES
from apps.evals.comparing import CONFIDENCE, EvaluationComparison
from apps.evals.experiments import MAX_NAME_CHARS, MOST_SCENARIOS
from apps.evals.models import Evaluation, Experiment, Item, ItemTry, Scenario


class EvaluationOut(RowOut[Evaluation]):
    """How one model did on a set of items."""

    low = serializers.FloatField(allow_null=True, help_text="Of the 95 % interval of the mean outcome.")
    high = serializers.FloatField(allow_null=True)

    class Meta:
        model = Evaluation
        fields = (
            "id project worker adapter purpose item_set item_set_hash taskset split benchmark tries is_greedy scale "
            "seed state planned played unscored items mean_outcome mean_step_score low high failure asked_by "
            "finished_at created_at"
        )


class ItemTryOut(RowOut[ItemTry]):
    """One try at an item."""

    class Meta:
        model = ItemTry
        fields = "id place number outcome step_score cause reason grader"


class PassesOut(serializers.Serializer[Any]):
    """Of k tries at an item."""

    k = serializers.IntegerField()
    items = serializers.IntegerField(help_text="That have as many outcomes.")
    any = serializers.FloatField(help_text="pass@k: at least one of k is right in full, estimated without bias.")
    all = serializers.FloatField(help_text="pass^k: all of k are.")


class EvaluationFiguresOut(serializers.Serializer[Any]):
    """What an evaluation's tries say so far."""

    items = serializers.IntegerField(help_text="With an outcome.")
    tries = serializers.IntegerField(help_text="With an outcome.")
    mean = serializers.FloatField(allow_null=True, help_text="Of the items' mean outcomes, as each weighs.")
    std_error = serializers.FloatField(allow_null=True, help_text="Of that; the tries of an item are one cluster.")
    lowest = serializers.FloatField(allow_null=True, help_text="The mean if all that is unscored were wrong.")
    highest = serializers.FloatField(allow_null=True, help_text="The mean if all that is unscored were right.")
    passes = PassesOut(many=True)
    causes = serializers.DictField(
        child=serializers.IntegerField(), help_text="Why there is no outcome, and of how many tries."
    )


class EvaluationIn(StrictSerializer):
    """What is to be measured, on what."""

    project = TextField(max_length=64)
    worker = TextField(max_length=64)
    adapter = TextField(max_length=200, required=False, help_text="By name; the base model where there is none.")
    taskset = WholeNumberField(min_value=1, max_value=2**62, required=False, help_text="A version of a taskset.")
    split = WordField(choices=Item.Split.choices, default=Item.Split.HELD_OUT.value)
    benchmark = WholeNumberField(
        min_value=1, max_value=2**62, required=False, help_text="Instead of a taskset: a project's benchmark."
    )
    environment = TextField(
        max_length=64, required=False, help_text="Instead of a taskset: one that makes held-out tasks up."
    )
    size = WholeNumberField(min_value=1, max_value=MOST_ITEMS, default=100, help_text="Tasks that it makes up.")
    draw = WholeNumberField(min_value=0, max_value=MOST_DRAW, default=0, help_text="Another one makes up others.")
    tries = WholeNumberField(
        min_value=1,
        max_value=MOST_TRIES,
        required=False,
        help_text="Of each item; a benchmark says how many, else one.",
    )
    is_greedy = TrueFalseField(default=False, help_text="The likeliest answers instead of sampled ones.")
    seed = WholeNumberField(min_value=0, max_value=MOST_DRAW, default=0, help_text="Another one gives other answers.")


class PairedOut(ComparisonOut):
    """The first minus the second on the same items, with its interval."""

    effect = serializers.FloatField(help_text="The smallest true difference that so many items show, 4 times in 5.")
    p = serializers.FloatField(
        help_text="Chance of such a difference where there is none, corrected for all asked together."
    )


class EvaluationComparisonOut(serializers.Serializer[Any]):
    """Two evaluations, paired by item; several tries of an item count as one."""

    a = serializers.IntegerField()
    b = serializers.IntegerField()
    outcomes = PairedOut()
    step_scores = PairedOut(allow_null=True, help_text="null: no steps were scored.")


class ScenarioIn(StrictSerializer):
    """A question: is one evaluation's model better than the other's, on the same items?"""

    scenario = TextField(max_length=MAX_NAME_CHARS, help_text="Its name.")
    candidate = WholeNumberField(min_value=1, max_value=2**62, help_text="The evaluation in question.")
    reference = WholeNumberField(min_value=1, max_value=2**62, help_text="What it is compared with.")


class ExperimentIn(StrictSerializer):
    """Questions that are asked together."""

    project = TextField(max_length=64)
    experiment = TextField(max_length=MAX_NAME_CHARS, help_text="Its name.")
    scenarios = serializers.ListField(child=ScenarioIn(), min_length=1, max_length=MOST_SCENARIOS)


class ExperimentOut(RowOut[Experiment]):
    """Questions that were asked together. What they were answered is under `scenarios`."""

    settings: Any = serializers.SerializerMethodField(help_text="Confidence of the intervals.")
    findings = serializers.SerializerMethodField(help_text="Questions, and how many of them are measured.")
    failure = serializers.CharField(help_text="Why some of it was not measured.")
    finished_at = serializers.DateTimeField(allow_null=True)

    class Meta:
        model = Experiment
        fields = "id project experiment settings findings failure asked_by finished_at created_at"

    def get_settings(self, row: Experiment) -> dict[str, float]:
        return {"confidence": CONFIDENCE}

    def get_findings(self, row: Experiment) -> dict[str, int]:
        done = Evaluation.State.DONE
        measured = sum(one.candidate.state == done == one.reference.state for one in row.scenarios.all())
        return {"questions": len(row.scenarios.all()), "measured": measured}


class ScenarioDetailsOut(serializers.Serializer[Any]):
    """The numbers behind an answer; null without one, and why."""

    outcomes = PairedOut(allow_null=True)
    step_scores = PairedOut(allow_null=True)
    why = serializers.CharField()


class ScenarioOut(RowOut[Scenario]):
    """One question and its answer."""

    score = serializers.SerializerMethodField(help_text="Candidate minus reference, mean outcomes, in [-1, 1].")
    details = serializers.SerializerMethodField()

    class Meta:
        model = Scenario
        fields = "id scenario candidate reference score details"

    def get_score(self, row: Scenario) -> float | None:
        found: EvaluationComparison | str = self.context["answers"][row.pk]
        return None if isinstance(found, str) else found.outcomes.difference

    @extend_schema_field(ScenarioDetailsOut)
    def get_details(self, row: Scenario) -> Any:
        found: EvaluationComparison | str = self.context["answers"][row.pk]
        told = (
            {"outcomes": None, "step_scores": None, "why": found}
            if isinstance(found, str)
            else {**vars(found), "why": ""}
        )
        return ScenarioDetailsOut(told).data
