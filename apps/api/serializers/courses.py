"""Courses: a worker learns a benchmark."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import ObjectField, StrictSerializer, TextField, WholeNumberField
from apps.evals.asking import MOST_DRAW
from apps.training.courses import MOST_PATIENCE, MOST_ROUNDS, MOST_SHOWN, MOST_TASKS
from apps.training.models import Course


class CourseOut(RowOut[Course]):
    """A worker that learns a benchmark, round by round."""

    class Meta:
        model = Course
        fields = (
            "id project worker benchmark rounds_wanted tasks_a_round group_size patience backend recipe shown "
            "shown_recipe rule seed state reason finished_at created_at"
        )


class CourseIn(StrictSerializer):
    """Who is to learn what."""

    project = TextField(max_length=64)
    worker = TextField(max_length=64)
    benchmark = WholeNumberField(min_value=1, max_value=2**62, help_text="A benchmark of the project.")
    rounds = WholeNumberField(min_value=1, max_value=MOST_ROUNDS, default=20, help_text="At most.")
    tasks = WholeNumberField(min_value=1, max_value=MOST_TASKS, default=24, help_text="Of a round.")
    group_size = WholeNumberField(
        min_value=2, max_value=64, required=False, help_text="Attempts at a task; else as the project has it."
    )
    patience = WholeNumberField(
        min_value=1, max_value=MOST_PATIENCE, default=5, help_text="Rounds without a better adapter; then it ends."
    )
    backend = TextField(max_length=16, required=False, help_text="Who trains; else the installation's.")
    recipe = ObjectField(required=False, help_text="Fields that differ from the worker's.")
    shown = WholeNumberField(
        min_value=0, max_value=MOST_SHOWN, default=0, help_text="Of so many items the known answers are imitated first."
    )
    shown_recipe = ObjectField(required=False, help_text="Fields of that training, beside the recipe's.")
    seed = WholeNumberField(min_value=0, max_value=MOST_DRAW, default=0)


class LearningPointOut(serializers.Serializer[Any]):
    """What a round came to."""

    round = serializers.IntegerField(help_text="0 is the base model.")
    adapter = serializers.CharField()
    is_better = serializers.BooleanField(allow_null=True, help_text="Whether the gate let it through.")
    words = serializers.CharField()
    mean = serializers.FloatField(allow_null=True, help_text="Of the held-out items, as the gate measured them.")
    low = serializers.FloatField(source="interval.low", allow_null=True, default=None, help_text="At 95 %.")
    high = serializers.FloatField(source="interval.high", allow_null=True, default=None)
    tasks = serializers.IntegerField()
    tries = serializers.IntegerField(help_text="With an outcome.")
    train_mean = serializers.FloatField(allow_null=True, help_text="Share of them that was right in full.")
    choice = serializers.DictField(help_text="How its items were chosen, and how many are set aside.")


class LearningCurveOut(serializers.Serializer[Any]):
    """A course's learning curve."""

    results = LearningPointOut(many=True)
