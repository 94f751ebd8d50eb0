"""Tasks, the attempts at them, and the steps of those."""

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Prefetch, Q
from django.utils.functional import cached_property

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter, Shadow
from apps.audit.kinds import Kind
from apps.base.models import Stateful, Timestamped
from apps.base.word_index import Words
from apps.evals.models import Evaluation
from apps.inference.models import Exchange
from apps.workers.models import Worker

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

TASK_WORDS = ("prompt", "answer")
"""What of a task can be searched; what a right answer holds cannot."""
FROM_SESSION = "from_session"
"""Key of a task's metadata: the session whose first words it is."""
END_USER = "end_user"
"""Key of a task's metadata: whom it is about, as sessions name people; it goes when they are forgotten."""
BLIND_PAIR = "blind_pair"
"""Key of a task's metadata: so many people compare its two answers, without knowing whose they are."""
OF_ITEM = "item"
"""Hash of the held-out item whose answers are compared, where that is a conversation."""
SEARCHED_STATES = ("in_review", "done", "failed", "cancelled")
"""States in which a task stays: only there its words stand in the index, for each move writes them anew."""


class TaskQuerySet(models.QuerySet["Task"]):
    def visible_to(self, user: "User | AnonymousUser") -> "TaskQuerySet":
        return self.filter(project__in=Project.objects.visible_to(user))


class Task(Stateful):
    """Work given to an agent.

    Attributes:
        parent: what it is part of, or does again: an earlier one, so that no task is part of itself.
        evaluation: what it is a try of: it is graded for that alone, and nothing is ever learnt from it; None of work.
        pins: try's index -> name of the adapter that answers all of that try's calls, "" for the base model.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        WORKING = "working", "Working"
        SCORING = "scoring", "Scoring"
        IN_REVIEW = "in_review", "In review"
        LEARNING = "learning", "Learning"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"

    MOVES: ClassVar = {
        State.QUEUED: frozenset({State.WORKING, State.SCORING, State.FAILED, State.CANCELLED}),
        State.WORKING: frozenset({State.SCORING, State.FAILED, State.CANCELLED}),
        State.SCORING: frozenset({State.IN_REVIEW, State.LEARNING, State.DONE, State.FAILED, State.CANCELLED}),
        State.IN_REVIEW: frozenset({State.LEARNING, State.FAILED, State.CANCELLED}),
        State.LEARNING: frozenset({State.DONE, State.IN_REVIEW, State.FAILED, State.CANCELLED}),
        State.DONE: frozenset(),
        State.FAILED: frozenset({State.QUEUED, State.SCORING, State.LEARNING}),
        State.CANCELLED: frozenset(),
    }
    EVENTS: ClassVar = {
        State.QUEUED: Kind.TASK_REPLAYED,
        State.WORKING: Kind.TASK_STARTED,
        State.SCORING: Kind.TASK_ATTEMPTED,
        State.IN_REVIEW: Kind.TASK_IN_REVIEW,
        State.LEARNING: Kind.TASK_LEARNING,
        State.DONE: Kind.TASK_DONE,
        State.FAILED: Kind.TASK_FAILED,
        State.CANCELLED: Kind.TASK_CANCELLED,
    }
    FINAL: ClassVar = frozenset({State.DONE, State.FAILED, State.CANCELLED})

    project = models.ForeignKey(Project, models.CASCADE, related_name="tasks")
    worker = models.ForeignKey(Worker, models.PROTECT, related_name="tasks")
    submitted_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    parent = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="children")
    environment = models.CharField(max_length=32)
    prompt = models.TextField()
    reference = models.JSONField(null=True, blank=True, help_text="What a right answer holds, where it is known.")
    checks = models.JSONField(null=True, blank=True, help_text="What else a right answer is (`apps.checks`).")
    metadata = models.JSONField(default=dict, blank=True)
    group_size = models.PositiveSmallIntegerField()
    seed = models.BigIntegerField(null=True, blank=True, help_text="For sampling; empty: chosen by the engine.")
    bands: "ArrayField[list[int] | None, list[int] | None]" = ArrayField(
        models.BigIntegerField(), null=True, blank=True, editable=False,
        help_text="What finds the same words again, where the project puts own work aside.",
    )  # fmt: skip
    evaluation = models.ForeignKey(
        Evaluation, models.CASCADE, null=True, blank=True, related_name="tasks", editable=False, db_index=False
    )
    pins = models.JSONField(default=dict, db_default={}, editable=False)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    answer = models.TextField(blank=True, help_text="The best attempt's answer.")
    score = models.FloatField(null=True, help_text="Mean combined score of its attempts, in [0, 1].")
    failed_link = models.CharField(max_length=64, blank=True)
    failure = models.TextField(blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = TaskQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(group_size__gte=1, group_size__lte=64), name="task_group_is_1_to_64"),
            models.CheckConstraint(
                condition=Q(parent__isnull=True) | Q(parent__lt=F("id")), name="task_is_part_of_an_earlier_one"
            ),
        ]
        indexes = [
            models.Index(fields=["project", "-id"], name="task_by_project"),
            models.Index(fields=["project", "state", "-id"], name="task_by_state"),
            models.Index(
                fields=["worker", "id"],
                condition=Q(state__in=["queued", "working", "scoring", "in_review", "learning"]),
                name="task_open_by_worker",
            ),
            models.Index(fields=["project", "-updated_at"], condition=Q(state="done"), name="task_done_by_time"),
            models.Index(fields=["project", "score", "id"], name="task_by_score"),
            GinIndex(Words(*TASK_WORDS), condition=Q(state__in=SEARCHED_STATES), name="task_words"),
            models.Index(fields=["project"], condition=Q(metadata__has_key=FROM_SESSION), name="task_from_session"),
            GinIndex(fields=["bands"], condition=Q(bands__isnull=False), name="task_bands"),
            models.Index(fields=["evaluation"], condition=Q(evaluation__isnull=False), name="task_of_evaluation"),
        ]

    def __str__(self) -> str:
        return f"task {self.pk}"

    @property
    def people_per_pair(self) -> int:
        """How many people compare its two answers; 0 of other work."""
        found = self.metadata.get(BLIND_PAIR)
        return found if type(found) is int and found > 0 else 0


class EndedAttempts(models.Manager["Attempt"]):
    """Attempts that have come to their end, and stand for their place in the group: what all read who read answers."""

    def get_queryset(self) -> models.QuerySet["Attempt"]:
        return super().get_queryset().exclude(state__in=Attempt.NOT_YET)


class Attempt(Timestamped):
    """One try at a task by one worker with one adapter version. In a world with turns it exists from its start: those
    that are under way, or were lost and are played anew, are in `every` only; nobody who asks `objects`, or a task for
    its `attempts`, takes one for an answer.

    Attributes:
        index: place in the group, from 0.
        exchange: the call that made it, with its exact tokens; None for an outside agent's own result.
        outcome: verified result in [0, 1]; None where nothing can verify it.
        verification: all that was verified (`Verification.to_json`); None until then, and where nothing can.
        score: combined score in [0, 1]; None while unscored.
        score_details: weights used, what was redistributed from whom and why, and which judges were asked, by
            scorers and by checks.
        unfit: why its tokens may train nothing, whatever is said of it; "" where they may.
        hidden: [[start, end], …], stretches of its tokens that are kept out of the loss.
        is_private: its conversation holds what must not be written into training files.
    """

    class State(models.TextChoices):
        RUNNING = "running", "Running"
        WAITING = "waiting", "Waiting for approval"
        ANSWERED = "answered", "Answered"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"
        LOST = "lost", "Lost to a fault, and played anew"

    UNDER_WAY: ClassVar = (State.RUNNING, State.WAITING)
    NOT_YET: ClassVar = (*UNDER_WAY, State.LOST)
    was_waiting = False
    """Its last turn's calls were approved, or refused, and have not been made."""

    task = models.ForeignKey(Task, models.CASCADE, related_name="attempts")
    index = models.PositiveSmallIntegerField()
    worker = models.ForeignKey(Worker, models.PROTECT, related_name="+")
    adapter = models.ForeignKey(
        Adapter, models.PROTECT, null=True, blank=True, related_name="attempts", help_text="Empty: base model."
    )
    exchange = models.OneToOneField(Exchange, models.SET_NULL, null=True, blank=True, related_name="attempt")
    state = models.CharField(max_length=16, choices=State.choices, default=State.ANSWERED)
    text = models.TextField(blank=True)
    answer = models.TextField(blank=True)
    error = models.TextField(blank=True)
    outcome = models.FloatField(null=True)
    verification = models.JSONField(null=True)
    score = models.FloatField(null=True)
    score_details = models.JSONField(default=dict)
    missing_steps = models.PositiveSmallIntegerField(default=0)
    elapsed_s = models.FloatField(null=True)
    unfit = models.CharField(max_length=300, blank=True, default="", db_default="")
    hidden = models.JSONField(default=list, db_default=[], blank=True)
    is_private = models.BooleanField(default=False, db_default=False)

    objects = EndedAttempts()
    every: "models.Manager[Attempt]" = models.Manager()

    class Meta:
        ordering = ["index"]
        constraints = [
            models.UniqueConstraint(fields=["task", "index"], condition=~Q(state="lost"), name="one_attempt_per_place"),
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(score__gte=0, score__lte=1), name="attempt_score_is_0_to_1"
            ),
            models.CheckConstraint(
                condition=Q(outcome__isnull=True) | Q(outcome__gte=0, outcome__lte=1), name="attempt_outcome_is_0_to_1"
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.index + 1} at task {self.task_id}"

    @cached_property
    def ordered_steps(self) -> list["Step"]:
        """Its steps; `WITH_STEPS` reads those of many."""
        return list(self.steps.all())

    @cached_property
    def further_calls(self) -> list["FurtherExchange"]:
        """Its calls behind the first, with their exchanges."""
        return list(self.further.select_related("exchange"))

    @cached_property
    def last_finish_reason(self) -> str:
        """Why its last call ended, in its server's words; "" where no call is known."""
        if self.further_calls:
            return self.further_calls[-1].exchange.finish_reason
        return self.exchange.finish_reason if self.exchange else ""


# into an attribute: a related manager's cache costs a copy of a query for each attempt
WITH_STEPS: Any = Prefetch("steps", to_attr="ordered_steps")


class FurtherExchange(models.Model):
    """A later call of an attempt that took several. Where its prompt continues the call before it token for token, both
    are one sequence, in which what the agent was told between them is not sampled; else it begins one of its own.

    Attributes:
        place: from 1; the attempt's own `exchange` is 0.
    """

    exchange = models.OneToOneField(Exchange, models.CASCADE, primary_key=True, related_name="further_of")
    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="further")
    place = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["place"]
        constraints = [models.UniqueConstraint(fields=["attempt", "place"], name="one_exchange_per_place")]

    def __str__(self) -> str:
        return f"exchange {self.exchange_id} of attempt {self.attempt_id}"


WITH_CALLS: Any = Prefetch("further", FurtherExchange.objects.select_related("exchange"), to_attr="further_calls")


class EpisodeTurn(models.Model):
    """One turn of an episode: written before its calls are made, completed behind them. So whoever takes up an episode
    that was interrupted knows what was done, and what nobody knows the fate of.

    Attributes:
        index: from 0.
        exchange: what its model was asked and said.
        added: what it added to the conversation, where that is not the answer as it stands in the exchange.
        calls: what was to be done (`tentalis.core.worlds.ToolCall`): [] where it is the last word.
        observations: what the world said to each, as its model was shown it: [{"text", "ends"?, "details"?,
            "sha256"?, "screenshot"?: {"sha256", "width", "height"}}]; None until then. `sha256` is of the whole text
            where less was shown, or of the PNG: a file by that name (`apps.tasks.observations`).
        state_hash: of the world's state behind it.
        snapshot: of that state; kept of the newest turn that has one, while the episode goes on.
    """

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="turns")
    index = models.PositiveSmallIntegerField()
    exchange = models.OneToOneField(Exchange, models.SET_NULL, null=True, related_name="episode_turn")
    added = models.JSONField(null=True)
    calls = models.JSONField(default=list)
    observations = models.JSONField(null=True)
    state_hash = models.CharField(max_length=64, blank=True)
    snapshot = models.BinaryField(null=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["index"]
        constraints = [models.UniqueConstraint(fields=["attempt", "index"], name="one_turn_of_an_attempt_per_place")]

    def __str__(self) -> str:
        return f"turn {self.index + 1} of attempt {self.attempt_id}"

    @property
    def elapsed_s(self) -> float | None:
        return None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()

    @property
    def told(self) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """(call, observation) of each call; None for one that was not made, or whose fate is not known yet."""
        seen = self.observations or []
        return list(zip_longest(self.calls, seen[: len(self.calls)]))


class Step(models.Model):
    """One reasoning step or tool call of an attempt.

    Attributes:
        kind: step, call, answer, or other (text outside every tag).
        token_start, token_end: span [start, end) in the exchange's token_ids; None without exact tokens.
        token_overlap: characters before the step that stand in one token with its first; that token, the last before
            token_start, is not the step's. 0 where a token begins with the step; None where that is not known.
        tool_result: what the environment gave back to a call.
    """

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="steps")
    index = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=16)
    text = models.TextField()
    tool_name = models.CharField(max_length=100, blank=True)
    tool_result = models.TextField(blank=True)
    token_start = models.PositiveIntegerField(null=True)
    token_end = models.PositiveIntegerField(null=True)
    token_overlap = models.PositiveIntegerField(null=True)

    class Meta:
        ordering = ["index"]
        constraints = [models.UniqueConstraint(fields=["attempt", "index"], name="one_step_per_place")]

    def __str__(self) -> str:
        return f"step {self.index + 1} of {self.attempt_id}"


class ShadowAttempt(Timestamped):
    """A try at a task that nobody sees: it is no attempt of the task's, is never reviewed and trains nothing.

    Attributes:
        exchange: the call that made it, of turn `shadow`.
        outcome, score: as an attempt's; None where nothing could tell.
        details: weights of the scorers that said the score.
    """

    shadow = models.ForeignKey(Shadow, models.CASCADE, related_name="attempts")
    task = models.ForeignKey(Task, models.CASCADE, related_name="shadow_attempts")
    exchange = models.OneToOneField(Exchange, models.SET_NULL, null=True, blank=True, related_name="shadow_attempt")
    answer = models.TextField(blank=True)
    error = models.TextField(blank=True)
    outcome = models.FloatField(null=True)
    score = models.FloatField(null=True)
    details = models.JSONField(default=dict)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["shadow", "task"], name="one_shadow_attempt_per_task")]

    def __str__(self) -> str:
        return f"shadow attempt {self.pk} at task {self.task_id}"

    @property
    def worth(self) -> float | None:
        """In [0, 1]: what was verified, else what was scored; 0 where there is no answer."""
        if self.error:
            return 0.0
        return self.score if self.outcome is None else self.outcome
