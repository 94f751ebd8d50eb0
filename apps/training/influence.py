"""What a manager's feedback did to the work, as far as verified outcomes tell it. No experiment: see `core.meta`."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import Q

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.feedback.models import Feedback
from apps.rollouts.models import Batch, Rollout
from apps.tasks.models import Attempt, Task
from apps.training.models import TrainingRun
from apps.worlds.registry import find_world
from tentalis.core.canon import content_hash
from tentalis.core.meta import KindOutcomes, estimate_influence
from tentalis.core.scoring.ranking import Difference

MOST_ATTEMPTS = 5_000
HEARD_FROM = 0.5
"""Share of a kind's tasks that learnt from the manager's word, from which the kind counts as heard."""

Kinds = dict[str, list[float]]


def find_influence(project: Project, handle: str, *, before_run: int | None) -> Difference:
    """How much more the kinds of task gained in the last training that learnt from the manager's word on them."""
    return estimate_influence(list(find_gains(project, handle, before_run=before_run).values()))


def find_gains(project: Project, handle: str, *, before_run: int | None) -> dict[str, KindOutcomes]:
    """Kind of task -> verified outcomes before and after the last training, and whether that heard the manager on it.

    Of the newest training before `before_run` (its adapter has worked since; the one just adopted has not), whatever it
    learns from: attempts and their rewards, pairs, or demonstrations. Seven queries at most.
    """
    runs = TrainingRun.objects.filter(
        project=project, purpose=TrainingRun.Purpose.POLICY, state=TrainingRun.State.SUCCEEDED
    )
    if before_run is not None:
        runs = runs.filter(pk__lt=before_run)
    run = runs.select_related("batch").order_by("-pk").first()
    adapter = Adapter.objects.filter(run_id=run.pk).first() if run else None
    if run is None or run.batch is None or adapter is None:
        return {}
    heard = _find_heard(run.batch, handle)
    before, after = _find_outcomes(run, run.parent_id), _find_outcomes(run, adapter.pk)
    return {
        kind: KindOutcomes(heard.get(kind, 0.0) >= HEARD_FROM, before[kind], after[kind])
        for kind in before.keys() & after.keys()
    }


def name_kind(environment: str, prompt: str, metadata: Mapping[str, Any]) -> str:
    """What tasks have in common: what their sender or their world says, or the very same prompt."""
    if isinstance(kind := metadata.get("kind"), str) and kind:
        return f"{environment}: {kind[:80]}"
    return f"{environment}: {find_world(environment).find_kind(prompt) or content_hash(prompt)[:16]}"


def _find_heard(batch: Batch, handle: str) -> dict[str, float]:
    """Kind -> share of its tasks in the batch that learnt from somebody's word. Two queries, three of pairs.

    Read is what the batch teaches: where that is pairs or demonstrations, its rollouts teach nothing. A word is learnt
    from where it is what the thing says:

    * a rollout: by its hint, or as its reward (below);
    * a pair: it is the feedback that chose, ranked, edited or decided; one that no single feedback is behind, where
      the reward of either side is theirs, for their order is nobody's without it;
    * a demonstration: it is the feedback that edited or guided; a good attempt, where that reward is theirs.

    A reward is somebody's where it comes from their kind of source, they spoke of the task, what they said was not
    taken back and they are trusted at all.
    """
    spoken: defaultdict[int, set[str]] = defaultdict(set)
    said = Feedback.objects.standing().filter(author=handle, trust__gt=0, task__in=batch.task_ids())
    for pk, source in said.values_list("task", "source"):
        spoken[pk].add(source)
    tasks: dict[int, tuple[str, bool]] = {}
    for task, author, rewards in _list_words(batch):
        is_rewarded = any(one.weight > 0 and one.reward_source in spoken[task.pk] for one in rewards)
        kind, is_heard = tasks.get(task.pk, (name_kind(task.environment, task.prompt, task.metadata), False))
        tasks[task.pk] = kind, is_heard or author == handle or is_rewarded
    counted: dict[str, list[bool]] = defaultdict(list)
    for kind, is_heard in tasks.values():
        counted[kind].append(is_heard)
    return {kind: sum(found) / len(found) for kind, found in counted.items()}


Word = tuple[Task, str, Sequence[Rollout]]
"""A thing that is learnt: its task, whose feedback it is or hints at it ("": nobody's), and whose rewards it tells."""


def _list_words(batch: Batch) -> Iterator[Word]:
    if batch.kind == Batch.Kind.ROLLOUTS:
        rollouts = Rollout.objects.filter(training_use__batch=batch).select_related("task", "hint__feedback")
        for rollout in rollouts.defer("steps", "task__reference"):
            yield rollout.task, rollout.hint.feedback.author if rollout.hint else "", [rollout]
        return
    items: list[Any] = list(
        batch.items().select_related("task", "feedback").defer("messages", "text", "task__reference")
    )
    names = batch.attempt_fields
    sides = {getattr(one, f"{name}_id") for one in items for name in names if one.feedback_id is None}
    rollouts_of = {one.attempt_id: one for one in Rollout.objects.filter(attempt__in=sides - {None}).defer("steps")}
    for one in items:
        attempts = [getattr(one, f"{name}_id") for name in names] if one.feedback is None else []
        rewards = [rollouts_of[attempt] for attempt in attempts if attempt in rollouts_of]
        yield one.task, one.feedback.author if one.feedback else "", rewards


def _find_outcomes(run: TrainingRun, adapter_id: int | None) -> Kinds:
    """Kind -> verified outcomes of the line's attempts under an adapter; None: under the base model."""
    of_line = Q(worker=run.worker_id) | Q(worker__learns_with=run.worker_id)
    rows = Attempt.objects.filter(of_line, adapter=adapter_id, outcome__isnull=False).order_by("-id")
    columns = ("task__environment", "task__prompt", "task__metadata", "outcome")
    found: Kinds = defaultdict(list)
    for environment, prompt, metadata, outcome in rows.values_list(*columns)[:MOST_ATTEMPTS]:
        found[name_kind(environment, prompt, metadata)].append(outcome)
    return dict(found)
