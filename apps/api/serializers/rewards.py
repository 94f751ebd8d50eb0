"""What a trainer asks of its own answers, in OpenRLHF's words."""

from rest_framework import serializers

from apps.api.serializers.strict import StrictSerializer, TextField, TrueFalseField

MOST_CHARS = 1_000_000
MOST_PARTS = 64


class PartIn(StrictSerializer):
    """A stretch of an answer."""

    text = TextField(allow_blank=True, max_length=MOST_CHARS)
    sampled = TrueFalseField(help_text="False for what a tool said.")


class RewardQuestion(StrictSerializer):
    """One answer. The lists hold one entry each."""

    query = serializers.ListField(
        child=TextField(max_length=MOST_CHARS), min_length=1, max_length=1, help_text="Prompt and answer as text."
    )
    prompts = serializers.ListField(
        child=TextField(allow_blank=True, max_length=MOST_CHARS), min_length=1, max_length=1
    )
    labels = serializers.ListField(
        child=TextField(max_length=MOST_CHARS), min_length=1, max_length=1, help_text='JSON with the "task" it answers.'
    )
    parts = serializers.ListField(
        child=PartIn(), required=False, min_length=1, max_length=MOST_PARTS, help_text="The answer, stretch by stretch."
    )
    is_cut = TrueFalseField(required=False, help_text="Whether the answer was cut off.")


class RewardOut(serializers.Serializer[object]):
    """What the answer is worth; or, where it called a tool, what comes next in it."""

    rewards = serializers.FloatField(required=False, min_value=0, max_value=1)
    scores = serializers.FloatField(required=False, min_value=0, max_value=1)
    extra_logs = serializers.DictField(child=serializers.FloatField(), required=False)
    feedback = serializers.CharField(required=False)
