"""Reads that join apps: an adapter's lineage, a worker's learning curve, the queues."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any

from django.db.models import Count, Min, Q, QuerySet
from django.utils import timezone

from apps.accounts.models import Project
from apps.adapters.models import Adapter, PanelResult
from apps.feedback.models import Feedback
from apps.outbox.models import Segment
from apps.rollouts.contents import WorkerShare, count_workers
from apps.rollouts.models import Batch, PreferencePair, Rollout
from apps.training.models import TrainingRun
from apps.workers.models import Worker

MAX_LINEAGE = 500


@dataclass(frozen=True)
class Source:
    """How many rollouts got their reward from whom."""

    reward_source: str
    rollouts: int


@dataclass(frozen=True)
class Items:
    """How many pairs or demonstrations come from where."""

    source: str
    count: int


@dataclass(frozen=True)
class Link:
    """One adapter of a lineage, and what it was trained on.

    Args:
        learnt: rollouts, pairs or demonstrations; "" without a run.
        items: pairs or demonstrations, by where they come from; [] of rollouts.
        workers: who did its tasks.
    """

    adapter: str
    sha256: str
    run: int | None
    batch: int | None
    recipe_hash: str
    rollouts: int
    tasks: int
    sources: Sequence[Source]
    learnt: str
    items: Sequence[Items]
    workers: Sequence[WorkerShare]
    authors: Sequence[str]


def trace_lineage(adapter: Adapter) -> list[Link]:
    """The adapter, its parent, and so on back to the first; at most 500."""
    links: list[Link] = []
    current: Adapter | None = adapter
    while current is not None and len(links) < MAX_LINEAGE:
        links.append(_trace_link(current))
        current = current.parent
    return links


def _trace_link(adapter: Adapter) -> Link:
    runs = TrainingRun.objects.filter(project=adapter.project_id)
    run = runs.select_related("batch").filter(pk=adapter.run_id).first() if adapter.run_id is not None else None
    batch = run.batch if run else None
    used = Rollout.objects.none()
    items: QuerySet[Any] = PreferencePair.objects.none()
    if batch is not None and batch.kind == Batch.Kind.ROLLOUTS:
        used = Rollout.objects.filter(training_use__batch=batch)
    elif batch is not None:
        items = batch.items()
    sources = used.values_list("reward_source").annotate(n=Count("pk")).order_by("reward_source")
    came = items.order_by().values_list("source").annotate(n=Count("pk")).order_by("source")
    said = Q(task__rollouts__in=used) | Q(pk__in=items.values("feedback"))
    said |= Q(task__in=items.filter(feedback=None).values("task"))
    authors = Feedback.objects.filter(said).values_list("author", flat=True)
    return Link(
        adapter=adapter.name,
        sha256=adapter.sha256,
        run=run.pk if run else None,
        batch=run.batch_id if run else None,
        recipe_hash=run.recipe_hash if run else "",
        rollouts=used.count(),
        tasks=used.values("task").distinct().count() + items.order_by().values("task").distinct().count(),
        sources=[Source(name, count) for name, count in sources],
        learnt=batch.kind if batch else "",
        items=[Items(name, count) for name, count in came],
        workers=count_workers(batch) if batch is not None else [],
        authors=sorted(authors.order_by().distinct()),
    )


@dataclass(frozen=True)
class Point:
    """One model of a worker, measured on a held-out panel; `adapter` None and version 0 for the base model."""

    version: int
    adapter: str | None
    state: str
    panel: str
    items: int
    accuracy: float
    step_score: float | None
    at: datetime


def learning_curve(worker: Worker) -> list[Point]:
    """Every measurement of the worker's models, by version and time."""
    results = PanelResult.objects.filter(worker=worker).select_related("adapter").order_by("adapter__version", "id")
    points = [_make_point(result) for result in results if result.outcomes]
    return sorted(points, key=lambda point: (point.version, point.at))


def _make_point(result: PanelResult) -> Point:
    adapter = result.adapter
    return Point(
        version=adapter.version if adapter else 0,
        adapter=adapter.name if adapter else None,
        state=adapter.state if adapter else "",
        panel=result.panel,
        items=len(result.outcomes),
        accuracy=result.mean_outcome,
        step_score=fmean(result.step_scores) if result.step_scores else None,
        at=result.created_at,
    )


@dataclass(frozen=True)
class Queue:
    """What waits in a queue, from the rows."""

    queue: str
    waiting: int
    in_flight: int
    dead: int
    oldest_s: float | None


def count_queues(projects: Sequence[Project]) -> list[Queue]:
    """Open and dead segments of some projects, by queue."""
    is_open = Q(state=Segment.State.OPEN)
    rows = (
        Segment.objects.filter(project_id__in=[project.pk for project in projects])
        .filter(is_open | Q(state=Segment.State.DEAD))
        .values("queue")
        .annotate(
            waiting=Count("pk", filter=is_open & Q(published_at__isnull=True)),
            in_flight=Count("pk", filter=is_open & Q(published_at__isnull=False)),
            dead=Count("pk", filter=Q(state=Segment.State.DEAD)),
            oldest=Min("created_at", filter=is_open),
        )
        .order_by("queue")
    )
    now = timezone.now()
    return [
        Queue(
            queue=row["queue"],
            waiting=row["waiting"],
            in_flight=row["in_flight"],
            dead=row["dead"],
            oldest_s=(now - row["oldest"]).total_seconds() if row["oldest"] else None,
        )
        for row in rows
    ]
