"""Workers as pages show them: what serves them, what they do, what they did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Count
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.accounts.models import Project
from apps.adapters.models import Deployment
from apps.adapters.selectors import find_deployment
from apps.inference.models import Exchange
from apps.inference.provider_kinds import find_kind
from apps.outbox.kinds import OF_A_TASK
from apps.outbox.models import Segment
from apps.rollouts.models import Batch
from apps.tasks.models import Task
from apps.training.models import TrainingRun
from apps.workers.base_names import BUILT_IN, name_base
from apps.workers.bases import say_missing
from apps.workers.kinds import find_kind as find_worker_kind
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from tentalis.core.sampling import describe_sampling, find_sampling_fault

NEWEST = 5_000
LATEST = 10
MOST_AT_WORK = 50


@dataclass(frozen=True)
class WorkerRow:
    """One line of the list. `base_model`: "" for one without; `at_work`: tasks it has in hand just now."""

    worker: Worker
    base_model: str
    deployment: Deployment | None
    at_work: int


@dataclass(frozen=True)
class TaskInHand:
    """A task in hand: who does it, until when their lease runs, which try it is."""

    task: Task
    segment: Segment | None

    @property
    def is_alive(self) -> bool:
        return bool(self.segment and self.segment.lease_until and self.segment.lease_until > timezone.now())


@dataclass(frozen=True)
class WorkerView:
    """Everything the worker page shows.

    Attributes:
        deployment, batch: of its line: its own, or that of whom it learns with.
        learners: who learns with it.
        base_sha256: hash of the base weights, as the trainer read them for its newest adapter; "" before the first.
    """

    worker: Worker
    base_model: str
    deployment: Deployment | None
    batch: Batch | None
    learners: Sequence[Worker]
    holds: Sequence[TaskInHand]
    latest: Sequence[Task]
    runs: Sequence[TrainingRun]
    calls: Sequence[Exchange]
    base_sha256: str

    @property
    def subject(self) -> str:
        """What live updates call it."""
        return f"worker:{self.worker.pk}"

    @property
    def base(self) -> str:
        """What its line is trained on; "" where nobody said."""
        return name_base(self.worker.line)

    @property
    def compares_base(self) -> bool:
        """Whether there are files to compare with a model server."""
        return self.base not in {"", BUILT_IN}

    @property
    def compared(self) -> Mapping[str, Any]:
        """What comparing them found last; {} before."""
        found: Mapping[str, Any] = self.worker.line.base_compared
        return found

    @property
    def compared_at(self) -> datetime | None:
        return datetime.fromisoformat(self.compared["at"]) if self.compared else None

    @property
    def base_missing(self) -> str:
        return say_missing(self.worker.line)

    @property
    def sampling(self) -> list[tuple[str, str]]:
        return say_sampling(self.worker)

    @property
    def teaches(self) -> str:
        """Which answers of its model server can train weights, in words, where not all can; what its own settings keep
        from it first."""
        if not self.base_model:
            return ""
        provider = self.worker.provider
        kind = find_kind(provider.kind if provider else settings.TENTALIS["INFERENCE_BACKEND"])
        is_declared = provider is not None and provider.tells_processed
        if not kind.tells_tokens:
            return kind.say_what_teaches(is_declared=is_declared)
        sampling = describe_sampling(self.worker.sampling, tells=kind.name_told(is_declared=is_declared))
        if fault := find_sampling_fault(sampling):
            return f"nothing by reward as it is set: {fault}"
        return kind.say_what_teaches(is_declared=is_declared)


def find_workers(project: Project) -> list[WorkerRow]:
    """All of the project's, by name: three queries."""
    workers = list(Worker.objects.filter(project=project).select_related("provider", "learns_with"))
    everybodys = Deployment.objects.filter(worker__in=workers, end_user="").select_related("adapter", "canary")
    deployments = {one.worker_id: one for one in everybodys}
    rows: Any = (
        Task.objects.filter(project=project, state=Task.State.WORKING)
        .order_by()
        .values_list("worker_id")
        .annotate(count=Count("pk"))
    )
    counts = dict(rows)
    return [
        WorkerRow(worker, find_base_model(worker), deployments.get(worker.line_id), counts.get(worker.pk, 0))
        for worker in workers
    ]


def show_worker(worker: Worker) -> WorkerView:
    """About nine queries. Its latest tasks are looked for among the project's newest `NEWEST`."""
    at_work = Task.objects.filter(project=worker.project_id, worker=worker, state=Task.State.WORKING)
    tasks = list(at_work.order_by("-id").defer("reference", "metadata")[:MOST_AT_WORK])
    segments = Segment.objects.filter(
        kind__in=OF_A_TASK, subject_id__in=[task.pk for task in tasks], state=Segment.State.OPEN
    )
    held = {segment.subject_id: segment for segment in segments}
    newest = Task.objects.filter(project=worker.project_id).order_by("-id").values("pk")[:NEWEST]
    latest = Task.objects.filter(pk__in=newest, worker=worker).select_related("worker").order_by("-id")
    calls = Exchange.objects.filter(project=worker.project_id).order_by("-id").values("pk")[:NEWEST]
    made = worker.line.adapters.exclude(state="refused").order_by("-id").values_list("manifest__base_sha256")
    return WorkerView(
        base_sha256=next((told or "" for (told,) in made[:1]), ""),
        worker=worker,
        base_model=find_base_model(worker),
        deployment=find_deployment(worker.line),
        batch=Batch.objects.filter(worker=worker.line_id, end_user="", state=Batch.State.OPEN).first(),
        learners=list(worker.learners.order_by("name")),
        holds=[TaskInHand(task, held.get(task.pk)) for task in tasks],
        latest=list(latest.defer("reference", "metadata", "answer")[:LATEST]),
        runs=list(
            TrainingRun.objects.filter(worker__in={worker.pk, worker.line_id})
            .select_related("batch")
            .defer("metrics", "spec", "recipe")
            .order_by("-id")[:5]
        ),
        calls=list(
            Exchange.objects.filter(pk__in=calls, worker_name=worker.name)
            .only("created_at", "model", "adapter_name", "prompt_tokens", "completion_tokens", "latency_ms", "error")
            .order_by("-id")[:5]
        ),
    )


def say_sampling(worker: Worker) -> list[tuple[str, str]]:
    """Its sampling settings in words: (what, how)."""
    if not find_worker_kind(worker.kind).sampling:
        return []
    said = []
    unset = _("as its agent asks") if worker.kind == Worker.Kind.OUTSIDE else ""
    temperature = worker.sampling.get("temperature")
    if temperature is None:
        said.append((_("Temperature"), unset or _("default (1.0)")))
    else:
        greedy = _("0: always the likeliest token, so it cannot explore")
        said.append((_("Temperature"), f"{temperature:g}" if temperature else greedy))
    if (top_p := worker.sampling.get("top_p")) is not None:
        said.append(("top-p", f"{top_p:g}"))
    longest = worker.sampling.get("max_tokens")
    said.append((_("Longest answer"), _("%d tokens") % longest if longest else unset or _("default")))
    return said


def find_worker_names(project: Project) -> list[str]:
    return list(Worker.objects.filter(project=project).order_by("name").values_list("name", flat=True))


def choose_worker(project: Project, name: str) -> tuple[Worker | None, list[Worker]]:
    """The worker a page is about: the named one, else the one that learned last, else the first; and all of them.

    Of those who learn with another, that one: they have no line of their own.
    """
    every = list(Worker.objects.filter(project=project).select_related("learns_with"))
    workers = [worker for worker in every if worker.learns_with_id is None]
    named = next((worker.line for worker in every if worker.name == name), None)
    if named is not None or len(workers) < 2:
        return named or next(iter(workers), None), workers
    last = TrainingRun.objects.filter(project=project).order_by("-id").values_list("worker_id", flat=True).first()
    return next((worker for worker in workers if worker.pk == last), workers[0]), workers
