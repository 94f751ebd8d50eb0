"""Reviews and feedback."""

import re
from functools import cached_property
from typing import Any, get_args

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.serializers.learning import UseOut
from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import (
    NumberField,
    ObjectField,
    RegisteredField,
    StrictSerializer,
    TextField,
    TrueFalseField,
    WholeNumberField,
    WordField,
)
from apps.feedback.drafts import MAX_DRAFT_BYTES
from apps.feedback.judgement import MAX_ACTIVE_S, MAX_SPANS
from apps.feedback.models import Feedback, GoldItem, Review, ReviewDraft
from apps.feedback.queue import CHOICES, MAX_FILTER_CHARS, PURPOSES
from apps.feedback.set_aside import Trust
from apps.feedback.skip import Then
from apps.training.provenance import trace_feedback
from apps.worlds.registry import name_choices
from tentalis.core.checked import rule_of
from tentalis.core.field_limits import (
    MAX_APPEAL_CHARS,
    MAX_COMMENT_CHARS,
    MAX_JUDGEMENT_CHARS,
    MAX_REASON_CHARS,
    MAX_STEPS_SPOKEN_OF,
)
from tentalis.core.hints import MAX_HINT_CHARS
from tentalis.core.review_policy import ReviewPolicy

INDEX = re.compile("[0-9]|[1-5][0-9]|6[0-3]")
SAYING = (
    "score",
    "text",
    "steps",
    "preferred_attempt",
    "ranking",
    "none_good",
    "edited_answer",
    "hint_text",
)


class ReviewOut(RowOut[Review]):
    """A place for one manager's judgement of a task."""

    purpose = serializers.ChoiceField(
        source="shown_purpose",
        choices=PURPOSES,
        help_text="The work itself, a blind second opinion, an appeal, or which of two answers is better.",
    )
    about = serializers.IntegerField(
        source="about_id", allow_null=True, default=None, help_text="The feedback an appeal disputes."
    )
    priority = serializers.FloatField(help_text="How much is learned from judging it, in [0, 1].")

    class Meta:
        model = Review
        fields = (
            "id project task audience purpose about reason state priority assigned_to needs_expert snoozed_until "
            "claimed_by lease_until due_at closed_at created_at"
        )


class ClaimIn(StrictSerializer):
    """From which project the next open review is wanted, and which: by the filters of the list."""

    project = TextField(max_length=64)
    environment = RegisteredField(name_choices, required=False)
    worker = TextField(required=False, max_length=MAX_FILTER_CHARS, help_text="Name of the worker that did the task.")
    purpose = WordField(required=False, choices=CHOICES["purpose"])
    due = WordField(required=False, choices=CHOICES["due"])
    min_priority = NumberField(required=False, min_value=0, max_value=1)


class SkipIn(StrictSerializer):
    """Why a review is passed over, and what then.

    `nobody`: it is closed and the task goes on without it. `later`: it comes to you again in an hour, or when nothing
    else is left. `others`: it goes back to the queue and does not come to you again. `expert`: managers get it.
    """

    reason = TextField(max_length=MAX_REASON_CHARS)
    then = WordField(required=False, choices=get_args(Then), help_text="Default: nobody.")


class AssignIn(StrictSerializer):
    """Whose a review is; null: anyone's."""

    to = TextField(max_length=150, allow_null=True, help_text="User name.")


class ReasonIn(StrictSerializer):
    """Why."""

    reason = TextField(max_length=MAX_REASON_CHARS)


class AppealIn(StrictSerializer):
    """Why a judgement is held for wrong."""

    reason = TextField(max_length=MAX_APPEAL_CHARS)


class DraftIn(StrictSerializer):
    """What is typed so far; `version` is that of the draft it was made from, 0 for none."""

    version = WholeNumberField(min_value=0, max_value=2**31 - 2)
    data = ObjectField(max_bytes=MAX_DRAFT_BYTES)  # type: ignore[assignment]  # a field, not the property


class DraftOut(RowOut[ReviewDraft]):
    """What you typed into a review and have not sent."""

    data = serializers.DictField()  # type: ignore[assignment]  # a field, not the property

    class Meta:
        model = ReviewDraft
        fields = "review version data updated_at"


class StepWordOut(serializers.Serializer[Any]):
    """A manager's word on one step, or on an attempt as a whole (no index)."""

    attempt = serializers.IntegerField(source="attempt.index", help_text="Place in the group, from 0.")
    index = serializers.IntegerField(source="step.index", allow_null=True, default=None)
    score = serializers.FloatField(allow_null=True)
    comment = serializers.CharField()
    spans = serializers.ListField(child=serializers.ListField(), help_text="[start, end, label] in the step's text.")


class FeedbackOut(RowOut[Feedback]):
    """What a manager said of a task."""

    preferred_attempt = serializers.IntegerField(source="preferred_attempt.index", allow_null=True, default=None)
    steps = StepWordOut(many=True)
    withheld = serializers.SerializerMethodField(
        help_text='Why it does not count: the judge that said it, or its hint, is below its bar. "": it counts.'
    )

    class Meta:
        model = Feedback
        fields = (
            "id project task review source author score text steps preferred_attempt ranking none_good edited_answer "
            "hint_text trust active_s undo_until retracted_at retracted_by retract_reason withheld "
            "created_at"
        )

    @cached_property
    def _trusts(self) -> dict[int, Trust]:
        """By project, each read once for all that is shown."""
        return {}

    def get_withheld(self, feedback: Feedback) -> str:
        return self._trusts.setdefault(feedback.project_id, Trust(feedback.project_id)).silence(feedback, of_hint=True)


class FeedbackDetailOut(FeedbackOut):
    """What a manager said of a task, and everything that learns from it."""

    uses = serializers.SerializerMethodField()

    class Meta(FeedbackOut.Meta):
        fields = FeedbackOut.Meta.fields + " uses"

    @extend_schema_field(UseOut(many=True))
    def get_uses(self, feedback: Feedback) -> list[dict[str, Any]]:
        return list(UseOut(trace_feedback([feedback])[feedback.pk], many=True).data)


class EffectOut(serializers.Serializer[Any]):
    """A feedback that was retracted, and what it had done by then."""

    feedback = FeedbackOut()
    effect = serializers.CharField()


class SpanField(serializers.ListField):
    """[start, end, label]: a marked stretch of a step's text, in characters."""

    def to_internal_value(self, data: Any) -> list[Any]:
        if not isinstance(data, list) or len(data) != 3 or not isinstance(data[2], str):
            raise serializers.ValidationError("wanted [start, end, label]")
        if not all(type(place) is int and 0 <= place < 2**31 for place in data[:2]):
            raise serializers.ValidationError("wanted [start, end, label], start and end whole numbers")
        return data


class StepWordIn(StrictSerializer):
    """A word on one step, or on an attempt as a whole (`index` null or left out)."""

    attempt = WholeNumberField(required=False, min_value=0, max_value=63, help_text="Place in the group; default 0.")
    index = WholeNumberField(required=False, allow_null=True, min_value=0, max_value=32_767)
    score = NumberField(required=False, allow_null=True, min_value=0, max_value=1)
    comment = TextField(required=False, allow_blank=True, max_length=MAX_COMMENT_CHARS)
    spans = serializers.ListField(child=SpanField(), required=False, max_length=MAX_SPANS)


class FeedbackIn(StrictSerializer):
    """A manager's judgement: any of these, at least one."""

    score = NumberField(required=False, allow_null=True, min_value=0, max_value=1)
    text = TextField(required=False, allow_blank=True, max_length=MAX_JUDGEMENT_CHARS)
    steps = serializers.ListField(child=StepWordIn(), required=False, max_length=MAX_STEPS_SPOKEN_OF)
    preferred_attempt = WholeNumberField(required=False, allow_null=True, min_value=0, max_value=63)
    ranking = serializers.ListField(
        child=serializers.ListField(child=WholeNumberField(min_value=0, max_value=63), max_length=64),
        required=False,
        max_length=64,
        help_text="Every attempt with an answer, from best to worst, equals together: [[2], [0, 1]].",
    )
    none_good = TrueFalseField(required=False, help_text="Even the best attempt is not good enough.")
    edited_answer = TextField(required=False, allow_blank=True, max_length=MAX_JUDGEMENT_CHARS)
    hint_text = TextField(
        required=False,
        allow_blank=True,
        max_length=MAX_HINT_CHARS,
        help_text="What the agent is taught, in your words.",
    )
    shown_order = serializers.ListField(
        child=WholeNumberField(min_value=0, max_value=63), required=False, max_length=64
    )
    active_s = NumberField(required=False, allow_null=True, min_value=0, max_value=MAX_ACTIVE_S)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        told = [attrs.get(name) for name in SAYING]
        if all(value is False or value in (None, "", []) for value in told):
            raise serializers.ValidationError(f"wanted at least one of {', '.join(SAYING)}; found none")
        return attrs


class ReviewFeedbackIn(FeedbackIn):
    """A manager's judgement in a review."""

    undo_s = NumberField(
        required=False,
        min_value=0,
        max_value=rule_of(ReviewPolicy, "undo_s").high,
        help_text="For so long you may undo it. Default: 0.",
    )


class TaskFeedbackIn(FeedbackIn):
    """A judgement of a task that nobody asked for."""

    task = WholeNumberField(min_value=1)


class GoldOut(RowOut[GoldItem]):
    """A control item: a task whose right judgement is known, handed out among the others."""

    expected = serializers.DictField(help_text='{"score": 0..1 or null, "attempts": {"<index>": 0..1}}')
    judged = serializers.IntegerField(help_text="How often it was judged as a control item.")
    compared = serializers.IntegerField(help_text="Words on its attempts that were held against what is known.")
    right = serializers.IntegerField(help_text="Of those, how many approve or reject as is known.")

    class Meta:
        model = GoldItem
        fields = "id project task truth expected added_by judged compared right created_at"


class ExpectedIn(StrictSerializer):
    """The right judgement."""

    score = NumberField(required=False, allow_null=True, min_value=0, max_value=1)
    attempts = serializers.DictField(
        child=NumberField(min_value=0, max_value=1), required=False, help_text='By place in the group: {"0": 1}.'
    )

    def validate_attempts(self, value: dict[str, float]) -> dict[int, float]:
        if wrong := [key for key in value if not INDEX.fullmatch(key)]:
            raise serializers.ValidationError(f"wanted attempts' places from 0 to 63, found {wrong[0][:40]!r}")
        return {int(key): score for key, score in value.items()}


class GoldIn(StrictSerializer):
    """A task to hand out as a control item, and what is known of it: with neither, what was verified of its answers."""

    task = WholeNumberField(min_value=1)
    feedback = WholeNumberField(
        required=False, min_value=1, help_text="A judgement of the task that is taken for the truth."
    )
    expected = ExpectedIn(required=False, help_text="The right judgement, where you know it.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if {"feedback", "expected"} <= set(attrs):
            raise serializers.ValidationError({"expected": ["wanted feedback or expected, found both"]})
        return attrs
