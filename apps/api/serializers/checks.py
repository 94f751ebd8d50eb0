"""Checks: what a right answer is, as data."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.serializers.rows import TO_MANAGERS, RowOut, may_know
from apps.api.serializers.strict import AnyJSONField, StrictSerializer, TextField
from apps.checks.models import NamedCheck
from apps.checks.services import MAX_ENVIRONMENT_CHARS
from apps.inference.judges import VOTES
from apps.tasks.checking import MOST_ANSWERS, MOST_ASKED
from tentalis.core.field_limits import MAX_ABOUT_CHARS, MAX_PROMPT_CHARS

SPEC = (
    '{"check": kind, …} with the kinds exact, contains, number, regex, json_schema, length, forbidden, language, '
    "grader (name, reference, options), scorer (name, min) and judge (rubric, model, min); "
    '{"all": […]}, {"any": […]}, {"weighted": [[weight, check], …]} or {"use": "name@version"}. '
    '{"fact": "order"} or {"fact": "Order {order}"} stands for a value of the task or item: of its metadata, or '
    '{"use": "name@version", "with": {"order": "A-7"}}.'
)
DEFAULT_FOR = "Environment whose tasks it checks where they bring no checks of their own; empty: none."
SHOWN_CHARS = 2_000


class CheckOut(RowOut[NamedCheck]):
    """One version of a check of a project."""

    spec = serializers.SerializerMethodField(help_text=f"As stored, with what it uses written out. {TO_MANAGERS}")

    class Meta:
        model = NamedCheck
        fields = "id project name version about spec default_for created_at"

    @extend_schema_field(AnyJSONField(allow_null=True))
    def get_spec(self, check: NamedCheck) -> Any:
        return check.spec if may_know(self, check.project_id) else None


class CheckIn(StrictSerializer):
    """A new check, or the next version of the one of this name."""

    project = TextField(max_length=64)
    name = TextField(max_length=100, help_text="Lower-case letters, digits and inner hyphens.")
    spec = AnyJSONField(help_text=SPEC)
    about = TextField(max_length=MAX_ABOUT_CHARS, required=False, allow_blank=True)


class CheckChange(StrictSerializer):
    """What a version checks by default; another text is another version."""

    default_for = TextField(max_length=MAX_ENVIRONMENT_CHARS, allow_blank=True, help_text=DEFAULT_FOR)


class CheckTryIn(StrictSerializer):
    """A check that is tried; nothing is kept."""

    project = TextField(max_length=64)
    spec = AnyJSONField(help_text=SPEC)
    answers = serializers.ListField(
        child=TextField(max_length=MAX_PROMPT_CHARS, allow_blank=True), required=False, max_length=MOST_ANSWERS,
        help_text=f"Default: the newest answers of the project's attempts. A scorer, a judge or a grader that asks "
        f"one is asked about the first {MOST_ASKED}; of a judge each costs {VOTES} calls.",
    )  # fmt: skip
    environment = TextField(
        max_length=MAX_ENVIRONMENT_CHARS, required=False, help_text="Of the stored answers; default: any."
    )


class CheckTriedOut(serializers.Serializer[Any]):
    """How a check did on some answers."""

    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Answers: passed, failed, unscored.")
    examples = serializers.ListField(
        child=serializers.DictField(), help_text="The newest few of each: attempt, task, answer, and the result."
    )
