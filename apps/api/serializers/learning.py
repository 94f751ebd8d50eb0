"""Rollouts, batches, runs, adapters."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.adapters.models import Adapter, Deployment, Verdict
from apps.api.serializers.rows import RowOut
from apps.api.serializers.strict import RegisteredField, StrictSerializer, TextField, WholeNumberField
from apps.rollouts.contents import count_contents
from apps.rollouts.models import Batch, Rollout
from apps.training.models import TrainingRun
from apps.training.naming import MOST_COMMENT, MOST_NAME, MOST_TAG, MOST_TAGS
from apps.training.retrying import find_untaken
from tentalis.core.field_limits import MAX_END_USER_CHARS, MAX_TRIED_PERCENT
from tentalis.core.learning.canary_verdict import CanaryOutcome
from tentalis.plugins import name_backends


class RolloutOut(RowOut[Rollout]):
    """An attempt as training data, without its tokens."""

    hint = serializers.CharField(source="hint.text", allow_null=True, default=None)
    batch = serializers.IntegerField(
        source="training_use.batch_id", allow_null=True, default=None, help_text="Its one use; null: none yet."
    )

    class Meta:
        model = Rollout
        fields = (
            "id project worker task attempt adapter hint is_usable unusable_reason reward reward_source steps "
            "missing_steps weight batch created_at"
        )


class SequenceOut(serializers.Serializer[Any]):
    """Tokens as the model server told them: a prompt, and what came behind it."""

    start = serializers.IntegerField(
        help_text="Place of its first token behind the prompt among all of the attempt's: steps count from there."
    )
    prompt_token_ids = serializers.ListField(child=serializers.IntegerField())
    token_ids = serializers.ListField(child=serializers.IntegerField())
    logprobs = serializers.ListField(child=serializers.FloatField())
    sampled = serializers.ListField(
        child=serializers.BooleanField(), help_text="True where the policy chose the token."
    )


class TokensOut(SequenceOut):
    """The exact tokens."""

    model = serializers.CharField()
    policy_version = serializers.IntegerField()
    messages = serializers.ListField(child=serializers.DictField())
    earlier = SequenceOut(
        many=True, help_text="Calls that the later ones do not continue token for token; each is trained on by itself."
    )


class RolloutDetailOut(RolloutOut):
    """A rollout with its exact tokens; null where there are none."""

    tokens = TokensOut(allow_null=True)

    class Meta(RolloutOut.Meta):
        fields = RolloutOut.Meta.fields + " tokens"


class ShareOut(serializers.Serializer[Any]):
    """How many of a batch's pairs or demonstrations come from where."""

    source: Any = serializers.CharField()
    count = serializers.IntegerField()


class ContentsOut(serializers.Serializer[Any]):
    """What there is to learn in a batch."""

    kind = serializers.CharField(help_text="rollouts, pairs or demonstrations.")
    count = serializers.IntegerField()
    tasks = serializers.IntegerField()
    shares = ShareOut(many=True, help_text="Pairs or demonstrations by where they come from, most first.")


class BatchOut(RowOut[Batch]):
    """What one run learns from."""

    run = serializers.IntegerField(source="run.pk", allow_null=True, default=None)

    class Meta:
        model = Batch
        fields = (
            "id project worker end_user number kind state target_tasks task_count rollout_count run closed_at "
            "created_at"
        )


class UntakenOut(serializers.Serializer[Any]):
    """A run that no training machine takes up."""

    since = serializers.DateTimeField(help_text="When it was sent first of the times that nobody took it up.")
    sent = serializers.IntegerField(help_text="Times that it was sent.")
    sent_at = serializers.DateTimeField(allow_null=True, help_text="The last of them.")
    command = serializers.CharField(help_text="Starts a box that would take it.")
    words = serializers.CharField()


class RunOut(RowOut[TrainingRun]):
    """One training: of a batch, or of labelled steps, which are in none."""

    untaken = serializers.SerializerMethodField(help_text="null: a box has it, or it is not under way.")

    class Meta:
        model = TrainingRun
        fields = (
            "id project worker batch parent backend recipe recipe_hash seed purpose name comment tags end_user state "
            "waiting_reason attempt untaken summary notes gates alarms cost tracking versions failure heartbeat_at "
            "started_at finished_at created_at"
        )

    @extend_schema_field(UntakenOut(allow_null=True))
    def get_untaken(self, run: TrainingRun) -> dict[str, Any] | None:
        return UntakenOut(found).data if (found := find_untaken(run)) is not None else None


class RunDetailOut(RunOut):
    """One training, and what its batch holds."""

    learns_from = serializers.SerializerMethodField(help_text="null: it learns from no batch.")

    class Meta(RunOut.Meta):
        fields = RunOut.Meta.fields + " learns_from"

    @extend_schema_field(ContentsOut(allow_null=True))
    def get_learns_from(self, run: TrainingRun) -> dict[str, Any] | None:
        return ContentsOut(count_contents([run.batch])[run.batch.pk]).data if run.batch is not None else None


class UseOut(serializers.Serializer[Any]):
    """What of a judgement or an attempt is learnt in one place."""

    learnt = serializers.CharField(help_text="rollouts, pairs or demonstrations.")
    source: Any = serializers.CharField(help_text="Where a pair or a demonstration comes from; empty: by its reward.")
    count = serializers.IntegerField()
    stage = serializers.CharField(help_text="unusable, waits, batch, run, failed, refused or learned.")
    reason = serializers.CharField(help_text="Why it can enter no batch.")
    batch = serializers.IntegerField(source="batch.pk", allow_null=True, default=None)
    run = serializers.IntegerField(source="run.pk", allow_null=True, default=None)
    adapter = serializers.CharField(source="adapter.name", allow_null=True, default=None)


class RunIn(StrictSerializer):
    """Train now, with what the worker's batch holds."""

    project = TextField(max_length=64)
    worker = TextField(required=False, max_length=64, help_text="Default: the project's only active worker.")
    end_user = TextField(required=False, max_length=MAX_END_USER_CHARS, help_text="Whose batch; default: everybody's.")
    backend = RegisteredField(name_backends, required=False, help_text="Default: the installation's.")
    recipe = serializers.DictField(required=False, help_text="Recipe fields for this run alone.")
    name = TextField(required=False, max_length=MOST_NAME, help_text="What people call the run.")


class RunChange(StrictSerializer):
    """What people call a run, and say of it."""

    name = TextField(required=False, allow_blank=True, max_length=MOST_NAME)
    comment = TextField(required=False, allow_blank=True, max_length=MOST_COMMENT)
    tags = serializers.ListField(
        child=TextField(max_length=MOST_TAG), required=False, max_length=MOST_TAGS, help_text="All of them, anew."
    )


class RetryIn(StrictSerializer):
    """Train again what came to nothing; {}: with the same recipe."""

    recipe = serializers.DictField(required=False, help_text="Recipe fields to change for this run alone.")
    recipe_from = serializers.ChoiceField(
        choices=["run", "worker"],
        required=False,
        help_text="Whose recipe is changed: the run's own (default), or the one its worker has by now.",
    )


class RunMetricsOut(serializers.Serializer[Any]):
    """One mapping per optimiser update, oldest first; names carry their units."""

    run = serializers.IntegerField()
    state = serializers.CharField()
    attempt = serializers.IntegerField(help_text="0: none was sent yet. Metrics are those of this one.")
    metrics = serializers.ListField(child=serializers.DictField())


class AdapterOut(RowOut[Adapter]):
    """LoRA weights, immutable, named `worker@vN-digest`."""

    class Meta:
        model = Adapter
        fields = (
            "id project worker name version end_user line_version parent run state waits_for is_anchor suspicion "
            "barred "
            "is_rebuilt held_since sha256 manifest created_at"
        )


class VerdictOut(RowOut[Verdict]):
    """What the promotion gate found."""

    class Meta:
        model = Verdict
        fields = "id question outcome words compared_with details created_at"


class DeploymentOut(RowOut[Deployment]):
    """What serves a worker now, or one person who asks it."""

    class Meta:
        model = Deployment
        fields = "worker end_user adapter previous epoch moved_at"


READINGS = [(one.value, one.value) for one in CanaryOutcome]


class CanaryIn(StrictSerializer):
    """The share of a trial."""

    percent = WholeNumberField(min_value=1, max_value=MAX_TRIED_PERCENT, help_text="Of the worker's new tasks.")


class CanaryOut(serializers.Serializer[Any]):
    """An adapter on trial beside what serves."""

    worker = serializers.CharField()
    serving = serializers.CharField(allow_null=True, help_text="null: the base model.")
    adapter = serializers.CharField(allow_null=True)
    percent = serializers.IntegerField()
    started_at = serializers.DateTimeField(allow_null=True)
    outcome = serializers.ChoiceField(choices=READINGS)
    words = serializers.CharField(help_text="What was seen so far.")


class ShadowOut(serializers.Serializer[Any]):
    """An adapter that answers a share of the tasks once more, shown to nobody."""

    worker = serializers.CharField()
    adapter = serializers.CharField()
    percent = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    attempts = serializers.IntegerField(help_text="Tasks it did.")
    outcome = serializers.ChoiceField(choices=READINGS)
    words = serializers.CharField(help_text="What was seen so far, against what serves on the same tasks.")


class SourceOut(serializers.Serializer[Any]):
    """How many rollouts got their reward from whom."""

    reward_source = serializers.CharField()
    rollouts = serializers.IntegerField()


class ItemsOut(serializers.Serializer[Any]):
    """How many pairs or demonstrations come from where."""

    source: Any = serializers.CharField()
    count = serializers.IntegerField()


class WorkerShareOut(serializers.Serializer[Any]):
    """How many of the tasks a worker did."""

    worker = serializers.CharField()
    tasks = serializers.IntegerField()


class LinkOut(serializers.Serializer[Any]):
    """One adapter of the lineage, and what it was trained on."""

    adapter = serializers.CharField()
    sha256 = serializers.CharField()
    run = serializers.IntegerField(allow_null=True)
    batch = serializers.IntegerField(allow_null=True)
    recipe_hash = serializers.CharField()
    rollouts = serializers.IntegerField()
    tasks = serializers.IntegerField()
    sources = SourceOut(many=True)
    learnt = serializers.CharField(help_text="rollouts, pairs or demonstrations.")
    items = ItemsOut(many=True, help_text="Pairs or demonstrations; the people behind them are among the authors.")
    workers = WorkerShareOut(many=True, help_text="Who did the tasks: its own worker, and those who learn with it.")
    authors = serializers.ListField(child=serializers.CharField())


class ProvenanceOut(serializers.Serializer[Any]):
    """Where an adapter comes from, itself first, back to the first one."""

    lineage = LinkOut(many=True)
