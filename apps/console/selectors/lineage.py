"""Where a worker's adapters come from, laid out to be drawn: feedback, batch, run, adapter, what serves."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.db.models import Count
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.adapters.models import Adapter, Deployment
from apps.feedback.models import Feedback
from apps.rollouts.models import Batch
from apps.training.models import TrainingRun
from apps.workers.models import Worker

SHOWN = 6
HEIGHT, ROW, GAP = 44, 66, 34
WIDTHS = {"feedback": 118, "batch": 104, "run": 104, "adapter": 176, "served": 148}
"""Pixels of each column, left to right."""


@dataclass(frozen=True)
class Box:
    """A box. `page` and `pk` lead to what it stands for; "" and None where nothing does."""

    kind: str
    state: str
    x: int
    y: int
    label: str
    sub: str
    page: str = ""
    pk: int | None = None

    @property
    def width(self) -> int:
        return WIDTHS[self.kind]

    @property
    def height(self) -> int:
        return HEIGHT

    @property
    def text_x(self) -> int:
        return self.x + 11

    @property
    def label_y(self) -> int:
        return self.y + 19

    @property
    def sub_y(self) -> int:
        return self.y + 35

    @property
    def middle(self) -> int:
        return self.y + HEIGHT // 2

    @property
    def end(self) -> int:
        return self.x + self.width


@dataclass(frozen=True)
class Arrow:
    """A line as an SVG path; `kind` is made, parent or serves."""

    path: str
    kind: str


@dataclass(frozen=True)
class Origin:
    """One adapter in words, for who does not see the drawing."""

    adapter: Adapter
    run: TrainingRun | None
    feedback: int
    serves: str


@dataclass(frozen=True)
class Lineage:
    """A drawing of the newest adapters, newest on top, and the same as a list."""

    worker: Worker
    nodes: Sequence[Box]
    edges: Sequence[Arrow]
    origins: Sequence[Origin]
    width: int
    height: int
    hidden: int


def draw_lineage(worker: Worker) -> Lineage | None:
    """None for a worker without adapters. Five queries, and one for each further kind of batch it learnt from."""
    adapters = Adapter.objects.filter(worker=worker).select_related("worker").defer("manifest")
    found = list(adapters.order_by("-version")[:SHOWN])
    if not found:
        return None
    runs = {
        run.pk: run
        for run in TrainingRun.objects.filter(pk__in=[adapter.run_id for adapter in found if adapter.run_id])
        .select_related("batch")
        .defer("metrics", "spec", "recipe")
    }
    counts = _count_feedback([run.batch for run in runs.values() if run.batch is not None])
    deployments = {one.end_user: one for one in Deployment.objects.filter(worker=worker)}
    origins = []
    for adapter in found:
        run = runs.get(adapter.run_id or 0)
        origins.append(
            Origin(
                adapter,
                run,
                counts.get(run.batch_id or 0, 0) if run else 0,
                _say_service(adapter, deployments.get(adapter.end_user)),
            )
        )
    nodes, edges = _lay_out(origins)
    return Lineage(
        worker=worker,
        nodes=nodes,
        edges=edges,
        origins=origins,
        width=_columns()["served"] + WIDTHS["served"] + 2,
        height=ROW * len(origins) - (ROW - HEIGHT) + 4,
        hidden=found[-1].version - 1,
    )


def _count_feedback(batches: Sequence[Batch]) -> dict[int, int]:
    """Batch -> how many judgements it learns from: of the tasks of its rollouts, or behind its pairs and the like."""
    said = Feedback.objects.counting()
    counts: Counter[int] = Counter()
    for kind, path in _WAYS.items():
        if ids := [batch.pk for batch in batches if batch.kind == kind]:
            rows: Any = said.filter(**{f"{path}__in": ids}).order_by().values_list(path)
            counts.update(dict(rows.annotate(count=Count("pk", distinct=True))))
    return counts


_WAYS = {
    Batch.Kind.ROLLOUTS: "task__rollouts__training_use__batch",
    Batch.Kind.PAIRS: "preferencepairs__batch",
    Batch.Kind.DEMONSTRATIONS: "demonstrations__batch",
}
"""Kind of batch -> how a judgement comes into it."""


def _say_service(adapter: Adapter, deployment: Deployment | None) -> str:
    if deployment is None:
        return ""
    if deployment.adapter_id == adapter.pk:
        rest = 100 - deployment.canary_percent
        return _("serves %d %%") % rest if deployment.canary_id else _("serves")
    if deployment.canary_id == adapter.pk:
        return _("canary, %d %%") % deployment.canary_percent
    return ""


def _columns() -> dict[str, int]:
    places, x = {}, 1
    for kind, width in WIDTHS.items():
        places[kind] = x
        x += width + GAP
    return places


def _lay_out(origins: Sequence[Origin]) -> tuple[list[Box], list[Arrow]]:
    columns = _columns()
    nodes: list[Box] = []
    edges: list[Arrow] = []
    boxes: dict[int, Box] = {}
    for row, origin in enumerate(origins):
        adapter, run, y = origin.adapter, origin.run, 2 + row * ROW
        box = Box(
            "adapter",
            adapter.state,
            columns["adapter"],
            y,
            _("version %d") % adapter.version,
            f"{adapter.get_state_display()}{', ' + _('anchor') if adapter.is_anchor else ''}",
            "adapter",
            adapter.pk,
        )
        boxes[adapter.pk] = box
        line = [box]
        if run is not None and (batch := run.batch) is not None:
            said = ngettext("%d piece", "%d pieces", origin.feedback) % origin.feedback
            line = [
                Box("feedback", "feedback", columns["feedback"], y, _("Feedback"), said, "adapter-people", adapter.pk),
                Box(
                    "batch",
                    "batch",
                    columns["batch"],
                    y,
                    _("batch %d") % batch.number,
                    ngettext("%d task", "%d tasks", batch.task_count) % batch.task_count,
                ),
                Box("run", run.state, columns["run"], y, _("run %d") % run.pk, run.get_state_display(), "run", run.pk),
                box,
            ]
        if origin.serves:
            worker = adapter.worker.name
            name = worker if len(worker) < 18 else worker[:16] + "…"
            line.append(Box("served", "served", columns["served"], y, name, origin.serves))
        nodes += line
        edges += [
            Arrow(f"M{one.end} {one.middle}H{other.x}", "serves" if other.kind == "served" else "made")
            for one, other in pairwise(line)
        ]
    edges += [
        _join(boxes[one.adapter.parent_id], boxes[one.adapter.pk]) for one in origins if one.adapter.parent_id in boxes
    ]
    return nodes, edges


def _join(parent: Box, child: Box) -> Arrow:
    """From a parent up to its child: straight to the next row, else around the boxes between."""
    x = parent.x + 24
    if parent.y - child.y == ROW:
        return Arrow(f"M{x} {parent.y}V{child.y + HEIGHT}", "parent")
    side = parent.x - 12
    return Arrow(f"M{parent.x} {parent.middle + 8}H{side}V{child.middle + 8}H{child.x}", "parent")
