"""Agents that do tasks."""

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Project
from apps.base.models import Timestamped
from apps.inference.models import Provider
from apps.workers.kinds import CHAT, ECHO, OPENCLAW, OUTSIDE, find_kind
from apps.worlds.registry import DEFAULT
from tentalis.core.field_limits import ENSEMBLE_WAIT_S, MAX_ENSEMBLE_WAIT_S

NAME = RegexValidator(r"^[a-z0-9][a-z0-9_-]*$", "Lower-case letters, digits, - and _.")
ENSEMBLE = "ensemble"
"""What stands before an ensemble's name where a model is asked for."""


class Worker(Timestamped):
    """An agent of a project. What it serves is its deployment's adapter, else the base model.

    Attributes:
        provider: of its model; the gateway asks it for whoever asks for the worker.
        agent_server: the OpenClaw that does its tasks; agent_id: which agent there, "" its default.
        adapters_per: whether all its conversations teach one line of adapters, or each person's a line of their own.
        user_batch_tasks: tasks that fill a batch of one person; None: as many as any.
        base_directory: where trainer and web find its base model's files; "": nobody said, or it is the built-in one.
        base_since: when it got another base model than it had, and maybe another tokenizer; None: never.
        base_facts: what its files were when it was said (`bases.BaseFacts` as JSON); {}: not looked at.
        base_compared: what comparing them with the model server found last (at, model, fingerprint, is_good, words);
            {}: not compared since either was changed.
        fallbacks: models that the gateway asks in this order where its own cannot be had: `server/model`, or another
            worker of the project.
        learns_with: whose line of adapters it teaches and is served by; None: its own. Never a chain.
        supervision: which actions of an outside agent wait for a person (`tentalis.core.supervision`); {}: none.
    """

    class Kind:
        """Kinds that are asked for by name; `kinds.KINDS` holds all there are."""

        ECHO, CHAT, OUTSIDE, OPENCLAW = ECHO, CHAT, OUTSIDE, OPENCLAW

    class AdaptersPer(models.TextChoices):
        WORKER = "worker", "One for everybody"
        USER = "user", "One for each person it talks with"

    project = models.ForeignKey(Project, models.CASCADE, related_name="workers")
    name = models.CharField(max_length=64, validators=[NAME])
    kind = models.CharField(max_length=32)
    provider = models.ForeignKey(Provider, models.PROTECT, null=True, blank=True, related_name="workers")
    agent_server = models.ForeignKey(
        Provider, models.PROTECT, null=True, blank=True, related_name="agents", help_text="Gateway of an OpenClaw."
    )
    agent_id = models.CharField(max_length=64, blank=True, help_text="Agent of that OpenClaw; empty: its default.")
    base_model = models.CharField(max_length=500, blank=True, help_text="Name the model server serves the base under.")
    base_directory = models.CharField(
        max_length=500, blank=True, help_text="Where the trainer finds it; desk: the built-in."
    )
    base_since = models.DateTimeField(null=True, blank=True, editable=False)
    base_facts = models.JSONField(default=dict, db_default={}, blank=True, editable=False)
    base_compared = models.JSONField(default=dict, db_default={}, blank=True, editable=False)
    system_prompt = models.TextField(blank=True)
    sampling = models.JSONField(default=dict, blank=True, help_text="temperature, max_tokens…")
    supervision = models.JSONField(
        default=dict, blank=True, help_text="Which actions wait for a person; empty: none do."
    )
    adapters_per = models.CharField(max_length=8, choices=AdaptersPer.choices, default=AdaptersPer.WORKER)
    user_batch_tasks = models.PositiveIntegerField(
        null=True, blank=True, help_text="Tasks that fill a batch of one person; empty: the project's."
    )
    fallbacks = models.JSONField(
        default=list, db_default=[], blank=True, help_text="Asked where its own model cannot be had: server/model."
    )
    learns_with = models.ForeignKey("self", models.RESTRICT, null=True, blank=True, related_name="learners")
    is_active = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="worker_name_is_unique"),
            models.CheckConstraint(
                condition=Q(user_batch_tasks__isnull=True) | Q(user_batch_tasks__gte=1),
                name="user_batch_tasks_is_positive",
            ),
            models.CheckConstraint(
                condition=Q(learns_with__isnull=True) | ~Q(learns_with=F("pk")), name="nobody_learns_with_themselves"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def kind_label(self) -> str:
        return find_kind(self.kind).label

    @property
    def home(self) -> str:
        """The environment that its tasks are in where nobody says."""
        return find_kind(self.kind).environment or DEFAULT

    @property
    def line(self) -> "Worker":
        """Whose adapters, deployments, batches and trainings are its: its own, or those of whom it learns with."""
        return self.learns_with or self

    @property
    def context_tokens(self) -> int | None:
        """What its model takes, prompt and answer together, as its files or its server's test said; None: unknown."""
        told = [self.base_facts.get("context_tokens")]
        if (server := self.provider) and server.probe.get("model") == (self.base_model or server.default_model):
            told.append(server.probe.get("context_tokens"))
        return min((one for one in told if isinstance(one, int)), default=None)

    @property
    def line_id(self) -> int:
        return self.learns_with_id or self.pk


class Ensemble(Timestamped):
    """Workers of a project that the gateway asks together: one of their answers is given.

    Attributes:
        members: names of the workers, in the order in which they were named.
        wait_s: for the others, once one of them has answered.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="ensembles")
    name = models.CharField(max_length=64, validators=[NAME])
    members = models.JSONField(default=list)
    wait_s = models.PositiveSmallIntegerField(default=ENSEMBLE_WAIT_S)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="ensemble_name_is_unique"),
            models.CheckConstraint(
                condition=Q(wait_s__gte=1, wait_s__lte=MAX_ENSEMBLE_WAIT_S), name="ensemble_waits_1_to_600_s"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def model(self) -> str:
        """What callers of the gateway name it by."""
        return f"{ENSEMBLE}/{self.name}"
