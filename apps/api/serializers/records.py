"""The audit, metrics and dead letters."""

from typing import Any

from rest_framework import serializers

from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import StrictSerializer, TextField
from apps.audit.models import AuditEntry
from apps.outbox.models import Segment


class AuditEntryOut(RowOut[AuditEntry]):
    """One thing that happened."""

    kind = serializers.CharField(help_text="Past tense, dotted: `task.submitted`.")

    class Meta:
        model = AuditEntry
        fields = "id kind subject_type subject_id project_id actor payload at"


class ChainOut(serializers.Serializer[Any]):
    """What a check of the hash chain found."""

    is_clean = serializers.BooleanField()
    sealed = serializers.IntegerField(allow_null=True, help_text="Entries in the chain; null but for admins.")
    unsealed = serializers.IntegerField(
        allow_null=True, help_text="Newer entries that wait for their place; null but for admins."
    )
    faults = serializers.ListField(child=serializers.CharField(), help_text="Which entries, for admins.")
    head = serializers.CharField(help_text="The last hash; keep it elsewhere to find a chain that was rewritten whole.")


class PointOut(serializers.Serializer[Any]):
    """One model of a worker, measured on a held-out panel."""

    version = serializers.IntegerField(help_text="0 for the base model.")
    adapter = serializers.CharField(allow_null=True)
    state = serializers.CharField(allow_blank=True)
    panel = serializers.CharField()
    items = serializers.IntegerField()
    accuracy = serializers.FloatField(help_text="Mean outcome, in [0, 1].")
    step_score = serializers.FloatField(allow_null=True, help_text="Mean step score, in [0, 1].")
    at = serializers.DateTimeField()


class CurveOut(serializers.Serializer[Any]):
    """How a worker learns, oldest first."""

    project = serializers.CharField()
    worker = serializers.CharField()
    points = PointOut(many=True)


class QueueOut(serializers.Serializer[Any]):
    """What waits in a queue, from the rows (the broker is not asked)."""

    queue = serializers.CharField()
    waiting = serializers.IntegerField(help_text="Not sent yet.")
    in_flight = serializers.IntegerField(help_text="Sent, and not ended.")
    dead = serializers.IntegerField()
    oldest_s = serializers.FloatField(allow_null=True, help_text="Age of the oldest open one, in seconds.")


class QueuesOut(serializers.Serializer[Any]):
    """Every queue with work of the caller's projects."""

    queues = QueueOut(many=True)


class ReplayIn(StrictSerializer):
    """Which of a project's dead letters are taken up."""

    project = TextField(max_length=64)
    kind = TextField(required=False, max_length=32, help_text="Only this kind of work: work, learn, train, adopt…")
    error = TextField(required=False, max_length=200, help_text="Only those whose last error is of this type.")


class ReplayedOut(serializers.Serializer[Any]):
    """What became of them."""

    taken = serializers.IntegerField(help_text="At work again.")
    refused = serializers.IntegerField(help_text="At work already.")
    left = serializers.IntegerField(help_text="Not looked at this time: ask again.")


class DeadLetterOut(RowOut[Segment]):
    """Work that was given up, with why."""

    project = serializers.SerializerMethodField()
    link = serializers.CharField(allow_null=True)

    class Meta:
        model = Segment
        fields = "id project kind subject_id state link attempts errors finished_at created_at"

    def get_project(self, segment: Segment) -> str | None:
        slugs: dict[int, str] = self.context.get("slugs", {})
        return slugs.get(segment.project_id or 0)
