"""From an adapter back to its runs, batches and every person behind it, and from a person on to what came of theirs."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext as _

from apps.accounts.models import User
from apps.adapters.models import Adapter
from apps.base.pages import take_page
from apps.evals.models import Evaluation
from apps.feedback.models import Feedback
from apps.reports.learning_curve import AccuracyPoint
from apps.rollouts.contents import ItemShare, WorkerShare, count_contents, count_workers
from apps.rollouts.models import Batch, Demonstration, PreferencePair, Rollout
from apps.tasks.models import Task
from apps.training.models import TrainingRun
from apps.training.provenance import Use, find_furthest, trace_feedback

PAGE = 25
MOST_ANCESTORS = 500
MOST_PEOPLE = 200


@dataclass(frozen=True)
class PersonShare:
    """One person's or manager's part in an adapter."""

    author: str
    source: str
    feedback: int
    tasks: int
    step_words: int

    @property
    def source_label(self) -> str:
        return str(Feedback.Source(self.source).label)


@dataclass(frozen=True)
class Origins:
    """Who taught an adapter what.

    Attributes:
        adapters: it and, where asked, everything it continues, newest first.
        people: most feedback first.
        unjudged: tasks of those batches that nobody said anything about.
    """

    adapter: Adapter
    adapters: Sequence[Adapter]
    people: Sequence[PersonShare]
    feedback: Sequence[Feedback]
    older: int | None
    tasks: int

    @property
    def total(self) -> int:
        return sum(person.feedback for person in self.people)


@dataclass(frozen=True)
class FeedbackFate:
    """One feedback and how far it came: where it came furthest, by rewards, pairs or demonstrations.

    Attributes:
        obstacles: why none of its task's attempts can be trained on; [] where one can, or where it is not known yet.
        is_spent: an attempt of its task is in a batch.
    """

    feedback: Feedback
    furthest: Use | None
    obstacles: Sequence[str] = ()
    is_spent: bool = False

    @property
    def batch(self) -> Batch | None:
        return self.furthest.batch if self.furthest else None

    @property
    def run(self) -> TrainingRun | None:
        return self.furthest.run if self.furthest else None

    @property
    def adapter(self) -> Adapter | None:
        return self.furthest.adapter if self.furthest else None

    @property
    def stage(self) -> str:
        """retracted, waits, unusable, nothing (its batch learns from what it did not give), items (pairs or
        demonstrations of it wait), batch, run, failed, refused or learned."""
        if self.feedback.retracted_at is not None:
            return "retracted"
        if self.furthest is None or self.furthest.stage == "unusable":
            if self.is_spent:
                return "nothing"
            return "unusable" if self.obstacles else "waits"
        return "items" if self.furthest.stage == "waits" else self.furthest.stage


@dataclass(frozen=True)
class Contribution:
    """What one reviewer's feedback did.

    Attributes:
        adapters: the newest adapters that hold some of it, with how they did on held-out tasks.
    """

    fates: Sequence[FeedbackFate]
    adapters: Sequence[tuple[Adapter, AccuracyPoint | None, int]]


def find_ancestors(adapter: Adapter) -> list[Adapter]:
    """The adapter and everything it continues, newest first, in one query."""
    known = {
        one.pk: one
        for one in Adapter.objects.filter(worker=adapter.worker_id, version__lte=adapter.version)
        .defer("manifest")
        .order_by("-version")[:MOST_ANCESTORS]
    }
    line: list[Adapter] = []
    current: Adapter | None = adapter
    while current is not None and len(line) < MOST_ANCESTORS:
        line.append(current)
        current = known.get(current.parent_id or 0)
    return line


class RewardShare(NamedTuple):
    """How many rollouts got their reward from whom."""

    reward_source: str
    rollouts: int


@dataclass(frozen=True)
class Link:
    """One adapter of a lineage, and what it was trained on.

    Args:
        learnt: rollouts, pairs or demonstrations; "" without a run.
        items: pairs or demonstrations, by where they come from; [] of rollouts.
        workers: who did its tasks.
    """

    adapter: Adapter
    sha256: str
    run: int | None
    batch: int | None
    recipe_hash: str
    rollouts: int
    tasks: int
    sources: Sequence[RewardShare]
    learnt: str
    items: Sequence[ItemShare]
    workers: Sequence[WorkerShare]
    authors: Sequence[str]


def trace_lineage(adapter: Adapter) -> list[Link]:
    """The adapter, its parent, and so on back to the first, each with what it was trained on."""
    adapters = find_ancestors(adapter)
    known = TrainingRun.objects.select_related("batch").defer("metrics", "spec", "recipe")
    runs = known.in_bulk([one.run_id for one in adapters if one.run_id is not None])
    batches = [run.batch for run in runs.values() if run.batch is not None]
    contents = count_contents(batches)
    sources: defaultdict[int, list[RewardShare]] = defaultdict(list)
    rewarded = Rollout.objects.filter(training_use__batch__in=batches).order_by("reward_source")
    for batch, *share in rewarded.values_list("training_use__batch", "reward_source").annotate(n=Count("pk")):
        sources[batch].append(RewardShare(*share))
    links = []
    for one in adapters:
        run = runs.get(one.run_id or 0)
        batch = run.batch if run else None
        held = contents[batch.pk] if batch else None
        shares = sources[batch.pk] if batch and batch.kind == Batch.Kind.ROLLOUTS else []
        links.append(
            Link(
                adapter=one,
                sha256=one.sha256,
                run=run.pk if run else None,
                batch=batch.pk if batch else None,
                recipe_hash=run.recipe_hash if run else "",
                rollouts=sum(share.rollouts for share in shares),
                tasks=held.tasks if held else 0,
                sources=shares,
                learnt=held.kind if held else "",
                items=held.shares if held else (),
                workers=count_workers(batch) if batch else [],
                authors=sorted({person.author for person in find_people(one)}),
            )
        )
    return links


def find_origins(
    adapter: Adapter, *, user: User, with_ancestors: bool, author: str = "", before: int | None = None
) -> Origins:
    """People behind an adapter, or behind it and its ancestors, and of their feedback what `user` may read."""
    adapters = find_ancestors(adapter) if with_ancestors else [adapter]
    batches = _batches_of(adapters)
    feedback = Feedback.objects.counting().filter(_was_used(batches), project=adapter.project_id)
    shown = feedback.readable_by(user)
    if author:
        shown = shown.filter(author=author)
    page, older = take_page(shown.select_related("task"), before=before, size=PAGE)
    return Origins(
        adapter=adapter,
        adapters=adapters,
        people=_count_people(feedback),
        feedback=page,
        older=older,
        tasks=sum(Batch.objects.filter(pk__in=batches).values_list("task_count", flat=True)),
    )


def find_people(adapter: Adapter) -> list[PersonShare]:
    """Whose feedback is in this one version, most first."""
    used = _was_used(_batches_of([adapter]))
    return _count_people(Feedback.objects.counting().filter(used, project=adapter.project_id))


def find_contribution(feedback: Sequence[Feedback]) -> Contribution:
    """What came of each of some of somebody's feedback, and the newest adapters that hold some of it."""
    fates = find_fates(feedback)
    return Contribution(fates=fates, adapters=_find_adapters(fates))


def find_fates(feedback: Sequence[Feedback]) -> list[FeedbackFate]:
    """How far each came, in six queries."""
    uses = trace_feedback(feedback)
    built: defaultdict[int, list[tuple[str, bool]]] = defaultdict(list)
    rollouts = Rollout.objects.filter(task__in={one.task_id for one in feedback}).order_by("attempt__index")
    for task_id, reason, use in rollouts.values_list("task", "unusable_reason", "training_use"):
        built[task_id].append((reason, use is not None))
    return [_find_fate(one, find_furthest(uses[one.pk]), built[one.task_id]) for one in feedback]


def _find_fate(feedback: Feedback, furthest: Use | None, built: Sequence[tuple[str, bool]]) -> FeedbackFate:
    """Args: built: of each rollout of the task why it is not usable, "" where it is, and whether a batch has it."""
    if feedback.task.state in (Task.State.FAILED, Task.State.CANCELLED) and not built:
        return FeedbackFate(feedback, furthest, [_("the task came to no end")])
    reasons = list(dict.fromkeys(reason for reason, _used in built))
    return FeedbackFate(
        feedback,
        furthest,
        obstacles=reasons if all(reasons) else (),
        is_spent=any(is_used for _reason, is_used in built),
    )


def _find_adapters(fates: Sequence[FeedbackFate]) -> list[tuple[Adapter, AccuracyPoint | None, int]]:
    counts: dict[int, int] = {}
    adapters: dict[int, Adapter] = {}
    for fate in fates:
        if fate.adapter is not None:
            adapters[fate.adapter.pk] = fate.adapter
            counts[fate.adapter.pk] = counts.get(fate.adapter.pk, 0) + 1
    results = Evaluation.objects.on_panels().filter(adapter__in=adapters).select_related("adapter").order_by("id")
    points = {result.adapter_id: AccuracyPoint(result) for result in results}
    newest = sorted(adapters.values(), key=lambda adapter: -adapter.version)
    return [(adapter, points.get(adapter.pk), counts[adapter.pk]) for adapter in newest]


def _count_people(feedback: QuerySet[Feedback]) -> list[PersonShare]:
    rows: Any = (
        feedback.order_by()
        .values("author", "source")
        .annotate(
            given=Count("pk", distinct=True), tasks=Count("task", distinct=True), words=Count("steps", distinct=True)
        )
        .order_by("-given", "author")[:MOST_PEOPLE]
    )
    return [PersonShare(row["author"], row["source"], row["given"], row["tasks"], row["words"]) for row in rows]


def _batches_of(adapters: Sequence[Adapter]) -> list[int]:
    runs = TrainingRun.objects.filter(pk__in=[adapter.run_id for adapter in adapters if adapter.run_id])
    return list(runs.values_list("batch_id", flat=True))


def _was_used(batches: Sequence[int]) -> Q:
    """Feedback on a task of which an attempt is in one of the batches, or that a pair or a demonstration in one is of.

    Where pairs were learnt, the attempts of the batch were not; one that no single feedback is behind is its task's.
    """
    used: QuerySet[Rollout] = Rollout.objects.filter(
        task=OuterRef("task"), training_use__batch__in=batches, training_use__batch__kind=Batch.Kind.ROLLOUTS
    )
    items = (
        kind.objects.filter(Q(feedback=OuterRef("pk")) | Q(feedback=None), task=OuterRef("task"), batch__in=batches)
        for kind in (PreferencePair, Demonstration)
    )
    pairs, demonstrations = items
    return Q(Exists(used)) | Q(Exists(pairs)) | Q(Exists(demonstrations))
