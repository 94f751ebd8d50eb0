"""What a batch holds, whatever its kind: how much of what, of how many tasks, from where, and whose answers."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Count, QuerySet

from apps.evals.holding import READS, find_held_out
from apps.inference.models import Exchange
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout
from apps.tasks.models import Attempt, Task
from tentalis.core.learning.monitors import BatchFacts, describe_batch

ITEMS: dict[str, type[PreferencePair] | type[Demonstration]] = {
    Batch.Kind.PAIRS: PreferencePair,
    Batch.Kind.DEMONSTRATIONS: Demonstration,
}
"""Kind of a batch -> the rows it holds; rollouts are held by `TrainingUse`."""


@dataclass(frozen=True)
class ItemShare:
    """How many of a batch's pairs or demonstrations come from where."""

    source: str
    label: str
    count: int


@dataclass(frozen=True)
class Contents:
    """What there is to learn in a batch.

    Args:
        kind: rollouts, pairs or demonstrations; count: how many of those; tasks: of how many.
        shares: by source, most first; () of rollouts.
    """

    kind: str
    count: int
    tasks: int
    shares: Sequence[ItemShare] = ()


def count_contents(batches: Iterable[Batch]) -> dict[int, Contents]:
    """What each batch holds, by its id. Two queries for each kind of items that is among them."""
    found: dict[int, Contents] = {}
    by_kind: defaultdict[str, list[int]] = defaultdict(list)
    for batch in batches:
        by_kind[batch.kind].append(batch.pk)
        found[batch.pk] = Contents(batch.kind, batch.rollout_count, batch.task_count)
    for kind, model in ITEMS.items():
        if not by_kind[kind]:
            continue
        rows: QuerySet[Any] = model.objects.filter(batch__in=by_kind[kind]).order_by()
        tasks = dict(rows.values_list("batch").annotate(n=Count("task", distinct=True)))
        shares: defaultdict[int, list[ItemShare]] = defaultdict(list)
        for batch_id, source, count in rows.values_list("batch", "source").annotate(n=Count("pk")):
            shares[batch_id].append(ItemShare(source, str(model.Source(source).label), count))
        for batch_id in by_kind[kind]:
            ordered = sorted(shares[batch_id], key=lambda one: (-one.count, one.source))
            count = sum(one.count for one in ordered)
            found[batch_id] = Contents(kind, count, tasks.get(batch_id, 0), tuple(ordered))
    return found


class WorkerShare(NamedTuple):
    """How many of a batch's tasks a worker did."""

    worker: str
    tasks: int


def count_workers(batch: Batch) -> list[WorkerShare]:
    """Who did what a batch holds, most tasks first: its line's worker, and those who learn with it. One query."""
    task = batch.task_path
    rows = batch.items().order_by().values_list(f"{task}__worker__name").annotate(n=Count(task, distinct=True))
    return [WorkerShare(name, count) for name, count in rows.order_by("-n", f"{task}__worker__name")]


class Taught(NamedTuple):
    """A side of what a batch teaches.

    Args:
        attempt: whose tokens it is; None where its words are nobody's.
        reward: what the trainer takes it for, in [0, 1]; None where it takes no reward for it.
        is_whole: those tokens are the whole answer, and none of it was written by a person.
    """

    task: Task
    attempt: Attempt | None
    reward: float | None
    is_whole: bool


def list_taught(batch: Batch) -> list[Taught]:
    """Everything a batch teaches, in order of task: the chosen answer of a pair is worth 1, the rejected one 0."""
    if batch.kind == Batch.Kind.PAIRS:
        pairs = PreferencePair.objects.filter(batch=batch).order_by("task_id", "pk")
        sides = pairs.select_related("task", "chosen__exchange", "rejected__exchange")
        return [
            Taught(pair.task, attempt, reward, attempt is not None)
            for pair in sides
            for attempt, reward in ((pair.chosen, 1.0), (pair.rejected, 0.0))
        ]
    if batch.kind == Batch.Kind.DEMONSTRATIONS:
        shown = Demonstration.objects.filter(batch=batch).order_by("task_id", "pk")
        return [
            Taught(one.task, one.attempt, 1.0, one.attempt is not None and not one.text)
            for one in shown.select_related("task", "attempt__exchange")
        ]
    rollouts = Rollout.objects.filter(training_use__batch=batch).select_related("task", "attempt__exchange")
    told = rollouts.only("reward", "task", "attempt", *_OF_TASK, "attempt__outcome", "attempt__exchange", *_OF_EXCHANGE)
    return [Taught(one.task, one.attempt, one.reward, True) for one in told.order_by("task_id", "pk")]


_OF_TASK = tuple(f"task__{name}" for name in (*READS, "metadata"))
_OF_EXCHANGE = tuple(f"attempt__exchange__{name}" for name in Exchange.EXACT_BY)


def describe_taught(batch: Batch) -> BatchFacts:
    """What a batch teaches, and how far that agrees with what was verified.

    Of a pair only right beside wrong is an audit: of two answers that came to the same either may be the better one.
    """
    taught = list_taught(batch)
    held_out = find_held_out({one.task for one in taught})
    outcomes = [one.attempt.outcome if one.attempt is not None and one.is_whole else None for one in taught]
    if batch.kind == Batch.Kind.PAIRS:
        pairs = [outcomes[place : place + 2] for place in range(0, len(outcomes), 2)]
        tells = [None not in pair and pair[0] != pair[1] for pair in pairs]
        outcomes = [found if told else None for pair, told in zip(pairs, tells, strict=True) for found in pair]
    return describe_batch(
        [one.reward for one in taught],
        outcomes,
        held_out=sum(one.task.pk in held_out for one in taught),
    )
