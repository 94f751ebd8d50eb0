"""The same task on two adapters: who tried it, and two attempts side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Prefetch, Q
from django.utils.safestring import SafeString

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.console.rendering import Diff, diff_lines, diff_words
from apps.tasks.models import Attempt, Step, Task

NEWEST = 2_000
MOST_TASKS = 40
MOST_PLACES = 40


@dataclass(frozen=True)
class Version:
    """One model's tries at a task. `adapter` None: the base model.

    Attributes:
        score: mean of what its attempts were scored, in [0, 1]; None while nothing was.
    """

    adapter: Adapter | None
    attempts: Sequence[Attempt]

    @property
    def number(self) -> int:
        return self.adapter.version if self.adapter else 0

    @property
    def score(self) -> float | None:
        known = [worth for attempt in self.attempts if (worth := _worth(attempt)) is not None]
        return sum(known) / len(known) if known else None

    @property
    def best(self) -> Attempt:
        return max(self.attempts, key=lambda attempt: _worth(attempt) or 0.0)


@dataclass(frozen=True)
class StepPair:
    """The steps at one place of two attempts; None where one of them has none."""

    place: int
    left: Step | None
    right: Step | None
    diff: SafeString


@dataclass(frozen=True)
class AttemptComparison:
    """Two attempts side by side."""

    left: Attempt
    right: Attempt
    answer: SafeString
    text: Diff
    steps: Sequence[StepPair]
    left_over: int

    @property
    def is_same_task(self) -> bool:
        return self.left.task.prompt == self.right.task.prompt

    @property
    def has_same_answer(self) -> bool:
        return self.left.answer == self.right.answer


def find_family(task: Task) -> list[Task]:
    """The task, the one it repeats, the ones that repeat it, and equal ones among the project's newest."""
    root = task.parent_id or task.pk
    newest = Task.objects.filter(project=task.project_id).order_by("-id").values("pk")[:NEWEST]
    same = Q(pk=root) | Q(parent=root) | Q(parent=task.pk) | Q(pk__in=newest)
    tasks = Task.objects.filter(same, project=task.project_id, prompt=task.prompt).select_related("worker")
    return list(tasks.order_by("-id")[:MOST_TASKS])


def find_versions(tasks: Sequence[Task]) -> list[Version]:
    """Who tried these tasks, oldest version first."""
    attempts = Attempt.objects.filter(task__in=tasks).select_related("adapter", "task")
    by_adapter: dict[int | None, list[Attempt]] = {}
    for attempt in attempts.defer("text", "task__reference").order_by("task_id", "index"):
        by_adapter.setdefault(attempt.adapter_id, []).append(attempt)
    found = [Version(group[0].adapter, group) for group in by_adapter.values()]
    return sorted(found, key=lambda version: version.number)


def compare_attempts(project: Project, left_id: int, right_id: int) -> AttemptComparison | None:
    """Two attempts of the project; None where there are no such."""
    steps = Prefetch("steps", Step.objects.order_by("index"))
    found = Attempt.objects.filter(pk__in=[left_id, right_id], task__project=project)
    rows = found.select_related("task__worker", "adapter").prefetch_related(steps).in_bulk()
    left, right = rows.get(left_id), rows.get(right_id)
    if left is None or right is None:
        return None
    return AttemptComparison(
        left=left,
        right=right,
        answer=diff_words(left.answer, right.answer),
        text=diff_lines(left.text, right.text),
        steps=_pair(list(left.steps.all()), list(right.steps.all())),
        left_over=max(left.steps.count(), right.steps.count()) - MOST_PLACES,
    )


def _pair(left: Sequence[Step], right: Sequence[Step]) -> list[StepPair]:
    pairs = []
    for place in range(min(max(len(left), len(right)), MOST_PLACES)):
        one = left[place] if place < len(left) else None
        other = right[place] if place < len(right) else None
        pairs.append(StepPair(place + 1, one, other, diff_words(_say(one), _say(other))))
    return pairs


def _say(step: Step | None) -> str:
    if step is None:
        return ""
    return f"{step.text}\n→ {step.tool_result}" if step.tool_result else step.text


def _worth(attempt: Attempt) -> float | None:
    return attempt.outcome if attempt.outcome is not None else attempt.score
