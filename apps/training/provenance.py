"""What became of a judgement or of an attempt: every batch that holds something of it, its run, and the adapter."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, QuerySet, Value

from apps.adapters.models import Adapter
from apps.feedback.models import Feedback
from apps.rollouts.contents import ITEMS
from apps.rollouts.models import Batch, PreferencePair, TrainingUse
from apps.tasks.models import Attempt
from apps.training.models import TrainingRun

OVER = frozenset({TrainingRun.State.FAILED, TrainingRun.State.REFUSED, TrainingRun.State.CANCELLED})


@dataclass(frozen=True)
class Use:
    """What of one judgement or attempt is learnt in one place.

    Args:
        learnt: rollouts, pairs or demonstrations; source: where those come from, label: the same in words; "" of
            rollouts.
        count: how many.
        batch: None where they wait for a training that learns from such; reason: why they can enter none.
    """

    learnt: str
    source: str
    label: str
    count: int
    batch: Batch | None
    run: TrainingRun | None = None
    adapter: Adapter | None = None
    reason: str = ""

    @property
    def stage(self) -> str:
        """unusable, waits, batch, run, failed, refused or learned."""
        if self.batch is None:
            return "unusable" if self.reason else "waits"
        if self.run is None:
            return "batch"
        if self.adapter is None:
            return "failed" if self.run.state in OVER else "run"
        return "refused" if self.adapter.state == Adapter.State.REFUSED else "learned"


STAGES = ("unusable", "waits", "batch", "failed", "run", "refused", "learned")
"""How far something came, least far first."""


def find_furthest(uses: Sequence[Use]) -> Use | None:
    """Of uses the one that came furthest, the latest of equals."""
    return max(uses, key=lambda use: (STAGES.index(use.stage), use.batch.pk if use.batch else 0), default=None)


class _Held(NamedTuple):
    """Where something is held, by the batch's id."""

    learnt: str
    source: str
    batch: int | None
    reason: str


def trace_feedback(feedback: Sequence[Feedback]) -> dict[int, list[Use]]:
    """Feedback id -> where it is learnt: its task's rollouts, its own pairs and demonstrations, and those of its task
    that no single judgement is behind. At most three queries.
    """
    by_task: defaultdict[int, list[int]] = defaultdict(list)
    for one in feedback:
        by_task[one.task_id].append(one.pk)
    held: defaultdict[int, list[_Held]] = defaultdict(list)
    rollouts = _find_rollouts().filter(rollout__task__in=list(by_task))
    items = [_describe(kind, "task", rows.filter(task__in=list(by_task))) for kind, rows in _find_items()]
    for task, said, *row in rollouts.values_list("rollout__task", *_ROLLOUT).union(*items, all=True):
        for pk in by_task[task]:
            if said in (None, pk):
                held[pk].append(_Held(*row))
    return _follow({one.pk: held[one.pk] for one in feedback})


def trace_attempts(attempts: Iterable[Attempt]) -> dict[int, list[Use]]:
    """Attempt id -> where it is learnt: as a rollout, as a side of pairs, as a demonstration. At most three queries."""
    held: dict[int, list[_Held]] = {one.pk: [] for one in attempts}
    rollouts = _find_rollouts().filter(rollout__attempt__in=list(held))
    items = [
        _describe(kind, name, rows.filter(**{f"{name}__in": list(held)}))
        for kind, rows in _find_items()
        for name in (("chosen", "rejected") if rows.model is PreferencePair else ("attempt",))
    ]
    for attempt, _, *row in rollouts.values_list("rollout__attempt", *_ROLLOUT).union(*items, all=True):
        held[attempt].append(_Held(*row))
    return _follow(held)


_ROLLOUT = (Value(None, BigIntegerField()), Value(Batch.Kind.ROLLOUTS.value), Value(""), "batch", Value(""))
"""What a rollout's use tells in the columns of `_describe`."""


def _find_rollouts() -> QuerySet[TrainingUse]:
    """Rollouts that are learnt from: where a batch learns from pairs its rollouts are not."""
    return TrainingUse.objects.filter(batch__kind=Batch.Kind.ROLLOUTS)


def _find_items() -> list[tuple[str, QuerySet[Any]]]:
    return [(kind, model.objects.order_by()) for kind, model in ITEMS.items()]


def _describe(kind: str, whose: str, rows: QuerySet[Any]) -> QuerySet[Any, Any]:
    """Rows as (whose, feedback, and what `_Held` says)."""
    return rows.values_list(whose, "feedback", Value(str(kind)), "source", "batch", "unusable_reason")


def _follow(held: Mapping[int, Sequence[_Held]]) -> dict[int, list[Use]]:
    """Each with what became of its batch: two queries."""
    ids = {row.batch for rows in held.values() for row in rows if row.batch is not None}
    found = Batch.objects.filter(pk__in=ids).select_related("run")
    batches = {one.pk: one for one in found.defer("run__metrics", "run__spec")} if ids else {}
    runs: dict[int, TrainingRun] = {pk: run for pk, one in batches.items() if (run := getattr(one, "run", None))}
    trained = Adapter.objects.filter(run_id__in=[run.pk for run in runs.values()]).select_related("parent", "worker")
    adapters = {one.run_id: one for one in trained.defer("manifest")} if runs else {}

    def follow(row: _Held, count: int) -> Use:
        run = runs.get(row.batch or 0)
        return Use(
            learnt=row.learnt,
            source=row.source,
            label=str(ITEMS[row.learnt].Source(row.source).label) if row.source else "",
            count=count,
            batch=batches.get(row.batch or 0),
            run=run,
            adapter=adapters.get(run.pk) if run else None,
            reason=row.reason,
        )

    return {
        pk: [follow(row, count) for row, count in sorted(Counter(rows).items(), key=_order)]
        for pk, rows in held.items()
    }


def _order(counted: tuple[_Held, int]) -> tuple[int, str, str]:
    """Batches in order, what waits last."""
    row, _ = counted
    return row.batch or 2**62, row.learnt, row.source
