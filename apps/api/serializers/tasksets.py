"""Tasksets and their items."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.serializers.rows import TO_MANAGERS, RowOut, may_know
from apps.api.serializers.strict import (
    AnyJSONField,
    ObjectField,
    RegisteredField,
    StrictSerializer,
    TextField,
    WholeNumberField,
    WordField,
)
from apps.api.serializers.work import TASK_FORMS
from apps.evals.benchmarks import OUTCOMES
from apps.evals.models import Benchmark, Item, Taskset
from apps.worlds.registry import name_choices
from tentalis.core.field_limits import MAX_ABOUT_CHARS
from tentalis.limits import LIMITS

MAX_DRAWN = 10_000


class TasksetOut(RowOut[Taskset]):
    """A named, versioned set of tasks."""

    class Meta:
        model = Taskset
        fields = "id project name version environment origin about frozen_at created_at"


class DatasetOut(TasksetOut):
    """A taskset, with the benchmark that asks its items; without one the three are empty."""

    benchmark = serializers.SerializerMethodField(help_text="NAME@VERSION.")
    grader = serializers.SerializerMethodField(help_text="Name and version; empty too where the world verifies.")
    source: Any = serializers.SerializerMethodField(help_text="Where its rows come from, in words.")

    class Meta(TasksetOut.Meta):
        fields = TasksetOut.Meta.fields + " benchmark grader source"

    def get_benchmark(self, row: Taskset) -> str:
        return str(found) if (found := self._find(row)) else ""

    def get_grader(self, row: Taskset) -> str:
        return found.grader if (found := self._find(row)) else ""

    def get_source(self, row: Taskset) -> str:
        return found.source if (found := self._find(row)) else ""

    def _find(self, row: Taskset) -> Benchmark | None:
        return max(row.benchmarks.all(), key=lambda one: one.pk, default=None)


class ItemOut(RowOut[Item]):
    """A task of a set; `split` says what it is for."""

    messages = serializers.ListField(child=serializers.DictField())
    reference = serializers.SerializerMethodField(help_text=f"The right answer. {TO_MANAGERS}")
    checks = serializers.SerializerMethodField(help_text=f"What a right answer is, as data. {TO_MANAGERS}")

    @extend_schema_field(AnyJSONField(allow_null=True))
    def get_reference(self, item: Item) -> Any:
        return item.reference if may_know(self, item.taskset.project_id) else None

    @extend_schema_field(AnyJSONField(allow_null=True))
    def get_checks(self, item: Item) -> Any:
        return item.checks if may_know(self, item.taskset.project_id) else None

    class Meta:
        model = Item
        fields = "id split prompt messages reference checks seed weight source content_hash created_at"


class TasksetIn(StrictSerializer):
    """A new, empty taskset."""

    project = TextField(max_length=64)
    name = TextField(max_length=100, help_text="Lower-case letters, digits and inner hyphens.")
    environment = RegisteredField(name_choices)
    about = TextField(required=False, allow_blank=True, max_length=MAX_ABOUT_CHARS)


def _ids(words: str) -> serializers.ListField:
    number = WholeNumberField(min_value=1, max_value=2**63 - 1)
    return serializers.ListField(
        required=False, child=number, allow_empty=False, max_length=LIMITS.list_rows, help_text=words
    )


class ItemsIn(StrictSerializer):
    """Items from one source: a file's text, tasks, sessions, or the environment's own."""

    split = WordField(choices=Item.Split.choices, help_text="Of items whose row names none.")
    text = TextField(
        required=False,
        max_length=LIMITS.import_chars,
        help_text="Rows of prompt, maybe reference, seed, split, weight, checks and messages.",
    )
    form = WordField(required=False, choices=TASK_FORMS, help_text="Of the text.")
    name = TextField(required=False, max_length=150, help_text="The file's.")
    checks = AnyJSONField(
        required=False,
        help_text="A check or a list of them, of rows of the text that bring none; their facts are the row's.",
    )
    tasks = _ids("Ids of tasks of the project.")
    sessions = _ids("Ids of sessions: what was asked first in each.")
    count = WholeNumberField(
        required=False, min_value=1, max_value=MAX_DRAWN, help_text="So many tasks that the environment makes up."
    )
    seed = WholeNumberField(required=False, min_value=0, max_value=2**31 - 1, help_text="Of those; default: 0.")
    evaluation = WholeNumberField(required=False, min_value=1, max_value=2**62, help_text="Whose items these are.")
    outcome = WordField(required=False, choices=[(one, one) for one in OUTCOMES], help_text="Of those; default: all.")


class AddedOut(serializers.Serializer[Any]):
    """What became of items: a frozen taskset's are in its next version."""

    taskset = serializers.IntegerField(help_text="Id of the version that holds them.")
    version = serializers.IntegerField()
    added = serializers.IntegerField()
    repeated = serializers.IntegerField(help_text="So many said what an item there says already.")


class SplitIn(StrictSerializer):
    """Which share of the items goes on which side."""

    shares = ObjectField(help_text='split -> percent, together 100: {"train": 80, "held_out": 20}.')
    seed = WholeNumberField(required=False, min_value=0, max_value=2**31 - 1, help_text="Default: 0.")


class SplitOut(serializers.Serializer[Any]):
    """How many items each split has."""

    train = serializers.IntegerField()
    held_out = serializers.IntegerField()
    skills = serializers.IntegerField()
