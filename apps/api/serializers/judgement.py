"""Reviews and feedback."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.strict import NumberField, StrictSerializer, TextField, WholeNumberField
from apps.feedback.models import Feedback, Review

MAX_WORDS_CHARS = 20_000
MAX_COMMENT_CHARS = 4_000
MAX_STEPS = 2_000


class ReviewOut(serializers.ModelSerializer[Review]):
    """A place for one manager's judgement of a task."""

    project = serializers.CharField(source="project.slug")
    task = serializers.IntegerField(source="task_id")
    claimed_by = serializers.CharField(source="claimed_by.username", allow_null=True, default=None)

    class Meta:
        model = Review
        fields = [
            "id",
            "project",
            "task",
            "audience",
            "reason",
            "state",
            "claimed_by",
            "lease_until",
            "due_at",
            "closed_at",
            "created_at",
        ]


class ClaimIn(StrictSerializer):
    """From which project the next open review is wanted."""

    project = TextField(max_length=64)


class SkipIn(StrictSerializer):
    """Why a review is left to nobody."""

    reason = TextField(max_length=300)


class StepWordOut(serializers.Serializer[Any]):
    """A manager's word on one step, or on an attempt as a whole (no index)."""

    attempt = serializers.IntegerField(source="attempt.index", help_text="Place in the group, from 0.")
    index = serializers.IntegerField(source="step.index", allow_null=True, default=None)
    score = serializers.FloatField(allow_null=True)
    comment = serializers.CharField()


class FeedbackOut(serializers.ModelSerializer[Feedback]):
    """What a manager said of a task."""

    project = serializers.CharField(source="project.slug")
    task = serializers.IntegerField(source="task_id")
    review = serializers.IntegerField(source="review_id", allow_null=True)
    preferred_attempt = serializers.IntegerField(source="preferred_attempt.index", allow_null=True, default=None)
    steps = StepWordOut(many=True)

    class Meta:
        model = Feedback
        fields = [
            "id",
            "project",
            "task",
            "review",
            "source",
            "author",
            "score",
            "text",
            "steps",
            "preferred_attempt",
            "edited_answer",
            "trust",
            "created_at",
        ]


class StepWordIn(StrictSerializer):
    """A word on one step, or on an attempt as a whole (`index` null or left out)."""

    attempt = WholeNumberField(required=False, min_value=0, max_value=63, help_text="Place in the group; default 0.")
    index = WholeNumberField(required=False, allow_null=True, min_value=0, max_value=32_767)
    score = NumberField(required=False, allow_null=True, min_value=0, max_value=1)
    comment = TextField(required=False, allow_blank=True, max_length=MAX_COMMENT_CHARS)


class FeedbackIn(StrictSerializer):
    """A manager's judgement: any of these, at least one."""

    score = NumberField(required=False, allow_null=True, min_value=0, max_value=1)
    text = TextField(required=False, allow_blank=True, max_length=MAX_WORDS_CHARS)
    steps = serializers.ListField(child=StepWordIn(), required=False, max_length=MAX_STEPS)
    preferred_attempt = WholeNumberField(required=False, allow_null=True, min_value=0, max_value=63)
    edited_answer = TextField(required=False, allow_blank=True, max_length=MAX_WORDS_CHARS)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        told = {name: value for name, value in attrs.items() if value not in (None, "", []) and name != "task"}
        if not told:
            raise serializers.ValidationError(
                "wanted at least one of score, text, steps, preferred_attempt, edited_answer; found none"
            )
        return attrs


class TaskFeedbackIn(FeedbackIn):
    """A judgement of a task that nobody asked for."""

    task = WholeNumberField(min_value=1)
