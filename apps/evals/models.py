"""What workers are measured on: named, versioned sets of tasks; and how they did."""

from datetime import datetime
from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Count, Q

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.audit.kinds import Kind
from apps.base.models import Stateful, Timestamped
from apps.workers.models import Worker
from tentalis.core.scoring.calibration import Interval, wilson_interval

PASSED = 0.9999
"""An outcome of which nothing is missing; they are kept with four decimals."""


class Taskset(Timestamped):
    """A named set of items of one environment. A frozen version never changes; a change of it makes the next."""

    class Origin(models.TextChoices):
        MADE = "made", "Made by hand"
        OWN_WORK = "own_work", "Own work, put aside as it came"
        IMPORTED = "imported", "Asked in runs of other tools"
        REGRESSIONS = "regressions", "Corrections that must hold"

    project = models.ForeignKey(Project, models.CASCADE, related_name="tasksets")
    name = models.SlugField(max_length=100)
    version = models.PositiveIntegerField(default=1)
    environment = models.CharField(max_length=64)
    origin = models.CharField(max_length=16, choices=Origin.choices, default=Origin.MADE)
    about = models.TextField(blank=True)
    frozen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["project", "name", "version"], name="taskset_version_is_unique"),
            models.UniqueConstraint(
                fields=["project", "name"], condition=Q(frozen_at=None), name="one_open_version_per_taskset"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


class Item(Timestamped):
    """A task of a set.

    Attributes:
        split: held_out and skills are only ever measured on; skills are those that must not be lost.
        messages: the whole conversation it ends, where it is more than a prompt; [] otherwise.
        checks: what a right answer is, as data; None where the reference, the world or people say it.
        source: where it comes from, in words, such as `task 12` or `tickets.jsonl, line 3`.
        category: what figures are told apart by; "" for none.
        answer: a right one in words, of an item to train on, that may be shown to be imitated; "" where none is known.
        content_hash, bands: of its words (`tentalis.core.near_duplicates`).
    """

    class Split(models.TextChoices):
        TRAIN = "train", "Train"
        HELD_OUT = "held_out", "Held out"
        SKILLS = "skills", "Skills"

    MEASURED = (Split.HELD_OUT, Split.SKILLS)

    taskset = models.ForeignKey(Taskset, models.CASCADE, related_name="items")
    split = models.CharField(max_length=16, choices=Split.choices)
    prompt = models.TextField()
    messages = models.JSONField(default=list, blank=True)
    reference = models.JSONField(null=True, blank=True)
    checks = models.JSONField(null=True, blank=True)
    seed = models.BigIntegerField(null=True, blank=True)
    weight = models.FloatField(default=1.0)
    source = models.CharField(max_length=200, blank=True)
    category = models.CharField(max_length=64, blank=True, default="", db_default="")
    answer = models.TextField(blank=True, default="", db_default="")
    content_hash = models.CharField(max_length=64)
    bands: "ArrayField[list[int], list[int]]" = ArrayField(models.BigIntegerField())

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["taskset", "content_hash"], name="one_item_per_words"),
            models.CheckConstraint(condition=Q(split__in=["train", "held_out", "skills"]), name="item_split_is_known"),
            models.CheckConstraint(condition=Q(weight__gt=0, weight__lte=100), name="item_weight_is_0_to_100"),
        ]
        indexes = [GinIndex(fields=["bands"], name="item_bands")]

    def __str__(self) -> str:
        return f"item {self.pk}"


class Benchmark(Timestamped):
    """A benchmark as a project has it: a taskset, what asks its items and what grades the answers. A version never
    changes.

    Attributes:
        entry, entry_version: of the catalogue.
        split: that is measured on.
        grader: name and version; "" where the world verifies.
        template: of the prompts, as they were made with it.
        tries: of each item, where nobody says otherwise.
        needs: what it wants beside a model (`catalogue.NEEDS`).
        source: where its rows come from, in words; content_hash: of all of its items and this.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="benchmarks")
    name = models.CharField(max_length=100)
    version = models.PositiveIntegerField(default=1)
    entry = models.CharField(max_length=100)
    entry_version = models.CharField(max_length=32)
    taskset = models.ForeignKey(Taskset, models.PROTECT, related_name="benchmarks")
    split = models.CharField(max_length=16, choices=Item.Split.choices, default=Item.Split.HELD_OUT)
    grader = models.CharField(max_length=120, blank=True)
    template = models.TextField(blank=True)
    tries = models.PositiveSmallIntegerField(default=1)
    licence = models.CharField(max_length=100)
    needs = models.JSONField(default=list, blank=True)
    source = models.CharField(max_length=200)
    content_hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["name", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["project", "name", "version"], name="benchmark_version_is_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


class ChosenPanel(Timestamped):
    """What the gate measures a worker's adapters on, where somebody chose it: the held-out items of one taskset."""

    GOES_WITH_WORKER: ClassVar = True  # no evidence of work: what was measured on it is

    worker = models.OneToOneField(Worker, models.CASCADE, related_name="chosen_panel")
    taskset = models.ForeignKey(Taskset, models.PROTECT, related_name="+")

    def __str__(self) -> str:
        return f"{self.worker} on {self.taskset}"


class EvaluationQuerySet(models.QuerySet["Evaluation"]):
    """Reads of evaluations."""

    def on_panels(self) -> Self:
        """Those on kept panels that came to a result."""
        return self.filter(purpose=Evaluation.Purpose.PANEL, items__gt=0)


class Evaluation(Stateful):
    """How one model did on a set of items: asked once for the same items, tries and settings, and compared many times.

    Attributes:
        adapter: None for the base model.
        purpose: the question it belongs to: `panel` the kept held-out panel; `fresh` tasks drawn for one candidate;
            `repeat` the panel once more with other seeds, for the noise; `skills` what the base model can and no reward
            sees; `scale` a part of the panel at another strength; `more` tasks beyond those, where they leave a doubt;
            `capability` texts and pairs of sentences that the server scores, and no reward sees; `alignment` scenarios
            that tell whether it is honest; `report` what a person or a benchmark asked for.
        item_set, item_set_hash: name of the items, and the hash of what they say and their seeds: the same hash means
            the same items, by which results pair. The hash is "" where it was measured before items had keys.
        taskset, split: where the items come from; None and "" where a world made them up.
        benchmark: whose items these are; None for none.
        indices: places of the items in their split, from 0; []: the first ones.
        tries: of each item; is_greedy: the likeliest answer; else sampled as in service.
        limits: how much it may take (`apps.evals.limits.RunLimits`); seconds: that it was at work so far.
        made_with: what it was made with, to be read: versions, hashes of code, prompt and sampling.
        replay_of: the run whose prompts it asks once more, byte for byte; None: of none.
        asked_with: what else decides its answers and grades: the base model's name, the system prompt's hash, the
            sampling and the world's full name (`measuring.describe_asking`); {} where it was measured before that was
            kept. asked_hash: of that.
        scale: share of its strength that the adapter was served at.
        seed: added to every item's own.
        planned, played, unscored: tries. The gate stops where more would change nothing, and may go on later: what is
            done may hold fewer than planned.
        items: that have an outcome; mean_outcome, mean_step_score: over these, each the mean of its tries, in [0, 1],
            as much as its weight says. effective_items: so many of equal weight say as much; None: all weigh the same.
        profile: what the answers look like (`AnswerProfile`); {} while it runs.
        asked_by: "" for the gate.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        PAUSED = "paused", "Paused"
        WAITING = "waiting", "Waiting for its agent"
        DONE = "done", "Done"
        CANCELLED = "cancelled", "Cancelled"
        FAILED = "failed", "Failed"

    class Purpose(models.TextChoices):
        PANEL = "panel", "Held-out panel"
        FRESH = "fresh", "Tasks drawn anew"
        REPEAT = "repeat", "The panel once more"
        SKILLS = "skills", "Skills"
        SCALE = "scale", "Another strength"
        MORE = "more", "Further tasks"
        CAPABILITY = "capability", "What the base model can do besides"
        ALIGNMENT = "alignment", "Honest where it is tempted"
        REPORT = "report", "Asked for"

    MOVES: ClassVar = {
        State.QUEUED: frozenset({State.RUNNING, State.PAUSED, State.CANCELLED, State.FAILED}),
        State.RUNNING: frozenset({State.WAITING, State.DONE, State.PAUSED, State.CANCELLED, State.FAILED}),
        State.WAITING: frozenset({State.RUNNING, State.DONE, State.PAUSED, State.CANCELLED, State.FAILED}),
        State.PAUSED: frozenset({State.QUEUED, State.CANCELLED, State.DONE, State.FAILED}),
        State.DONE: frozenset({State.WAITING, State.FAILED}),
        State.CANCELLED: frozenset(),
        State.FAILED: frozenset({State.QUEUED}),
    }
    EVENTS: ClassVar = {
        State.QUEUED: Kind.EVAL_QUEUED,
        State.RUNNING: Kind.EVAL_STARTED,
        State.PAUSED: Kind.EVAL_PAUSED,
        State.WAITING: Kind.EVAL_WAITING,
        State.DONE: Kind.EVAL_FINISHED,
        State.CANCELLED: Kind.EVAL_CANCELLED,
        State.FAILED: Kind.EVAL_FAILED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="evaluations")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="evaluations")
    adapter = models.ForeignKey(Adapter, models.CASCADE, null=True, blank=True, related_name="evaluations")
    purpose = models.CharField(max_length=16, choices=Purpose.choices)
    item_set = models.CharField(max_length=200)
    item_set_hash = models.CharField(max_length=32, blank=True)
    taskset = models.ForeignKey(Taskset, models.PROTECT, null=True, blank=True, related_name="evaluations")
    split = models.CharField(max_length=16, choices=Item.Split.choices, blank=True, default="")
    benchmark = models.ForeignKey(Benchmark, models.PROTECT, null=True, blank=True, related_name="evaluations")
    tries = models.PositiveSmallIntegerField(default=1)
    is_greedy = models.BooleanField(default=False)
    asked_with = models.JSONField(default=dict, db_default={}, blank=True)
    asked_hash = models.CharField(max_length=32, blank=True, default="", db_default="")
    scale = models.FloatField(default=1.0)
    seed = models.BigIntegerField(default=0)
    indices = models.JSONField(default=list, db_default=[], blank=True)
    limits = models.JSONField(default=dict, db_default={}, blank=True)
    made_with = models.JSONField(default=dict, db_default={}, blank=True)
    replay_of = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="replays")
    seconds = models.FloatField(default=0.0, db_default=0.0)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    planned = models.PositiveIntegerField()
    played = models.PositiveIntegerField(default=0)
    unscored = models.PositiveIntegerField(default=0)
    items = models.PositiveIntegerField(default=0)
    effective_items = models.FloatField(null=True)
    mean_outcome = models.FloatField(null=True)
    mean_step_score = models.FloatField(null=True)
    profile = models.JSONField(default=dict, blank=True)
    failure = models.TextField(blank=True, default="")
    asked_by = models.CharField(max_length=150, blank=True, default="")
    finished_at = models.DateTimeField(null=True)

    objects = EvaluationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    *("worker", "adapter", "purpose", "item_set", "item_set_hash"),
                    *("tries", "is_greedy", "scale", "seed", "asked_hash", "replay_of"),
                ],
                condition=~Q(state__in=["failed", "cancelled"]),
                name="measured_once",
                nulls_distinct=False,
            ),
        ]
        indexes = [models.Index(fields=["project", "-id"], name="evaluation_by_project")]

    @property
    def is_imported(self) -> bool:
        """Whether another tool made it (`apps.evals.importing`): nothing of it can be asked again."""
        return "imported" in self.made_with

    @property
    def keeps_records(self) -> bool:
        """Whether all that comes of its tries is kept."""
        return self.purpose == self.Purpose.REPORT

    @property
    def interval(self) -> Interval | None:
        """Of the mean outcome, at 95 %, over as many items of equal weight as say as much; for outcomes between 0 and 1
        it is wider than it need be."""
        if self.mean_outcome is None:
            return None
        size = self.items if self.effective_items is None else self.effective_items
        return wilson_interval(self.mean_outcome * size, size)

    @property
    def share_passed(self) -> float | None:
        """Share of the tries with an outcome that have all of it: every check passed; None where none has one."""
        known = self.item_tries.filter(outcome__isnull=False)
        found = known.aggregate(all=Count("pk"), passed=Count("pk", filter=Q(outcome__gte=PASSED)))
        return found["passed"] / found["all"] if found["all"] else None

    @property
    def low(self) -> float | None:
        return None if self.interval is None else self.interval.low

    @property
    def high(self) -> float | None:
        return None if self.interval is None else self.interval.high

    def __str__(self) -> str:
        found = f"{self.mean_outcome:.3f}" if self.mean_outcome is not None else self.state
        return f"{self.adapter or 'base'} on {self.item_set}: {found}"


class Experiment(Timestamped):
    """Questions that are asked together, so that what one of them is answered is corrected for how many there are.

    Attributes:
        experiment: its name.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="experiments")
    experiment = models.CharField(max_length=100)
    asked_by = models.CharField(max_length=150)

    def __str__(self) -> str:
        return self.experiment

    @property
    def evaluations(self) -> list[Evaluation]:
        return [side for one in self.scenarios.all() for side in (one.candidate, one.reference)]

    @property
    def finished_at(self) -> datetime | None:
        """When the last of its evaluations ended; None before."""
        ended = [one.finished_at for one in self.evaluations if one.state == Evaluation.State.DONE]
        known = [at for at in ended if at is not None]
        return max(known) if len(known) == len(self.evaluations) else None

    @property
    def failure(self) -> str:
        """Why some of it was not measured; "" where all was, or will be."""
        lost = (Evaluation.State.FAILED, Evaluation.State.CANCELLED)
        words = (f"evaluation {one.pk}: {one.failure or one.state}" for one in self.evaluations if one.state in lost)
        return "; ".join(dict.fromkeys(words))


class Scenario(models.Model):
    """One question of an experiment: one evaluation beside another, item by item."""

    run = models.ForeignKey(Experiment, models.CASCADE, related_name="scenarios")
    scenario = models.CharField(max_length=100)
    candidate = models.ForeignKey(Evaluation, models.CASCADE, related_name="+")
    reference = models.ForeignKey(Evaluation, models.CASCADE, related_name="+")

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["run", "scenario"], name="one_scenario_per_name")]

    def __str__(self) -> str:
        return self.scenario

    @property
    def project_id(self) -> int:
        return self.run.project_id


class ItemTry(models.Model):
    """One try at an item in an evaluation, written when its block ends and never changed, but that its answer goes when
    somebody is forgotten.

    Attributes:
        place: of the item in its set, from 0; key: of what it says (`panels.key_of`), by which items pair.
        number: which try of it, from 0.
        weight: of the item.
        outcome, step_score: in [0, 1]; None where it could not be scored, with `cause` and `reason`.
        cause: `infrastructure` where it could not be asked or graded; `unchecked` where nothing says what is right;
            `untold` where the answer is neither right nor wrong.
        traits: what the answer looks like (`AnswerTraits`); None where there is none.
        answer: where nothing says what is right, so that it can be compared with another's, and of the first few
            likeliest answers of a report, which people read; "" else.
        grader: what graded it, and its version.
        category: of the item.
        prompt_tokens, completion_tokens: of all calls of its model, as the server counts them; turns: how many calls;
            seconds: from the first question to the last answer; cost_usd: of its model by the price known then. Each
            None where nobody kept or knew it.
        new_record: what came of it, until both are written.
    """

    class Cause(models.TextChoices):
        INFRASTRUCTURE = "infrastructure", "Could not be asked or graded"
        UNCHECKED = "unchecked", "Nothing says what is right"
        UNTOLD = "untold", "Neither right nor wrong"
        TIMEOUT = "timeout", "Took longer than it may"

    NOT_KEPT = "its answer was deleted when somebody was forgotten"
    """Reason of an answer that nothing checked, and that is not there any more."""
    new_record: "TryRecord | None" = None

    evaluation = models.ForeignKey(Evaluation, models.CASCADE, related_name="item_tries")
    place = models.PositiveIntegerField()
    key = models.BigIntegerField()
    number = models.PositiveSmallIntegerField(default=0)
    weight = models.FloatField(default=1.0, db_default=1.0)
    outcome = models.FloatField(null=True)
    step_score = models.FloatField(null=True)
    cause = models.CharField(max_length=16, choices=Cause.choices, blank=True, default="")
    reason = models.CharField(max_length=300, blank=True, default="")
    traits = models.JSONField(null=True)
    answer = models.TextField(blank=True, default="", db_default="")
    grader = models.CharField(max_length=64, blank=True, default="")
    category = models.CharField(max_length=64, blank=True, default="", db_default="")
    prompt_tokens = models.PositiveIntegerField(null=True)
    completion_tokens = models.PositiveIntegerField(null=True)
    turns = models.PositiveSmallIntegerField(null=True)
    seconds = models.FloatField(null=True)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=8, null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["evaluation", "place", "number"], name="one_row_per_try"),
            models.CheckConstraint(
                condition=Q(outcome__isnull=False, cause="") | (Q(outcome__isnull=True) & ~Q(cause="")),
                name="a_try_has_an_outcome_or_a_cause",
            ),
        ]

    def __str__(self) -> str:
        found = self.cause if self.outcome is None else f"{self.outcome:g}"
        return f"item {self.place + 1}, try {self.number + 1}: {found}"


class TryRecord(models.Model):
    """All that came of a try that somebody asked for, beside its slim row. It is looked at and graded anew; nothing of
    it is ever trained on.

    Attributes:
        text: all that its agent wrote; answer: its last word; steps: [{"kind", "text", "tool_name", "tool_result"}].
        messages: the whole conversation in the chat API's form, with calls and what was said to them.
        prompt_hash: of the messages and tools that it began with: the same for the same prompt, byte for byte.
        request, sampling: what else the first turn was asked with, as sent.
        verification: as `Verification.to_json`; None where nothing is known of it.
        error: why there is no answer; "" where there is one.
        served_by, finish_reason: in the server's words.
        turn_tokens: how many of the tokens each turn wrote; cached_tokens: of those asked with, as the server counts.
        token_ids, logprobs: of what its model wrote, packed little-endian int32 and float32 (natural log); empty where
            the server told none.
    """

    item_try = models.OneToOneField(ItemTry, models.CASCADE, primary_key=True, related_name="record")
    text = models.TextField(blank=True)
    answer = models.TextField(blank=True)
    steps = models.JSONField(default=list)
    messages = models.JSONField(default=list)
    prompt_hash = models.CharField(max_length=32)
    request = models.JSONField(default=dict)
    sampling = models.JSONField(default=dict)
    verification = models.JSONField(null=True)
    error = models.TextField(blank=True)
    served_by = models.CharField(max_length=200, blank=True)
    finish_reason = models.CharField(max_length=32, blank=True)
    turn_tokens = models.JSONField(default=list)
    cached_tokens = models.PositiveIntegerField(default=0)
    token_ids = models.BinaryField(default=b"")
    logprobs = models.BinaryField(default=b"")

    def __str__(self) -> str:
        return f"record of try {self.item_try_id}"


class HumanGrade(Timestamped):
    """What a person says of a try's answer. It stands beside the try's own grade, which stays what it is.

    Attributes:
        author: who, as the audit names them.
        value: from 0, wrong, to 1, right.
        text: a word on it; "" for none.
    """

    item_try = models.ForeignKey(ItemTry, models.CASCADE, related_name="human_grades")
    author = models.CharField(max_length=160)
    value = models.FloatField()
    text = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["item_try", "author"], name="one_grade_per_person_and_try"),
            models.CheckConstraint(condition=Q(value__gte=0, value__lte=1), name="human_grade_is_0_to_1"),
        ]

    def __str__(self) -> str:
        return f"{self.author} of try {self.item_try_id}: {self.value:g}"


class RegressionCase(Timestamped):
    """A correction that must hold from now on: an item that is only ever measured on, and whose answer was corrected.

    Attributes:
        worker, adapter: whose answer it was; no adapter: the base model's.
        feedback_id: that corrected it (the row lives on a higher floor); grade: or a person's grade of a try that did.
        kept_by: who made it a case.
    """

    item = models.ForeignKey(Item, models.CASCADE, related_name="regression_cases")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="regression_cases")
    adapter = models.ForeignKey(Adapter, models.CASCADE, null=True, blank=True, related_name="regression_cases")
    feedback_id = models.BigIntegerField(null=True, blank=True)
    grade = models.ForeignKey(HumanGrade, models.SET_NULL, null=True, blank=True, related_name="regression_cases")
    kept_by = models.CharField(max_length=160)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["item", "worker", "adapter"], name="one_case_per_item_and_model", nulls_distinct=False
            ),
        ]

    def __str__(self) -> str:
        return f"case {self.pk} of {self.adapter or self.worker}"
