"""What trainings cost beside what they brought."""

from typing import Any

from rest_framework import serializers

from apps.training.cost_benefit import Outcome


class SpentOut(serializers.Serializer[Any]):
    """What was spent; null: nobody measured it."""

    gpu_s = serializers.FloatField(allow_null=True, help_text="Seconds on the training machine, all attempts.")
    judge_tokens = serializers.FloatField(
        allow_null=True, help_text="Of judges, AI managers and hints on the tasks it learnt from."
    )
    usd = serializers.FloatField(allow_null=True, help_text="US dollars of the calls whose price is known.")
    human_minutes = serializers.FloatField(allow_null=True, help_text="Of people's work on those tasks.")
    is_partial = serializers.BooleanField(help_text="Some calls had no price, or some of people's work was not timed.")


class ComparisonOut(serializers.Serializer[Any]):
    """The same tasks twice: shares in [0, 1], the difference with its interval."""

    items = serializers.IntegerField()
    candidate = serializers.FloatField()
    reference = serializers.FloatField()
    difference = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()
    confidence = serializers.FloatField()
    effective_items = serializers.FloatField(
        allow_null=True, help_text="So many of equal weight say as much; null: all weigh the same."
    )


class GainOut(serializers.Serializer[Any]):
    """What was measured on held-out tasks."""

    outcome = serializers.ChoiceField(choices=[(one.value, one.value) for one in Outcome])
    words = serializers.CharField()
    against = serializers.CharField(help_text="What it was compared with; empty: nothing was measured.")
    found = ComparisonOut(allow_null=True)


class RateOut(serializers.Serializer[Any]):
    """Percentage points a unit of what was spent, with the interval of what was measured."""

    points = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()


class LineReturnOut(serializers.Serializer[Any]):
    """What was spent beside what was measured; a rate is null where nothing is proved, or where less than a 60th of its
    unit was spent."""

    spent = SpentOut()
    gain = GainOut()
    per_gpu_hour = RateOut(allow_null=True)
    per_human_minute = RateOut(allow_null=True)


class ReturnOut(LineReturnOut):
    """The same of one run."""

    run = serializers.IntegerField(source="run.pk")
    state = serializers.CharField(source="run.state")
    adapter = serializers.CharField(source="adapter.name", allow_null=True, default=None)
    accuracy = serializers.FloatField(
        source="accuracy.0", allow_null=True, default=None, help_text="Held-out share right, of the newest panel."
    )
    until = SpentOut(help_text="Everything spent on the line up to here, failed runs too; of one run alone its own.")


class ReturnsOut(serializers.Serializer[Any]):
    """A worker's own line of trainings, oldest first, and all of it."""

    project = serializers.CharField(source="worker.project.slug")
    worker = serializers.CharField(source="worker.name")
    base = serializers.FloatField(source="base.0", allow_null=True, default=None, help_text="Of the base model.")
    rows = ReturnOut(many=True)
    earlier = serializers.IntegerField(help_text="Runs before these; they count in `until` and `total`.")
    total = LineReturnOut(help_text="What serves now against the base model.")
    beside = SpentOut(help_text="On step scorers, managers and people's own adapters.")
    beside_count = serializers.IntegerField()
