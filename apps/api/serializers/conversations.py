"""Turns of conversations, words on them, and forgetting a person."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import StrictSerializer, TextField, TrueFalseField
from apps.conversations.models import Turn, TurnSignal
from apps.erasure.records import LONGEST_TEXT_CHARS, SHORTEST_TEXT_CHARS
from tentalis.core.field_limits import MAX_END_USER_CHARS


class TurnSignalOut(RowOut[TurnSignal]):
    """What a turn's next state showed; `kind` empty and `score` null: nothing, for `reason`."""

    class Meta:
        model = TurnSignal
        fields = "kind source score trust step reason feedback"


class TurnOut(RowOut[Turn]):
    """A person's words in a conversation, and everything the agent did until their next words."""

    task = serializers.IntegerField(source="task_id", allow_null=True, help_text="What it became; null: it is none.")
    reason = serializers.CharField(help_text="Why it teaches nothing; empty where it does, or is not read yet.")
    parent: Any = serializers.IntegerField(
        source="parent_id",
        allow_null=True,
        help_text="The turn whose answer it stands behind or, where it began as `again`, whose request it repeats.",
    )
    beside = serializers.IntegerField(
        source="beside_id", allow_null=True, help_text="Of a turn without a parent: what was under way when it began."
    )
    signals = TurnSignalOut(many=True)

    class Meta:
        model = Turn
        fields = (
            "id project session number state began parent beside closed_by closed_at reason task signals created_at"
        )


class ForgetIn(StrictSerializer):
    """Who is to be forgotten: an end user as sessions name them, or a text wherever it stands; not both."""

    end_user = TextField(required=False, max_length=MAX_END_USER_CHARS)
    text = TextField(required=False, min_length=SHORTEST_TEXT_CHARS, max_length=LONGEST_TEXT_CHARS)
    dry_run = TrueFalseField(required=False, help_text="Default true: only say what would be deleted.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if bool(attrs.get("end_user", "").strip()) == bool(attrs.get("text", "").strip()):
            raise serializers.ValidationError("wanted either end_user or text, and not both")
        return attrs


class ForgetOut(serializers.Serializer[Any]):
    """What was deleted, or would be, and what becomes of the adapters that learnt from it."""

    dry_run = serializers.BooleanField()
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Rows by kind.")
    adapters = serializers.ListField(child=serializers.CharField(), help_text="Names of those trained on a part of it.")
    taught = serializers.ListField(
        child=serializers.CharField(),
        help_text="Names of those that may not serve again: these, and what continues them.",
    )
    judges = serializers.ListField(
        child=serializers.CharField(),
        help_text="Names of the step scorers, and of the managers, that judge no longer by what they learnt of it.",
    )
    reruns = serializers.IntegerField(help_text="Trainings that are done again without it.")
    files = serializers.IntegerField(help_text="Training files that hold a part of it.")
    subject_hash = serializers.CharField(help_text="What the audit keeps in the person's place.")
