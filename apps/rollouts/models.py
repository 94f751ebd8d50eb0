"""The ledger: each usable attempt becomes exactly one rollout, each rollout enters exactly one batch."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind as AuditKind
from apps.base.models import Stateful, Timestamped
from apps.feedback.models import Feedback, Hint
from apps.tasks.models import Attempt, Task
from apps.workers.models import Worker
from tentalis.core.contracts import StepReward


class Rollout(Timestamped):
    """An attempt as training data: what was judged of it.

    Its exact tokens and their log-probs are its attempt's exchange: `apps.inference.models.Exchange.logprobs`.

    Attributes:
        worker: who did it; whose adapters it teaches says its batch.
        reward: in [0, 1]; None when nobody could judge it.
        steps: [[token_start, token_end, score or null, a person's word or null], …] of its sampled steps.
        missing_steps: steps a whole answer would have had beyond those.
        weight: trust in the judgement, in [0, 1]; without a reward, in who gave the hint.
        hint_weight: trust in who gave `hint`, in [0, 1]; None where there is none.
        reward_source: human, verified, ai or scorers: whose word the reward is.
        unusable_reason: why it trains nothing; "" for a usable one.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="rollouts")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="rollouts")
    task = models.ForeignKey(Task, models.CASCADE, related_name="rollouts")
    attempt = models.OneToOneField(Attempt, models.CASCADE, related_name="rollout")
    adapter = models.ForeignKey(Adapter, models.PROTECT, null=True, blank=True, related_name="rollouts")
    hint = models.ForeignKey(Hint, models.SET_NULL, null=True, blank=True, related_name="rollouts")
    is_usable = models.BooleanField()
    unusable_reason = models.CharField(max_length=300, blank=True)
    reward = models.FloatField(null=True)
    reward_source = models.CharField(max_length=16, blank=True)
    steps = models.JSONField(default=list)
    missing_steps = models.PositiveSmallIntegerField(default=0)
    weight = models.FloatField(default=1.0)
    hint_weight = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(is_usable=True, unusable_reason="") | (Q(is_usable=False) & ~Q(unusable_reason="")),
                name="an_unusable_rollout_has_a_reason",
            ),
            models.CheckConstraint(
                condition=Q(reward__isnull=True) | Q(reward__gte=0, reward__lte=1), name="reward_is_0_to_1"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="rollout_by_project"),
            models.Index(fields=["project", "-id"], condition=Q(is_usable=False), name="rollout_unusable_by_project"),
            models.Index(fields=["worker", "unusable_reason"], condition=Q(is_usable=False), name="rollout_unusable"),
        ]

    def __str__(self) -> str:
        return f"rollout {self.pk}"

    @property
    def step_rewards(self) -> list[StepReward]:
        """Its sampled steps as a trainer is told of them, places counted in all of the attempt's tokens."""
        return [
            StepReward(start=start, end=end, score=score, said=said[0] if said else None)
            for start, end, score, *said in self.steps
        ]


class Batch(Stateful):
    """What one training run learns from. Fills with rollouts task by task, closes when it holds enough tasks.

    Attributes:
        worker: whose line of adapters it trains; others may learn with it, and then theirs are here too.
        kind: what of it is learnt: its rollouts, or the pairs or demonstrations that were put to it when it closed.
        end_user: whose adapter it trains; "" for the worker's.
    """

    class State(models.TextChoices):
        OPEN = "open", "Filling"
        CLOSED = "closed", "Full"

    class Kind(models.TextChoices):
        ROLLOUTS = "rollouts", "Attempts and their rewards"
        PAIRS = "pairs", "Pairs of answers"
        DEMONSTRATIONS = "demonstrations", "Answers to imitate"

    HELD: ClassVar[Mapping[str, tuple[str, str, Sequence[str]]]] = {
        Kind.ROLLOUTS: ("uses", "rollout__task", ("attempt",)),
        Kind.PAIRS: ("preferencepairs", "task", ("chosen", "rejected")),
        Kind.DEMONSTRATIONS: ("demonstrations", "task", ("attempt",)),
    }
    """Kind -> its rows' name here, their path to the task, the attempts of a row, or of the rollout it is for."""
    MOVES: ClassVar = {State.OPEN: frozenset({State.CLOSED}), State.CLOSED: frozenset()}
    EVENTS: ClassVar = {State.CLOSED: AuditKind.BATCH_CLOSED}

    project = models.ForeignKey(Project, models.CASCADE, related_name="batches")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="batches")
    end_user = models.CharField(max_length=200, blank=True, default="")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.ROLLOUTS, db_default="rollouts")
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    target_tasks = models.PositiveIntegerField()
    task_count = models.PositiveIntegerField(default=0)
    rollout_count = models.PositiveIntegerField(default=0)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "batches"
        constraints = [
            models.UniqueConstraint(fields=["worker", "number"], name="batch_number_is_unique"),
            models.UniqueConstraint(
                fields=["worker", "end_user"], condition=Q(state="open"), name="one_open_batch_per_line"
            ),
        ]

    def items(self) -> models.QuerySet[Any]:
        """The rows by which it holds what it teaches: uses of rollouts, pairs or demonstrations."""
        rows: models.QuerySet[Any] = getattr(self, self.HELD[self.kind][0]).all()
        return rows

    def task_ids(self) -> models.QuerySet[Any]:
        """The tasks of its items, for a subquery; one for each item."""
        return self.items().order_by().values(self.task_path)

    @property
    def task_path(self) -> str:
        """From an item to its task."""
        return self.HELD[self.kind][1]

    @property
    def attempt_fields(self) -> Sequence[str]:
        """The fields that are attempts: of an item, or of the rollout that it is for."""
        return self.HELD[self.kind][2]

    def __str__(self) -> str:
        return f"batch {self.number} of {self.worker}{f' for {self.end_user}' if self.end_user else ''}"


class TrainingUse(models.Model):
    """A rollout's one place in one batch. The primary key is the promise."""

    rollout = models.OneToOneField(Rollout, models.CASCADE, primary_key=True, related_name="training_use")
    batch = models.ForeignKey(Batch, models.CASCADE, related_name="uses")

    def __str__(self) -> str:
        return f"rollout {self.rollout_id} in batch {self.batch_id}"


class LearningItem(Timestamped):
    """What people's or a world's word on a task gives to learn from beside rewards: a pair, or a demonstration.

    It can be followed back to the feedback, and by it to the person; or to the attempts, and by them to their rewards.

    Attributes:
        worker: whose line of adapters it teaches: who did the task, or whom that one learns with.
        end_user: whose adapter it teaches; "" for the worker's.
        feedback: whose word it is; None where the rewards of the attempts say it.
        text: the better answer in words, where nobody sampled it; "" where it is an attempt's own tokens.
        kept_tokens: of the attempt whose answer is replaced, how many tokens stay before it and are read, not learnt.
        messages: the conversation it answers, where no attempt tells it in tokens.
        weight: trust in it, in (0, 1].
        digest: of what it says; the same is not learnt twice from one task.
        batch: its one place in one batch; None: not used yet.
        unusable_reason: why it can enter none; "" where it may.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="%(class)ss")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="%(class)ss")
    task = models.ForeignKey(Task, models.CASCADE, related_name="%(class)ss")
    end_user = models.CharField(max_length=200, blank=True, default="")
    feedback = models.ForeignKey(Feedback, models.CASCADE, null=True, blank=True, related_name="%(class)ss")
    text = models.TextField(blank=True)
    kept_tokens = models.PositiveIntegerField(default=0)
    messages = models.JSONField(default=list, blank=True)
    weight = models.FloatField(default=1.0)
    digest = models.CharField(max_length=64)
    batch = models.ForeignKey(Batch, models.PROTECT, null=True, blank=True, related_name="%(class)ss")
    unusable_reason = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        abstract = True
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["task", "digest"], name="%(class)s_is_told_once"),
            models.CheckConstraint(condition=Q(weight__gt=0, weight__lte=1), name="%(class)s_weight_is_0_to_1"),
        ]
        indexes = [
            models.Index(
                fields=["worker", "end_user", "id"],
                condition=Q(batch__isnull=True, unusable_reason=""),
                name="%(class)s_unused",
            )
        ]


class PreferencePair(LearningItem):
    """Two answers to one prompt, the first better.

    Attributes:
        source: attempts (rewards differ), choice (preferred or ranked), edit, supervision, ensemble (the attempts
            are of two workers or two adapters, whoever prefers one), or imported.
        chosen: the better attempt; None where `text` is better. rejected: the worse one; None where `rejected_text` is.
    """

    class Source(models.TextChoices):
        ATTEMPTS = "attempts", "Rewards of two attempts"
        CHOICE = "choice", "A choice or a ranking"
        EDIT = "edit", "An edited answer"
        SUPERVISION = "supervision", "A decision on a proposed step"
        ENSEMBLE = "ensemble", "Members of an ensemble disagreed"
        IMPORTED = "imported", "An imported pair"

    source = models.CharField(max_length=16, choices=Source.choices)
    chosen = models.ForeignKey(Attempt, models.CASCADE, null=True, blank=True, related_name="chosen_in")
    rejected = models.ForeignKey(Attempt, models.CASCADE, null=True, blank=True, related_name="rejected_in")
    rejected_text = models.TextField(blank=True)

    class Meta(LearningItem.Meta):
        constraints = [
            *LearningItem.Meta.constraints,
            models.CheckConstraint(
                condition=(Q(chosen__isnull=True) ^ Q(text="")) & (Q(rejected__isnull=True) ^ Q(rejected_text="")),
                name="a_pair_has_two_answers",
            ),
        ]

    def __str__(self) -> str:
        return f"pair {self.pk} of task {self.task_id}"


class Demonstration(LearningItem):
    """An answer to imitate: an attempt's own, or the text a person gave instead of its.

    Attributes:
        source: edit, guided (a person decided on its steps), attempt (a good one), or imported.
    """

    class Source(models.TextChoices):
        EDIT = "edit", "An edited answer"
        GUIDED = "guided", "Work under supervision"
        ATTEMPT = "attempt", "A good attempt"
        IMPORTED = "imported", "An imported answer"

    source = models.CharField(max_length=16, choices=Source.choices)
    attempt = models.ForeignKey(Attempt, models.CASCADE, null=True, blank=True, related_name="demonstrations")

    class Meta(LearningItem.Meta):
        pass

    def __str__(self) -> str:
        return f"demonstration {self.pk} of task {self.task_id}"
