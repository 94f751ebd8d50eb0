"""Workers, tasks, attempts and steps."""

from functools import cached_property
from typing import Any

from django.core.validators import RegexValidator
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.api.serializers.learning import UseOut
from apps.api.serializers.rows import TO_MANAGERS, RowOut, list_shown, may_know
from apps.api.serializers.strict import (
    AnyJSONField,
    ObjectField,
    RegisteredField,
    StrictSerializer,
    TextField,
    TrueFalseField,
    WholeNumberField,
    WordField,
)
from apps.feedback.set_aside import OUTCOME_SCORERS, Aside, Trust
from apps.scoring.models import StepScore
from apps.tasks.models import Attempt, EpisodeTurn, Step, Task
from apps.training.provenance import trace_attempts
from apps.workers.bases import say_missing, say_untrained
from apps.workers.kinds import kind_choices
from apps.workers.models import Worker
from apps.workers.rules import MOST_BATCH_TASKS, MOST_FALLBACKS
from apps.worlds.registry import name_choices
from tentalis.core.field_limits import MAX_GROUP, MAX_HANDED_IN_STEPS, MAX_PROMPT_CHARS, MAX_SYSTEM_PROMPT_CHARS
from tentalis.core.judged_files import KINDS, TASKS
from tentalis.core.task_files import FORMS
from tentalis.limits import LIMITS

SUPERVISION_HELP = (
    "Which actions wait for approval: tools and except_tools (patterns), agents_decide (whether other agents may), "
    "supervisor (a program of the installation that is asked first), "
    "model_decides (whether the model that judges the project's work is asked next), "
    "deadline_s, on_timeout (approve, reject, fail); of an outside worker messages and answers too; {}: none."
)
BASE_DIRECTORY_HELP = (
    "Absolute path where the training machine and the web find the files of the very model that the provider serves "
    "(config.json, tokenizer, *.safetensors). Without it nothing of a worker with a provider trains."
)
ADAPTERS_PER_HELP = "user: each person it talks with teaches adapters of their own, which serve nobody else."
USER_BATCH_HELP = "Tasks that fill a batch of one person; null: the project's batch_tasks."
FALLBACKS_HELP = (
    "Models that the gateway asks in this order where the worker's own cannot be had: server/model, or another "
    "worker's name. Their answers never train it."
)
LEARNS_WITH_HELP = (
    "Name of the worker whose line of adapters it teaches and is served by (the same project, model and server); "
    "null: its own."
)
STEP_KIND = RegexValidator(r"^(step|call|answer|other)\Z", "wanted one of step, call, answer, other")


class WorkerOut(RowOut[Worker]):
    """An agent of a project, and what serves it now."""

    provider = serializers.CharField(source="provider.name", allow_null=True, default=None)
    agent_server = serializers.CharField(source="agent_server.name", allow_null=True, default=None)
    environment = serializers.CharField(
        source="home", read_only=True, help_text="Where its tasks are done where nobody says."
    )
    learners: Any = serializers.SlugRelatedField(
        slug_field="name", many=True, read_only=True, help_text="Workers that learn with it."
    )
    fallbacks = serializers.ListField(child=serializers.CharField(), read_only=True, help_text=FALLBACKS_HELP)
    base_facts = ObjectField(
        read_only=True, help_text="What the files in base_directory are: fingerprint, model_type, parameters…"
    )
    base_compared = ObjectField(
        source="line.base_compared", read_only=True,
        help_text="What comparing them with the model server found last: at, model, fingerprint, is_good, words.",
    )  # fmt: skip
    base_missing = serializers.SerializerMethodField(
        help_text="Why nothing of it trains: nobody said where its base weights are. Empty: they are known."
    )
    untrained = serializers.SerializerMethodField(
        help_text="Why nothing of it trains: its model server tells no tokens, or base_missing. Empty: it can."
    )
    adapter = serializers.SerializerMethodField(help_text="Name of the deployed adapter; null: the base model.")

    class Meta:
        model = Worker
        fields = (
            "id project name kind environment provider agent_server agent_id base_model base_directory base_facts "
            "base_compared base_missing untrained system_prompt sampling supervision adapters_per user_batch_tasks "
            "fallbacks learns_with learners is_active adapter created_at"
        )

    def get_base_missing(self, worker: Worker) -> str:
        return say_missing(worker.line)

    def get_untrained(self, worker: Worker) -> str:
        return say_untrained(worker)

    def get_adapter(self, worker: Worker) -> str | None:
        everybodys = next((one for one in worker.line.deployments.all() if not one.end_user), None)
        return everybodys.adapter.name if everybodys and everybodys.adapter else None


class WorkerFields(StrictSerializer):
    """What is said of a worker when it is made, and later."""

    provider = TextField(required=False, allow_null=True, max_length=64, help_text="Name of a model server.")
    agent_server = TextField(required=False, allow_null=True, max_length=64, help_text="Name of an OpenClaw's gateway.")
    agent_id = TextField(required=False, max_length=64, allow_blank=True, help_text="Agent of that OpenClaw.")
    base_model = TextField(required=False, max_length=500, allow_blank=True)
    base_directory = TextField(required=False, max_length=500, allow_blank=True, help_text=BASE_DIRECTORY_HELP)
    system_prompt = TextField(required=False, max_length=MAX_SYSTEM_PROMPT_CHARS, allow_blank=True)
    sampling = ObjectField(required=False, help_text="temperature, max_tokens, top_p: what the kind allows.")
    supervision = ObjectField(required=False, help_text=SUPERVISION_HELP)
    adapters_per = WordField(required=False, choices=Worker.AdaptersPer.choices, help_text=ADAPTERS_PER_HELP)
    user_batch_tasks = WholeNumberField(
        required=False, allow_null=True, min_value=1, max_value=MOST_BATCH_TASKS, help_text=USER_BATCH_HELP
    )
    fallbacks = serializers.ListField(
        child=TextField(max_length=300), required=False, max_length=MOST_FALLBACKS, help_text=FALLBACKS_HELP
    )
    learns_with = TextField(required=False, allow_null=True, max_length=64, help_text=LEARNS_WITH_HELP)


class WorkerChange(WorkerFields):
    """What of a worker can change."""

    is_active = TrueFalseField(required=False)


class WorkerIn(WorkerFields):
    """A new worker."""

    project = TextField(max_length=64)
    name = TextField(max_length=64)
    kind = RegisteredField(kind_choices)


def _may_know(told: serializers.BaseSerializer[Any], task: Task) -> bool:
    """Whether who asks may know what a right answer is: of what is measured nobody, for its agent may be who asks."""
    return task.evaluation_id is None and may_know(told, task.project_id)


class TaskOut(RowOut[Task]):
    """Work given to an agent."""

    evaluation = serializers.IntegerField(
        source="evaluation_id", allow_null=True, read_only=True,
        help_text="It is a try of this evaluation: done like any, graded, and never learnt from. null: it is work.",
    )  # fmt: skip

    reference = serializers.SerializerMethodField(help_text=f"What a right answer holds. {TO_MANAGERS}")
    checks = serializers.SerializerMethodField(
        help_text="What else it is checked by, named checks written out. null for all but owners and managers."
    )

    class Meta:
        model = Task
        fields = (
            "id project worker environment prompt reference checks parent metadata evaluation group_size seed state "
            "answer score failed_link failure submitted_by created_at updated_at"
        )

    @extend_schema_field(AnyJSONField(allow_null=True))
    def get_reference(self, task: Task) -> Any:
        return task.reference if _may_know(self, task) else None

    @extend_schema_field(AnyJSONField(allow_null=True))
    def get_checks(self, task: Task) -> Any:
        return task.checks if _may_know(self, task) else None


REFERENCE = (
    'What a right answer is: {"match": "number", "value": 7} has it as its last number, {"match": "contains", "value": '
    '"Paris"} holds it, {"match": "exact", "value": "Paris"} is it, blanks and case aside. A bare number matches as '
    "number, a bare text as exact."
)


CHECKS = (
    'A check or a list of them, such as {"check": "length", "unit": "words", "max": 80} or {"use": "polite@2"}: an '
    "answer is as good as the worst of what they and the environment say. Default: the project's for the environment; "
    "[]: none."
)


TASKSET = (
    "Taskset of the project that the task is an item of, by its prompt: the item says reference, checks and seed where "
    "the task does not, and `metadata.taskset` names it. One that is held out there is worked on and trains nothing. "
    "Takes the right evals:read."
)


class TaskIn(StrictSerializer):
    """A new task."""

    project = TextField(max_length=64)
    prompt = TextField(max_length=MAX_PROMPT_CHARS)
    environment = RegisteredField(name_choices)
    worker = TextField(required=False, max_length=64, help_text="Default: the project's only active worker.")
    group_size = WholeNumberField(required=False, min_value=1, max_value=MAX_GROUP, help_text="Default: the project's.")
    reference = AnyJSONField(required=False, allow_null=True, help_text=REFERENCE)
    checks = AnyJSONField(required=False, allow_null=True, help_text=CHECKS)
    parent: Any = WholeNumberField(required=False, allow_null=True, min_value=1, help_text="Task this one is part of.")
    metadata = ObjectField(required=False, max_bytes=20_000)
    taskset: Any = WholeNumberField(required=False, allow_null=True, min_value=1, help_text=TASKSET)
    seed = WholeNumberField(required=False, allow_null=True, min_value=0, max_value=2**53 - 1)


TASK_FILE = (
    "lines: a prompt a line. csv: a header with prompt, maybe reference, match (exact, contains or number), group_size "
    "and seed; other columns become metadata. jsonl: objects of prompt, reference, checks, metadata, "
    "group_size and seed."
)


PACKED = "packed"
TASK_FORMS = [(form, form) for form in (*FORMS, PACKED)]


class ManyTasksIn(StrictSerializer):
    """What many new tasks share."""

    project = TextField(max_length=64)
    environment = RegisteredField(name_choices)
    worker = TextField(required=False, max_length=64, help_text="Default: the project's only active worker.")
    group_size = WholeNumberField(
        required=False, min_value=1, max_value=MAX_GROUP, help_text="Of tasks that say none. Default: the project's."
    )


class SessionTasksIn(ManyTasksIn):
    """New tasks out of what people asked in recorded sessions, all of them or none."""

    sessions = serializers.ListField(
        child=WholeNumberField(min_value=1, max_value=2**63 - 1), allow_empty=False, max_length=LIMITS.list_rows,
        help_text="Ids of sessions.",
    )  # fmt: skip


class TaskFileIn(ManyTasksIn):
    """Many new tasks, or finished work with its judgement: a file, taken whole or not at all."""

    form = WordField(
        choices=TASK_FORMS,
        help_text=f"{TASK_FILE} {PACKED}: a Parquet file or the archive of an export, in base64.",
    )
    rows = WordField(
        required=False,
        choices=[(kind, kind) for kind in (TASKS, *KINDS)],
        help_text="What it holds; the others than tasks as jsonl or packed, in TRL's formats. Default: as it looks.",
    )
    name = TextField(required=False, max_length=200, help_text="The file's, which is kept with what is imported.")
    checks = AnyJSONField(
        required=False, allow_null=True,
        help_text='Of tasks whose row says none: a check or a list of them, such as {"use": "polite@2"}. '
        "Default: the project's for the environment; []: none.",
    )  # fmt: skip
    text = TextField(
        max_length=LIMITS.import_chars,
        help_text=f"At most {LIMITS.import_tasks:,} tasks, or {LIMITS.import_rows:,} rows of finished work.",
    )


class ManyTasksOut(serializers.Serializer[Any]):
    """Tasks that were made together."""

    count = serializers.IntegerField()
    tasks = serializers.ListField(child=serializers.IntegerField(), help_text="Ids; a file's in its order.")


class TaskFileOut(ManyTasksOut):
    """What became of a file."""

    import_id = serializers.IntegerField(
        allow_null=True, help_text="Of finished work: what makes tasks of it in the background; tasks is empty then."
    )


class ScoreOut(RowOut[StepScore]):
    """What one scorer said; no score: unscored, for `reason`."""

    class Meta:
        model = StepScore
        fields = "scorer score reason spread details"


class StepOut(RowOut[Step]):
    """One step of an attempt with its scores by scorer."""

    scores = ScoreOut(many=True)

    class Meta:
        model = Step
        fields = "id index kind text tool_name tool_result token_start token_end scores"


class EpisodeTurnOut(RowOut[EpisodeTurn]):
    """One turn of an attempt in a world with turns."""

    class Meta:
        model = EpisodeTurn
        fields = "id index exchange calls observations state_hash started_at ended_at"


class AttemptOut(RowOut[Attempt]):
    """One try at a task."""

    project = serializers.CharField(source="task.project.slug")
    scores = serializers.SerializerMethodField(help_text="Of the attempt as a whole, by scorer.")
    withheld = serializers.SerializerMethodField(
        help_text="What of outcome and scores counts no more, for the judge that said it is below its bar: outcome, "
        'names of scorers, and why. "": all of it counts.'
    )

    class Meta:
        model = Attempt
        fields = (
            "id project task index worker adapter exchange state text answer error outcome score score_details scores "
            "withheld missing_steps elapsed_s created_at"
        )

    def get_scores(self, attempt: Attempt) -> list[dict[str, Any]]:
        whole = [score for score in attempt.step_scores.all() if score.step_id is None]
        return list(ScoreOut(whole, many=True).data)

    @cached_property
    def _asides(self) -> dict[int, dict[int, Aside]]:
        """Project id -> what is set aside of all that is shown of it."""
        return {}

    def get_withheld(self, attempt: Attempt) -> str:
        project = attempt.task.project_id
        if project not in self._asides:
            of_it = [one for one in list_shown(self, attempt) if one.task.project_id == project]
            self._asides[project] = Trust(project).find_asides({one.pk: one.score_details for one in of_it})
        aside = self._asides[project].get(attempt.pk)
        if aside is None or not aside.scorers:
            return ""
        names = [*(["outcome"] if aside.has_outcome else []), *sorted(aside.scorers - OUTCOME_SCORERS)]
        return f"{', '.join(names)}: {aside.words}"


class AttemptDetailOut(AttemptOut):
    """One try at a task, and everything that learns from it."""

    uses = serializers.SerializerMethodField()
    verification = serializers.SerializerMethodField(
        help_text="What was verified: outcome, steps, each check; or why it could not be. null for all but owners and "
        "managers of the project."
    )

    turns = EpisodeTurnOut(many=True, help_text="Of a world with turns, in order: what was done, and what came of it.")

    class Meta(AttemptOut.Meta):
        fields = AttemptOut.Meta.fields + " verification turns uses"

    @extend_schema_field(AnyJSONField(allow_null=True))
    def get_verification(self, attempt: Attempt) -> Any:
        return attempt.verification if may_know(self, attempt.task.project_id) else None

    @extend_schema_field(UseOut(many=True))
    def get_uses(self, attempt: Attempt) -> list[dict[str, Any]]:
        return list(UseOut(trace_attempts([attempt])[attempt.pk], many=True).data)


class OwnStepIn(StrictSerializer):
    """A step of an outside agent's own work."""

    text = TextField(max_length=MAX_PROMPT_CHARS)
    kind = TextField(required=False, max_length=16, validators=[STEP_KIND], help_text="Default: step.")
    tool_name = TextField(required=False, max_length=100, allow_blank=True)
    tool_result = TextField(required=False, max_length=MAX_PROMPT_CHARS, allow_blank=True)


class AttemptIn(StrictSerializer):
    """An outside agent's own try at a task that waits for one."""

    task = WholeNumberField(min_value=1)
    steps = serializers.ListField(
        child=OwnStepIn(), max_length=MAX_HANDED_IN_STEPS, required=False, default=list,
        help_text="Empty: the calls it made through the gateway are its steps.",
    )  # fmt: skip
    answer = TextField(max_length=MAX_PROMPT_CHARS)
    index = WholeNumberField(
        min_value=0, max_value=MAX_GROUP - 1, required=False, default=None, allow_null=True,
        help_text="Which try of the task's group, as in X-Tentalis-Attempt; left out: the only one.",
    )  # fmt: skip
    last = TrueFalseField(
        required=False, default=None, allow_null=True,
        help_text="No other try is to come. Left out: so it is where it is the only one, or the group is whole.",
    )  # fmt: skip
