"""Training runs: specs out, results in."""

from typing import ClassVar

from django.db import models

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind as AuditKind
from apps.base.models import Stateful, Timestamped
from apps.evals.models import Benchmark
from apps.rollouts.models import Batch
from apps.tasks.models import Task
from apps.workers.models import Worker

MAX_FIT_CHARS = 500
"""Of what is said of a manager's training."""


class TrainingRun(Stateful):
    """One training: a batch into an adapter, labelled steps into a reward head, audits into a manager's adapter.

    Attributes:
        end_user: whose own line of adapters it continues; "" for the worker's.
        purpose: what comes out of it.
        name, comment, tags: what people call it and say of it.
        batch: what it learns from; None where the data is no batch of rollouts.
        rebuilds: the run that it does again without the data of somebody who was forgotten; None for any other.
        forgetting_id: of them (the row lives in an app that knows no trainings); None for any other run.
        learnt_from: ids of the tasks it learnt from, where it has no batch that says so; kept when they are deleted.
        priority: runs of higher priority go first among those of one project.
        not_before: it waits at least until then; waiting_reason: what it waits for, in words.
        attempt: tries so far; a result that carries another number is dropped.
        past_attempts: [[began, ended], …], ISO 8601: when the box was at work on those before the present one, as far
            as the day's quota asks.
        silences: of those, the ones that a box had begun before it was heard no more.
        untaken_since: when it was sent first of the attempts in a row that no box took up; None where one did.
        external_id: the run's name with the cluster that trains it; "" where the box itself does.
        checkpoint_uri: file:// directory of the newest checkpoint that a resumed attempt continues from.
        recipe, recipe_hash: how it learns, stored whole.
        metrics: one mapping per optimiser update; summary: the run in a few numbers; notes: what those do not
            say, in words.
        gates: [{"gate", "passed", "words", "found", "wanted"}, …], what was asked before and after training.
        alarms: [{"detector", "found", "allowed", "words", "update"}, …], raised while it trained.
        cost: {"gpu_s", "judge_tokens", "judge_usd", "human_minutes", …}, what it took.
        tracking: {"tensorboard": uri, …}, where its curves lie.
        heartbeat_at: last sign of life from the training box, database time; last_letter: its number, which grows.
        begun_at: when it was sent for the first time; started_at, finished_at: of its newest attempt.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Training"
        PAUSED = "paused", "Paused"
        SUCCEEDED = "succeeded", "Trained"
        FAILED = "failed", "Failed"
        REFUSED = "refused", "Refused"
        CANCELLED = "cancelled", "Cancelled"

    class Purpose(models.TextChoices):
        POLICY = "policy", "A worker's adapter"
        REWARD_MODEL = "reward_model", "A step scorer"
        MANAGER = "manager", "A manager's adapter"

    MOVES: ClassVar = {
        State.QUEUED: frozenset({State.RUNNING, State.PAUSED, State.FAILED, State.REFUSED, State.CANCELLED}),
        State.RUNNING: frozenset(
            {State.QUEUED, State.PAUSED, State.SUCCEEDED, State.FAILED, State.REFUSED, State.CANCELLED}
        ),
        State.PAUSED: frozenset({State.QUEUED, State.CANCELLED}),
        State.SUCCEEDED: frozenset(),
        State.FAILED: frozenset({State.QUEUED}),
        State.REFUSED: frozenset({State.QUEUED}),
        State.CANCELLED: frozenset({State.QUEUED}),
    }
    EVENTS: ClassVar = {
        State.QUEUED: AuditKind.RUN_RETRIED,
        State.RUNNING: AuditKind.RUN_STARTED,
        State.PAUSED: AuditKind.RUN_PAUSED,
        State.SUCCEEDED: AuditKind.RUN_SUCCEEDED,
        State.FAILED: AuditKind.RUN_FAILED,
        State.REFUSED: AuditKind.RUN_REFUSED,
        State.CANCELLED: AuditKind.RUN_CANCELLED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="runs")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="runs")
    end_user = models.CharField(max_length=200, blank=True, default="")
    purpose = models.CharField(max_length=16, choices=Purpose.choices, default=Purpose.POLICY)
    name = models.CharField(max_length=100, blank=True, default="", db_default="")
    comment = models.TextField(blank=True, default="", db_default="")
    tags = models.JSONField(default=list, blank=True, db_default=[])
    batch = models.OneToOneField(Batch, models.PROTECT, null=True, blank=True, related_name="run")
    parent = models.ForeignKey(
        Adapter, models.PROTECT, null=True, blank=True, related_name="+", help_text="Continued from."
    )
    rebuilds = models.OneToOneField("self", models.PROTECT, null=True, blank=True, related_name="rebuilt_by")
    forgetting_id = models.BigIntegerField(null=True, blank=True)
    learnt_from = models.JSONField(default=list, blank=True)
    backend = models.CharField(max_length=16, default="standalone")
    recipe = models.JSONField()
    recipe_hash = models.CharField(max_length=64)
    seed = models.BigIntegerField(default=0)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    priority = models.SmallIntegerField(default=0)
    not_before = models.DateTimeField(null=True, blank=True)
    waiting_reason = models.CharField(max_length=300, blank=True, default="")
    attempt = models.PositiveSmallIntegerField(default=0)
    past_attempts = models.JSONField(default=list, blank=True, db_default=[])
    silences = models.PositiveSmallIntegerField(default=0, db_default=0)
    untaken_since = models.DateTimeField(null=True, blank=True)
    external_id = models.CharField(max_length=120, blank=True, default="")
    checkpoint_uri = models.CharField(max_length=1000, blank=True, default="")
    spec = models.JSONField(default=dict)
    metrics = models.JSONField(default=list)
    summary = models.JSONField(default=dict)
    notes = models.JSONField(default=list, db_default=[])
    versions = models.JSONField(default=dict)
    gates = models.JSONField(default=list)
    alarms = models.JSONField(default=list)
    cost = models.JSONField(default=dict)
    tracking = models.JSONField(default=dict)
    failure = models.TextField(blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    last_letter = models.BigIntegerField(default=0)
    begun_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=~models.Q(purpose="policy") | models.Q(batch__isnull=False),
                name="a_policy_run_has_a_batch",
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="run_by_project"),
            models.Index(fields=["heartbeat_at"], condition=models.Q(state="running"), name="run_alive"),
        ]

    def __str__(self) -> str:
        return f"run {self.pk}"


class GpuLease(models.Model):
    """Who may train on a box now. One row a slot; a lease that was not renewed is free again (database time).

    Attributes:
        slot: name of the box and its slot, `gpu-0`.
        run: who holds it; None while free.
    """

    slot = models.CharField(max_length=64, unique=True)
    run = models.OneToOneField(TrainingRun, models.SET_NULL, null=True, blank=True, related_name="lease")
    expires_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.slot}: {self.run or 'free'}"


class ManagerRun(Stateful):
    """One re-fitting of a manager's own judgement (the outer loop).

    Attributes:
        manager: handle of whose judgement it is.
        kind: the rubric's weights (Bayesian), or an LLM manager's adapter.
        before, weights: the rubric's weights before and after, by item; empty for an adapter.
        adapter: {"name", "uri", "sha256"} of what was trained for an LLM manager; {} before, and for a rubric.
        parent: the fit that was in use then.
        run: the training of an LLM manager's adapter; None for a rubric.
        audits: how many audited judgements it was fitted on.
        learnt_from: ids of the tasks these were of; kept when they are deleted.
        metrics: {"auc_before", "auc_after", "gate", "control", …}; of an adapter also "held_out": the comparisons it is
            gated on, and "until": the newest audit that was known when it was queued.
        words: why it was applied, refused or rolled back.
    """

    class State(models.TextChoices):
        TRAINING = "training", "Being trained"
        FITTED = "fitted", "Fitted"
        APPLIED = "applied", "In use"
        REFUSED = "refused", "Refused"
        REPLACED = "replaced", "Replaced"
        ROLLED_BACK = "rolled_back", "Rolled back"
        BARRED = "barred", "Barred"

    class Kind(models.TextChoices):
        RUBRIC = "rubric", "Rubric weights"
        ADAPTER = "adapter", "Adapter of its own"

    MOVES: ClassVar = {
        State.TRAINING: frozenset({State.FITTED, State.REFUSED, State.BARRED}),
        State.FITTED: frozenset({State.APPLIED, State.REFUSED, State.BARRED}),
        State.APPLIED: frozenset({State.REPLACED, State.ROLLED_BACK, State.BARRED}),
        State.REPLACED: frozenset({State.APPLIED, State.BARRED}),
        State.REFUSED: frozenset({State.BARRED, State.FITTED}),  # the latter where it could not be judged
        State.ROLLED_BACK: frozenset({State.BARRED}),
        State.BARRED: frozenset(),
    }
    EVENTS: ClassVar = {
        State.FITTED: AuditKind.MANAGER_FITTED,
        State.APPLIED: AuditKind.MANAGER_APPLIED,
        State.REFUSED: AuditKind.MANAGER_REFUSED,
        State.REPLACED: AuditKind.MANAGER_REPLACED,
        State.ROLLED_BACK: AuditKind.MANAGER_ROLLED_BACK,
        State.BARRED: AuditKind.MANAGER_BARRED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="manager_runs")
    manager = models.CharField(max_length=120)
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.RUBRIC)
    state = models.CharField(max_length=16, choices=State.choices, default=State.TRAINING)
    parent = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="+")
    run = models.ForeignKey(TrainingRun, models.SET_NULL, null=True, blank=True, related_name="manager_runs")
    before = models.JSONField(default=dict)
    weights = models.JSONField(default=dict)
    adapter = models.JSONField(default=dict, db_default={})
    audits = models.PositiveIntegerField(default=0)
    learnt_from = models.JSONField(default=list, blank=True)
    metrics = models.JSONField(default=dict)
    words = models.CharField(max_length=MAX_FIT_CHARS, blank=True, default="")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["project", "manager", "kind"],
                condition=models.Q(state="applied"),
                name="one_applied_fit_per_manager",
            ),
            models.UniqueConstraint(
                fields=["project", "manager", "kind"],
                condition=models.Q(state="training"),
                name="one_training_per_manager",
            ),
        ]

    def __str__(self) -> str:
        return f"manager run {self.pk} of {self.manager}"

    @property
    def name(self) -> str:
        """Of the adapter that was trained; "" before, and for a rubric."""
        return str(self.adapter.get("name", ""))


class RewardEndpoint(models.Model):
    """Where an attempt at a run asks what its own answers are worth. Its secret is part of the address.

    Attributes:
        secret_hash: keyed hash of the secret, which is kept nowhere.
    """

    run = models.ForeignKey(TrainingRun, models.CASCADE, related_name="reward_endpoints")
    attempt = models.PositiveSmallIntegerField()
    secret_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "training_rewarddoor"
        constraints = [models.UniqueConstraint(fields=["run", "attempt"], name="one_reward_door_per_attempt")]

    def __str__(self) -> str:
        return f"rewards of {self.run}, attempt {self.attempt}"


class RewardAnswer(Timestamped):
    """What an answer was worth: the same question gets the same answer, however often it is asked.

    Attributes:
        query_sha256: of the prompt and answer.
        answer: {"rewards", "scores", "extra_logs"}, or {"feedback"}: what a tool said.
    """

    run = models.ForeignKey(TrainingRun, models.CASCADE, related_name="reward_answers")
    task = models.ForeignKey(Task, models.CASCADE, related_name="+")
    query_sha256 = models.CharField(max_length=64)
    answer = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "task", "query_sha256"], name="one_reward_per_answer"),
        ]

    def __str__(self) -> str:
        return f"reward in {self.run} of an answer to {self.task}"


class Course(Stateful):
    """A worker learns a benchmark: rounds of tasks from its train split, each followed by a training and the gate.

    Attributes:
        benchmark: its held-out split is what the gate measures on.
        rounds_wanted: at most; tasks_a_round, group_size: tasks of a round and attempts at each.
        patience: rounds in a row that brought no better adapter, after which it ends.
        backend, recipe: of its trainings, where they differ from the worker's.
        shown: of so many items the known answers are imitated in the first round; shown_recipe: of that one's training,
            beside the other.
        rule: when items are set aside (`CurriculumRule`); seed: of what is chosen, and of the tasks.
        reason: why it ended, or waits.
    """

    class State(models.TextChoices):
        RUNNING = "running", "Running"
        PAUSED = "paused", "Paused"
        DONE = "done", "Done"
        CANCELLED = "cancelled", "Cancelled"
        FAILED = "failed", "Failed"

    MOVES: ClassVar = {
        State.RUNNING: frozenset({State.PAUSED, State.DONE, State.CANCELLED, State.FAILED}),
        State.PAUSED: frozenset({State.RUNNING, State.CANCELLED, State.FAILED}),
        State.FAILED: frozenset({State.RUNNING}),
        State.DONE: frozenset(),
        State.CANCELLED: frozenset(),
    }
    EVENTS: ClassVar = {
        State.RUNNING: AuditKind.COURSE_RESUMED,
        State.PAUSED: AuditKind.COURSE_PAUSED,
        State.DONE: AuditKind.COURSE_FINISHED,
        State.CANCELLED: AuditKind.COURSE_CANCELLED,
        State.FAILED: AuditKind.COURSE_FAILED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="courses")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="courses")
    benchmark = models.ForeignKey(Benchmark, models.PROTECT, related_name="courses")
    started_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    rounds_wanted = models.PositiveSmallIntegerField()
    tasks_a_round = models.PositiveSmallIntegerField()
    group_size = models.PositiveSmallIntegerField()
    patience = models.PositiveSmallIntegerField()
    backend = models.CharField(max_length=16, blank=True, default="")
    recipe = models.JSONField(default=dict, blank=True)
    shown = models.PositiveSmallIntegerField(default=0, db_default=0)
    shown_recipe = models.JSONField(default=dict, db_default={}, blank=True)
    rule = models.JSONField()
    seed = models.BigIntegerField(default=0)
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    reason = models.CharField(max_length=500, blank=True, default="")
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["worker"], condition=models.Q(state__in=["running", "paused"]), name="one_course_per_worker"
            ),
        ]

    def __str__(self) -> str:
        return f"course {self.pk}"


class CourseRound(Timestamped):
    """A round of a course.

    Attributes:
        items: [[item, task], ...], by their ids. choice: how they were chosen (`curriculum.Choice`, without the items);
            {"shown": how many} where their known answers are imitated.
        results: item's id -> [tries with an outcome, right in full]; {} while its tasks are worked on.
        run: of its tasks; None until then, and where nothing could be learnt.
        is_better: whether the gate let its adapter through; None until it ended.
        words: what came of it.
    """

    course = models.ForeignKey(Course, models.CASCADE, related_name="rounds")
    number = models.PositiveSmallIntegerField()
    items = models.JSONField()
    choice = models.JSONField()
    results = models.JSONField(default=dict, blank=True)
    run = models.ForeignKey(TrainingRun, models.SET_NULL, null=True, blank=True, related_name="course_rounds")
    is_better = models.BooleanField(null=True)
    words = models.CharField(max_length=500, blank=True, default="")
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["course", "number"]
        constraints = [models.UniqueConstraint(fields=["course", "number"], name="one_round_per_number")]

    def __str__(self) -> str:
        return f"round {self.number} of course {self.course_id}"

    @property
    def project_id(self) -> int:
        return self.course.project_id

    @property
    def is_shown(self) -> bool:
        """Whether known answers are imitated, instead of the worker's own."""
        return "shown" in self.choice
