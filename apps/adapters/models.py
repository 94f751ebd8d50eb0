"""Adapters, the verdicts on them, and what serves which worker."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.audit.kinds import Kind
from apps.base.models import Stateful, Timestamped
from apps.workers.models import Worker

MOST_HELD = timedelta(days=1)
"""So long a running trial holds back what passes the gate: it has no end of its own where too few tasks come."""


class Adapter(Stateful):
    """LoRA weights with a manifest: immutable, named `worker@vN-digest`.

    Attributes:
        sha256: of the manifest file, which holds the hash of every other file.
        run_id: the training run it came from (the row lives on a higher floor).
        end_user: whose own it is, as sessions name them; "" for the worker's, which serves everybody who has none.
        line_version: as `version`, counted along its own line alone (the worker's, or one person's, which goes on from
            where it left the worker's): what staleness and the time since the anchor are counted in.
        is_anchor: last one proved better; "improved by" is measured from it.
        fingerprint: {"kind", "token_ids", "logprobs"}: a row and its log-probs as the server that first served it told
            them; {} before.
        taught: what it was trained with, as the ledger knew it when the gate was to ask (`BatchFacts`); {} before, and
            where nobody can tell.
        suspicion: why a person must look at it before it may serve; "" for none.
        barred: why it may never serve again, whoever asks; "" while it may.
        is_rebuilt: made again without a forgotten person's data: it takes the place of what serves, and does not
            continue it.
        asks_people: people compare its answers where no check says what is right, whatever the policy says.
        waits_for: what its verdict waits for that others do, in words; "" for nothing.
        held_since: since when it waits for the end of a trial of its line before it serves; None: it waits for none.
    """

    class State(models.TextChoices):
        CANDIDATE = "candidate", "Candidate"
        QUARANTINED = "quarantined", "Under suspicion"
        VERIFIED = "verified", "Safe to serve"
        DEPLOYED = "deployed", "Deployed"
        RETIRED = "retired", "Retired"
        REFUSED = "refused", "Refused"

    MOVES: ClassVar = {
        State.CANDIDATE: frozenset({State.VERIFIED, State.QUARANTINED, State.REFUSED}),
        State.QUARANTINED: frozenset({State.VERIFIED, State.REFUSED}),
        State.VERIFIED: frozenset({State.DEPLOYED, State.QUARANTINED, State.REFUSED}),
        State.DEPLOYED: frozenset({State.RETIRED}),
        State.RETIRED: frozenset({State.DEPLOYED, State.QUARANTINED, State.REFUSED}),
        State.REFUSED: frozenset({State.CANDIDATE, State.VERIFIED}),  # only where it could not be judged or served
    }
    EVENTS: ClassVar = {
        State.CANDIDATE: Kind.ADAPTER_REPLAYED,
        State.QUARANTINED: Kind.ADAPTER_QUARANTINED,
        State.VERIFIED: Kind.ADAPTER_VERIFIED,
        State.REFUSED: Kind.ADAPTER_REFUSED,
        State.DEPLOYED: Kind.ADAPTER_DEPLOYED,
        State.RETIRED: Kind.ADAPTER_RETIRED,
    }

    project = models.ForeignKey(Project, models.CASCADE, related_name="adapters")
    worker = models.ForeignKey(Worker, models.CASCADE, related_name="adapters")
    name = models.CharField(max_length=200, unique=True)
    version = models.PositiveIntegerField()
    end_user = models.CharField(max_length=200, blank=True, default="")
    line_version = models.PositiveIntegerField()
    parent = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="children")
    run_id = models.BigIntegerField(unique=True, null=True)
    uri = models.CharField(max_length=1000)
    sha256 = models.CharField(max_length=64)
    manifest = models.JSONField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.CANDIDATE)
    is_anchor = models.BooleanField(default=False)
    taught = models.JSONField(default=dict, blank=True)
    fingerprint = models.JSONField(default=dict, blank=True)
    suspicion = models.TextField(blank=True, default="")
    barred = models.CharField(max_length=300, blank=True, default="")
    is_rebuilt = models.BooleanField(default=False)
    asks_people = models.BooleanField(default=False, db_default=False)
    waits_for = models.CharField(max_length=300, blank=True, default="", db_default="")
    held_since = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["worker", "version"], name="adapter_version_is_unique"),
            models.UniqueConstraint(fields=["worker", "end_user", "line_version"], name="line_version_is_unique"),
            models.UniqueConstraint(
                fields=["worker", "end_user"], condition=Q(state="deployed"), name="one_deployed_adapter_per_line"
            ),
            models.UniqueConstraint(
                fields=["worker", "end_user"], condition=Q(is_anchor=True), name="one_anchor_per_line"
            ),
        ]
        indexes = [models.Index(fields=["project", "-id"], name="adapter_by_project")]

    def __str__(self) -> str:
        return self.name

    @property
    def lineage(self) -> Iterator["Adapter"]:
        """Itself and all that it continues, the newest first."""
        one: Adapter | None = self
        while one is not None:
            yield one
            one = one.parent

    @property
    def is_awaiting(self) -> bool:
        """Whether the gate will go on with it, when others have done what its verdict waits for."""
        return self.state == self.State.CANDIDATE and bool(self.waits_for)


class Verdict(Timestamped):
    """What the promotion gate found, in words and numbers.

    Attributes:
        question: "safe" (may it serve?) or "proved" (is it better than the anchor?).
        outcome: yes, no, or inconclusive.
        compared_with: name of the other adapter; "" for the base model.
        details: {"metric", "difference", "low", "high", "items", "candidate", "reference", "alarms", …}.
        outcomes: per panel item, this adapter's result (for pairing with the next candidate).
    """

    class Question(models.TextChoices):
        SAFE = "safe", "Safe to serve?"
        PROVED = "proved", "Proved better?"

    class Outcome(models.TextChoices):
        YES = "yes"
        NO = "no"
        INCONCLUSIVE = "inconclusive"

    adapter = models.ForeignKey(Adapter, models.CASCADE, related_name="verdicts")
    question = models.CharField(max_length=16, choices=Question.choices)
    outcome = models.CharField(max_length=16, choices=Outcome.choices)
    words = models.TextField()
    compared_with = models.CharField(max_length=200, blank=True)
    details = models.JSONField(default=dict)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["adapter", "question"], name="one_verdict_per_question")]

    def __str__(self) -> str:
        return self.words

    @property
    def project_id(self) -> int:
        return self.adapter.project_id


class Deployment(Timestamped):
    """What serves a worker now, or one person who asks it. A swap is one compare-and-set on `epoch`.

    Attributes:
        end_user: whom alone it serves, as sessions name them; "" for everybody who has none of their own.
        adapter: None: the base model; a person's: what serves everybody.
        canary, canary_percent: a second adapter, and the share of the worker's new tasks that it does; None and 0
            while nothing is tried.
        canary_after_task: tasks with a higher id are new (the row lives on a higher floor).
        canary_words: what the last look at it found.
        trouble: why what serves is not what should, in words; "" while it is. Nothing of the line is trained then.
        watched_id: the newest attempt that was looked at (the row lives on a higher floor).
    """

    GOES_WITH_WORKER: ClassVar = True  # no evidence of work: its adapters are

    worker = models.ForeignKey(Worker, models.CASCADE, related_name="deployments")
    end_user = models.CharField(max_length=200, blank=True, default="")
    adapter = models.ForeignKey(
        Adapter, models.PROTECT, null=True, related_name="+", help_text="Empty: the base model."
    )
    previous = models.ForeignKey(Adapter, models.PROTECT, null=True, related_name="+")
    epoch = models.PositiveIntegerField(default=0)
    moved_at = models.DateTimeField(auto_now=True)
    canary = models.ForeignKey(Adapter, models.PROTECT, null=True, related_name="+")
    canary_percent = models.PositiveSmallIntegerField(default=0)
    canary_after_task = models.BigIntegerField(default=0)
    canary_started_at = models.DateTimeField(null=True)
    canary_words = models.CharField(max_length=300, blank=True, default="")
    trouble = models.CharField(max_length=300, blank=True, default="")
    watched_id = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["worker", "end_user"], name="one_deployment_per_line"),
            models.CheckConstraint(
                condition=Q(canary__isnull=True, canary_percent=0)
                | Q(canary__isnull=False, canary_percent__gte=1, canary_percent__lte=50),
                name="a_canary_gets_1_to_50_percent",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.worker}{f' for {self.end_user}' if self.end_user else ''}: {self.adapter or 'base model'}"

    @staticmethod
    def lock(worker: Worker, *, end_user: str) -> "Deployment":
        """The deployment of a worker, or of a person, locked in the running transaction; made where there is none."""
        Deployment.objects.get_or_create(worker=worker, end_user=end_user)
        return Deployment.objects.select_for_update().get(worker=worker, end_user=end_user)

    @staticmethod
    def hold(adapter: Adapter) -> None:
        """Keep what serves an adapter's line from moving while the running transaction lasts; nothing is made."""
        rows = Deployment.objects.filter(worker=adapter.worker_id, end_user__in={adapter.end_user, ""})
        list(rows.order_by("pk").select_for_update().values_list("pk"))

    @property
    def project_id(self) -> int:
        return self.worker.project_id

    @property
    def holds_until(self) -> datetime | None:
        """Until when a running trial holds back what passed the gate; None without one."""
        if self.canary_id is None or self.canary_started_at is None:
            return None
        return self.canary_started_at + MOST_HELD

    @property
    def held_back(self) -> models.QuerySet[Adapter]:
        """What waits for the end of its trial, the newest first."""
        waiting = Adapter.objects.filter(worker=self.worker_id, end_user=self.end_user, held_since__isnull=False)
        return waiting.filter(state=Adapter.State.VERIFIED).order_by("-version")


class Shadow(Stateful):
    """An adapter that does a share of a worker's new tasks beside what serves, unseen: nobody is shown its answers.

    Attributes:
        percent: of the tasks, in [1, 50].
        after_task: tasks with a higher id are new (the row lives on a higher floor).
        words: what the last look at it found; outcome: how it ended, "" while it runs.
    """

    class State(models.TextChoices):
        RUNNING = "running", "Running"
        ENDED = "ended", "Ended"

    class Outcome(models.TextChoices):
        SAFE = "safe", "Not worse"
        HARM = "harm", "Worse"
        STOPPED = "stopped", "Stopped"

    MOVES: ClassVar = {State.RUNNING: frozenset({State.ENDED}), State.ENDED: frozenset()}
    EVENTS: ClassVar = {State.RUNNING: Kind.SHADOW_STARTED, State.ENDED: Kind.SHADOW_ENDED}

    worker = models.ForeignKey(Worker, models.CASCADE, related_name="shadows")
    adapter = models.ForeignKey(Adapter, models.CASCADE, related_name="shadows")
    percent = models.PositiveSmallIntegerField()
    after_task = models.BigIntegerField()
    state = models.CharField(max_length=8, choices=State.choices, default=State.RUNNING)
    outcome = models.CharField(max_length=8, choices=Outcome.choices, blank=True, default="")
    words = models.CharField(max_length=300, blank=True, default="")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["worker"], condition=Q(state="running"), name="one_running_shadow_per_worker"
            ),
            models.CheckConstraint(condition=Q(percent__gte=1, percent__lte=50), name="a_shadow_gets_1_to_50_percent"),
        ]

    def __str__(self) -> str:
        return f"shadow test of {self.adapter} beside {self.worker}"

    @property
    def project_id(self) -> int:
        return self.worker.project_id
