"""Evaluations, comparisons, experiments."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.serializers.returns import ComparisonOut
from apps.api.serializers.rows import TO_MANAGERS, RowOut, may_know
from apps.api.serializers.strict import (
    AnyJSONField,
    NumberField,
    StrictSerializer,
    TextField,
    TrueFalseField,
    WholeNumberField,
    WordField,
)
from apps.evals.asking import MOST_DRAW, MOST_ITEMS, MOST_TRIES
from apps.evals.comparing import CONFIDENCE, EvaluationComparison
from apps.evals.experiments import MAX_NAME_CHARS, MOST_SCENARIOS
from apps.evals.human_grades import MOST_DIFFERING
from apps.evals.importing import NOT_TRAINABLE
from apps.evals.limits import MOST_AT_ONCE, MOST_MINUTES, MOST_SECONDS, MOST_TOKENS, MOST_USD
from apps.evals.models import Evaluation, Experiment, HumanGrade, Item, ItemTry, RegressionCase, Scenario, TryRecord
from apps.tasks.references import read_reference
from tentalis.core.field_limits import MAX_COMMENT_CHARS, MAX_PROMPT_CHARS
from tentalis.core.packing import unpack_float32, unpack_int32
from tentalis.core.run_logs.reading import FORMS as RUN_FORMS
from tentalis.limits import LIMITS


class EvaluationOut(RowOut[Evaluation]):
    """How one model did on a set of items."""

    low = serializers.FloatField(allow_null=True, help_text="Of the 95 % interval of the mean outcome.")
    high = serializers.FloatField(allow_null=True)
    indices = serializers.ListField(
        child=serializers.IntegerField(), help_text="Places of its items in their split, from 0; none: the first ones."
    )
    limits = serializers.DictField(help_text="How much it may take.")
    made_with = serializers.DictField(
        help_text="Versions, hash of the code, prompt and sampling that it was made with."
    )
    seconds = serializers.FloatField(help_text="That it was at work.")

    class Meta:
        model = Evaluation
        fields = (
            "id project worker adapter purpose item_set item_set_hash taskset split benchmark indices tries is_greedy "
            "scale seed limits made_with replay_of state planned played unscored items mean_outcome mean_step_score "
            "low high seconds failure asked_by finished_at created_at"
        )


class ItemTryOut(RowOut[ItemTry]):
    """One try at an item. What nobody kept or knew of it is null."""

    cost_usd = serializers.FloatField(allow_null=True, help_text="Of its model; null: no price was known.")

    class Meta:
        model = ItemTry
        fields = (
            "id place number category outcome step_score cause reason grader prompt_tokens completion_tokens turns "
            "seconds cost_usd"
        )


class TryRecordOut(RowOut[TryRecord]):
    """All that came of a try."""

    steps = serializers.ListField(child=serializers.DictField())
    messages = serializers.ListField(
        child=serializers.DictField(), help_text="The whole conversation, with calls and what was said to them."
    )
    request = serializers.DictField(help_text="What the first turn was asked with beside the messages: tools.")
    sampling = serializers.DictField()
    verification = serializers.SerializerMethodField(help_text=f"What was verified; {TO_MANAGERS}")
    turn_tokens = serializers.ListField(
        child=serializers.IntegerField(), help_text="How many of the tokens each turn wrote; none where none are known."
    )
    token_ids = serializers.SerializerMethodField(help_text="What its model wrote, token for token.")
    logprobs = serializers.SerializerMethodField(help_text="Natural log, one for each token.")

    class Meta:
        model = TryRecord
        fields = (
            "text answer steps messages prompt_hash request sampling verification error served_by finish_reason "
            "turn_tokens cached_tokens token_ids logprobs"
        )

    @extend_schema_field(AnyJSONField(allow_null=True))
    def get_verification(self, record: TryRecord) -> Any:
        return record.verification if may_know(self, record.item_try.evaluation.project_id) else None

    def get_token_ids(self, record: TryRecord) -> list[int]:
        return unpack_int32(record.token_ids)

    def get_logprobs(self, record: TryRecord) -> list[float]:
        return unpack_float32(record.logprobs)


class HumanGradeIn(StrictSerializer):
    """How right a person finds an answer."""

    value = NumberField(min_value=0, max_value=1, help_text="From 0, wrong, to 1, right.")
    text = TextField(max_length=MAX_COMMENT_CHARS, required=False, help_text="A word on it.")


class HumanGradeOut(RowOut[HumanGrade]):
    """What a person says of an answer, beside the grade that it has."""

    class Meta:
        model = HumanGrade
        fields = "id item_try author value text created_at"


class RecordedTryOut(ItemTryOut):
    """One try at an item, and all that came of it."""

    human_grades = HumanGradeOut(many=True, help_text="What people say of it.")
    record = serializers.SerializerMethodField(help_text="null: nobody asked for the evaluation, or it was forgotten.")

    class Meta(ItemTryOut.Meta):
        fields = ItemTryOut.Meta.fields + " human_grades record"

    @extend_schema_field(TryRecordOut(allow_null=True))
    def get_record(self, row: ItemTry) -> Any:
        found = getattr(row, "record", None)
        return None if found is None else TryRecordOut(found, context=self.context).data


class GraderAgreementOut(serializers.Serializer[Any]):
    """One grader beside people; a grade of half or more approves an answer."""

    grader = serializers.CharField(allow_blank=True, help_text="Name and version; empty where none is known.")
    tries = serializers.IntegerField()
    grades = serializers.IntegerField(help_text="People's, of these tries.")
    agreed = serializers.FloatField(help_text="Share of them that are on the grader's side.")
    kappa = serializers.FloatField(source="kappa.value", allow_null=True, help_text="Cohen's.")
    reason = serializers.CharField(source="kappa.reason", allow_blank=True, help_text="Why there is no kappa.")
    interval = serializers.ListField(
        child=serializers.FloatField(), allow_null=True, help_text="Its 95 % interval, by bootstrap over tries."
    )


class DifferingGradeOut(serializers.Serializer[Any]):
    """A person and a grader on two sides of a try."""

    item_try = serializers.IntegerField(source="item_try.pk")
    place = serializers.IntegerField(source="item_try.place", help_text="Of the item, from 0.")
    number = serializers.IntegerField(source="item_try.number", help_text="Of the item's tries, from 0.")
    grader = serializers.CharField(source="item_try.grader", allow_blank=True)
    outcome = serializers.FloatField(source="item_try.outcome")
    author = serializers.CharField(source="grade.author")
    value = serializers.FloatField(source="grade.value")
    text = serializers.CharField(source="grade.text", allow_blank=True)


class HumanAgreementOut(serializers.Serializer[Any]):
    """How far the graders of a run and people agree."""

    graders = GraderAgreementOut(many=True)
    differ = serializers.IntegerField(help_text="Grades of people on the other side than the grader.")
    differing = DifferingGradeOut(many=True, help_text=f"The first {MOST_DIFFERING} of them.")
    uncompared = serializers.IntegerField(help_text="Grades of people on tries that have no outcome.")


MATCHES = [(match, match) for match in ("exact", "contains", "number")]


class RightAnswerIn(StrictSerializer):
    """What is right, where nothing else says it."""

    right = TextField(
        max_length=MAX_PROMPT_CHARS,
        required=False,
        help_text="A right answer, or what it holds; a JSON object is taken as a reference of the environment.",
    )
    match = WordField(
        choices=MATCHES,
        required=False,
        help_text="How an answer is right; default: number for a number, else contains.",
    )

    def validate(self, attrs: Any) -> Any:
        return {"reference": read_reference(attrs.get("right", ""), attrs.get("match", ""))}


class RegressionCaseOut(RowOut[RegressionCase]):
    """A correction that must hold from now on."""

    feedback = serializers.IntegerField(source="feedback_id", allow_null=True, help_text="That corrected the answer.")
    taskset = serializers.IntegerField(source="item.taskset_id")

    class Meta:
        model = RegressionCase
        fields = "id taskset item worker adapter feedback grade kept_by created_at"


class AskedEvaluationsOut(serializers.Serializer[Any]):
    """Evaluations that were asked for together."""

    results = EvaluationOut(many=True)


class InheritedCaseOut(serializers.Serializer[Any]):
    """A correction of an ancestor's answer, and whether it still holds."""

    id = serializers.IntegerField(source="case.pk")
    item = serializers.IntegerField(source="case.item_id")
    adapter = serializers.CharField(
        source="case.adapter.name",
        allow_null=True,
        default=None,
        help_text="Whose answer it was; null: the base model's.",
    )
    outcome = serializers.FloatField(allow_null=True, help_text="Of the adapter's own tries; null: not measured.")
    holds = serializers.BooleanField(allow_null=True)
    evaluation = serializers.IntegerField(source="evaluation_id", allow_null=True)


class InheritanceOut(serializers.Serializer[Any]):
    """Corrections of an adapter's ancestors, and the share of those measured that still hold."""

    cases = InheritedCaseOut(many=True)
    measured = serializers.IntegerField()
    held = serializers.IntegerField()
    share = serializers.FloatField(source="share.value", allow_null=True, default=None, help_text="null: not measured.")
    low = serializers.FloatField(source="share.low", allow_null=True, default=None, help_text="Wilson's, at 95 %.")
    high = serializers.FloatField(source="share.high", allow_null=True, default=None)


class PassesOut(serializers.Serializer[Any]):
    """Of k tries at an item."""

    k = serializers.IntegerField()
    items = serializers.IntegerField(help_text="That have as many outcomes.")
    any = serializers.FloatField(help_text="pass@k: at least one of k is right in full, estimated without bias.")
    all = serializers.FloatField(help_text="pass^k: all of k are.")


class SureMeanOut(serializers.Serializer[Any]):
    """A mean over items with its 95 % interval."""

    items = serializers.IntegerField(help_text="With an outcome.")
    value = serializers.FloatField()
    std_error = serializers.FloatField(allow_null=True, help_text="The tries of an item are one cluster.")
    low = serializers.FloatField()
    high = serializers.FloatField()


class CategoryFiguresOut(serializers.Serializer[Any]):
    """Figures of the items of one category."""

    category = serializers.CharField(allow_blank=True)
    accuracy = SureMeanOut(allow_null=True)
    mean = SureMeanOut(allow_null=True)


def _maybe(words: str = "") -> serializers.FloatField:
    return serializers.FloatField(allow_null=True, help_text=words or None)


class TakenOut(serializers.Serializer[Any]):
    """What the tries took; null where nobody kept or knew it."""

    tries = serializers.IntegerField(help_text="That kept it.")
    prompt_tokens = serializers.IntegerField(allow_null=True)
    completion_tokens = serializers.IntegerField(allow_null=True)
    tokens = _maybe("Mean that a try wrote.")
    turns = _maybe("Mean of a try.")
    most_turns = serializers.IntegerField(allow_null=True)
    cost_usd = _maybe("Of those tries with a known price.")
    priced = serializers.IntegerField(help_text="Tries with a known price.")
    seconds = _maybe("Mean of a try.")
    median_s = _maybe()
    p95_s = _maybe()
    length_correlation = _maybe("Between outcome and tokens written, in [-1, 1].")
    length_right = _maybe("Mean tokens of tries right in full.")
    length_wrong = _maybe("Mean tokens of the others.")


class FamilyFiguresOut(serializers.Serializer[Any]):
    """Of the questions under pressure of one family of scenarios; shares of those that are told."""

    family = serializers.CharField(allow_blank=True, help_text="Empty for all of them.")
    asked = serializers.IntegerField(help_text="Questions that were tried.")
    told = serializers.IntegerField(help_text="Of those, whose plain twins are right and whose answer is one or other.")
    honest = SureMeanOut(allow_null=True, help_text="Null where too few are told.")
    misaligned = SureMeanOut(allow_null=True)
    diverged = SureMeanOut(allow_null=True, help_text="Share of twins that are not answered alike.")
    words = serializers.CharField()


class AlignmentFiguresOut(serializers.Serializer[Any]):
    """Whether a model is honest where it is tempted."""

    whole = FamilyFiguresOut()
    families = FamilyFiguresOut(many=True)


class EvaluationFiguresOut(serializers.Serializer[Any]):
    """What an evaluation's tries say so far."""

    items = serializers.IntegerField(help_text="With an outcome.")
    tries = serializers.IntegerField(help_text="With an outcome.")
    mean = serializers.FloatField(allow_null=True, help_text="Of the items' mean outcomes, as each weighs.")
    std_error = serializers.FloatField(allow_null=True, help_text="Of that; the tries of an item are one cluster.")
    low = serializers.FloatField(allow_null=True, help_text="Of the mean's 95 % interval, over items.")
    high = serializers.FloatField(allow_null=True)
    accuracy = SureMeanOut(allow_null=True, help_text="Share of tries right in full; Wilson's interval.")
    lowest = serializers.FloatField(allow_null=True, help_text="The mean if all that is unscored were wrong.")
    highest = serializers.FloatField(allow_null=True, help_text="The mean if all that is unscored were right.")
    passes = PassesOut(many=True)
    causes = serializers.DictField(
        child=serializers.IntegerField(), help_text="Why there is no outcome, and of how many tries."
    )
    categories = CategoryFiguresOut(many=True, help_text="None where no item says what it is of.")
    taken = TakenOut()
    alignment = AlignmentFiguresOut(allow_null=True, help_text="Null where no scenarios of alignment were asked.")


class RunLimitsIn(StrictSerializer):
    """How much a run may take. Where a budget (tokens, money, minutes) is used, it pauses."""

    concurrency = WholeNumberField(min_value=1, max_value=MOST_AT_ONCE, required=False, help_text="Tries at one time.")
    timeout_s = NumberField(
        min_value=0.001, max_value=MOST_SECONDS, required=False, help_text="Of a try: a longer one has no outcome."
    )
    tokens = WholeNumberField(
        min_value=1, max_value=MOST_TOKENS, required=False, help_text="Asked with and written, of the whole run."
    )
    usd = NumberField(min_value=1e-6, max_value=MOST_USD, required=False, help_text="For the model that is measured.")
    minutes = NumberField(
        min_value=1e-3, max_value=MOST_MINUTES, required=False, help_text="At work, of the whole run."
    )


class RunFileIn(StrictSerializer):
    """A run that another tool made."""

    project = TextField(max_length=64)
    file = TextField(max_length=LIMITS.import_chars, help_text="Its bytes in base64.")
    name = TextField(max_length=200, required=False, help_text="Of the file; lm-eval's says the task.")
    form = WordField(required=False, choices=[(form, form) for form in RUN_FORMS], help_text="Default: as it looks.")
    score = TextField(
        max_length=100, required=False, help_text="Which grade counts where there are several; lm-eval: METRIC,FILTER."
    )
    results = TextField(
        max_length=LIMITS.import_chars, required=False, help_text="lm-eval's results file, which names the model."
    )
    worker = TextField(
        max_length=64, required=False, help_text="Whose answers these are; default: one that stands for its model."
    )
    adapter = TextField(max_length=200, required=False, help_text="Of that worker, by name.")
    grader = TextField(max_length=120, required=False, help_text="Grades it anew, beside the grades it had: NAME@V.")


class ImportedRunOut(serializers.Serializer[Any]):
    """A run that was taken in."""

    evaluation = EvaluationOut()
    regrading = serializers.IntegerField(
        source="regrading.pk", allow_null=True, default=None, help_text="Its new grades; null: nobody asked for any."
    )
    words = serializers.SerializerMethodField(help_text="What can be done with it, and what cannot.")

    def get_words(self, _made: Any) -> str:
        return NOT_TRAINABLE


class EvaluationGoOnIn(StrictSerializer):
    """A run that is asked for again: resumed or replayed."""

    limits = RunLimitsIn(required=False)


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
    limit = WholeNumberField(
        min_value=1, max_value=MOST_ITEMS, required=False, help_text="So many items of the taskset, the first ones."
    )
    indices = serializers.ListField(
        child=WholeNumberField(min_value=0, max_value=MOST_DRAW),
        required=False,
        max_length=MOST_ITEMS,
        help_text="Instead: these items, by their places in the split, from 0.",
    )
    limits = RunLimitsIn(required=False)


class PairedOut(ComparisonOut):
    """The first minus the second on the same items, with its interval."""

    effect = serializers.FloatField(
        allow_null=True,
        help_text="The smallest true difference that so many items show, 4 times in 5; null: they show none at all.",
    )
    p = serializers.FloatField(
        help_text="Chance of such a difference where there is none, corrected for all asked together."
    )
    verdict = serializers.ChoiceField(
        choices=["better", "worse", "no difference shown"], help_text="What p lets be said of the first."
    )


class ContaminationOut(serializers.Serializer[Any]):
    """What an adapter learnt of the items that it is measured on."""

    answers = serializers.IntegerField()
    measured = serializers.IntegerField()
    tasks = serializers.ListField(child=serializers.IntegerField())


class ConfoundsOut(serializers.Serializer[Any]):
    """What may mislead whoever reads a run's figures."""

    contamination = serializers.SerializerMethodField(
        help_text="Answers that its adapter learnt from, those of them that hold words of its items, and their tasks; "
        "null for the base model."
    )
    length_correlation = _maybe("Between outcome and tokens written, in [-1, 1].")
    words = serializers.ListField(child=serializers.CharField(), help_text="What is to be said of these.")

    @extend_schema_field(ContaminationOut(allow_null=True))
    def get_contamination(self, confounds: Any) -> Any:
        return None if confounds.leaks is None else ContaminationOut(confounds.leaks).data


class ComparedOut(serializers.Serializer[Any]):
    """One evaluation compared with another, among several that are asked together."""

    a = serializers.IntegerField()
    b = serializers.IntegerField()
    outcomes = PairedOut(allow_null=True)
    step_scores = PairedOut(allow_null=True)
    why = serializers.CharField(help_text="Why there is no answer.")
    length = serializers.CharField(help_text="What their lengths say; empty: nothing.")


class ComparedTogetherOut(serializers.Serializer[Any]):
    """One evaluation compared with several, each p corrected for all of them."""

    results = ComparedOut(many=True)


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
