"""The older routes' bodies and answers."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.serializers.strict import (
    NumberField,
    ObjectField,
    RegisteredField,
    StrictSerializer,
    TextField,
    WordField,
)
from apps.tasks.models import Task
from apps.worlds.registry import name_choices
from tentalis.core.field_limits import MAX_HANDED_IN_STEPS, MAX_JUDGEMENT_CHARS, MAX_PROMPT_CHARS

MAX_ID_CHARS = 150
MAX_MESSAGES = 1_000
ROLES = ("system", "developer", "user", "assistant", "tool")
RESULTS = ("success", "failed")


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string", "pattern": "^[0-9]{1,18}$"},
            {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
        ]
    }
)
class TaskIdField(serializers.Field):  # type: ignore[type-arg]
    """A task's number, as text or as a number."""

    def to_internal_value(self, data: Any) -> int:
        text = str(data) if isinstance(data, int | str) and not isinstance(data, bool) else ""
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise serializers.ValidationError("wanted the task_id that assign answered")
        return int(text)

    def to_representation(self, value: Any) -> str:
        return str(value)


class AssignTaskIn(StrictSerializer):
    """Work for an agent."""

    manager_id = TextField(required=False, allow_blank=True, max_length=MAX_ID_CHARS, help_text="Yourself.")
    task_type = RegisteredField(name_choices)
    prompt = TextField(max_length=MAX_PROMPT_CHARS)
    metadata = ObjectField(required=False, max_bytes=20_000, help_text="project and worker choose those.")


class AssignedOut(serializers.Serializer[Any]):
    task_id = serializers.CharField()
    status = serializers.ChoiceField(choices=Task.State.choices)


class ResultIn(StrictSerializer):
    """What an agent made of its task."""

    task_id: Any = TaskIdField()
    worker_id = TextField(max_length=MAX_ID_CHARS, help_text="The worker's name, or your own.")
    prompt = TextField(required=False, allow_blank=True, max_length=MAX_PROMPT_CHARS)
    result = TextField(allow_blank=True, max_length=MAX_PROMPT_CHARS)
    status = WordField(choices=RESULTS)
    steps = serializers.ListField(
        child=TextField(max_length=MAX_PROMPT_CHARS), required=False, max_length=MAX_HANDED_IN_STEPS
    )
    elapsed_seconds = NumberField(required=False, allow_null=True, min_value=0)
    model_version = TextField(required=False, allow_blank=True, allow_null=True, max_length=200)
    task_type = RegisteredField(name_choices, required=False)


class JudgementIn(StrictSerializer):
    """A manager's word on a task."""

    task_id: Any = TaskIdField()
    worker_id = TextField(max_length=MAX_ID_CHARS)
    manager_id = TextField(required=False, allow_blank=True, max_length=MAX_ID_CHARS, help_text="Yourself.")
    score = NumberField(required=False, allow_null=True, min_value=0, max_value=1)
    step_scores = serializers.ListField(
        child=NumberField(allow_null=True, min_value=0, max_value=1), required=False, max_length=MAX_HANDED_IN_STEPS
    )
    textual_feedback = TextField(required=False, allow_blank=True, max_length=MAX_JUDGEMENT_CHARS)


class JudgedOut(serializers.Serializer[Any]):
    feedback_id = serializers.CharField()
    task_id = serializers.CharField()
    status = serializers.ChoiceField(choices=Task.State.choices)


class StatusOut(serializers.Serializer[Any]):
    """How a task stands."""

    task_id = serializers.CharField()
    status = serializers.ChoiceField(choices=Task.State.choices)
    result = serializers.CharField(help_text="Empty while there is none.")
    score = serializers.FloatField(allow_null=True)
    failure = serializers.CharField()


class MessageIn(serializers.Serializer[Any]):
    """One message of a talk; what else it holds is kept."""

    role = WordField(choices=ROLES)
    content = TextField(allow_blank=True, max_length=MAX_PROMPT_CHARS)


class SessionLogIn(StrictSerializer):
    """A talk that went past the gateway."""

    session_id = TextField(max_length=200)
    worker_id = TextField(max_length=64)
    messages = serializers.ListField(child=MessageIn(), min_length=1, max_length=MAX_MESSAGES)
    model_version = TextField(required=False, allow_blank=True, allow_null=True, max_length=200)
    metadata = ObjectField(required=False, max_bytes=20_000, help_text="project chooses it.")


class LoggedOut(serializers.Serializer[Any]):
    session_id = serializers.CharField()
    exchange_id = serializers.CharField()


class LastRunOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    worker = serializers.CharField()
    state = serializers.CharField()
    updates = serializers.IntegerField(help_text="Told so far.")
    failure = serializers.CharField()
    finished_at = serializers.DateTimeField(allow_null=True)


class TrainingStatusOut(serializers.Serializer[Any]):
    """What trains, from the rows."""

    is_training = serializers.BooleanField()
    queued = serializers.IntegerField(help_text="Runs that wait.")
    tasks_collected = serializers.IntegerField(help_text="In open batches.")
    tasks_wanted = serializers.IntegerField(help_text="That fill those.")
    last_run = LastRunOut(allow_null=True)


class BridgeHealthOut(serializers.Serializer[Any]):
    status = serializers.CharField()
