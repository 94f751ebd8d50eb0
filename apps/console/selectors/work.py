"""Tasks as pages show them: attempts, steps, scores, and whose word came of it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count, Prefetch, QuerySet, prefetch_related_objects

from apps.accounts.models import Project, User
from apps.audit.models import AuditEntry
from apps.feedback.models import Feedback, Hint, Review, StepFeedback
from apps.feedback.set_aside import Aside, Trust
from apps.outbox.kinds import OF_A_TASK
from apps.outbox.models import Segment
from apps.scoring.models import StepScore
from apps.tasks.models import Attempt, EpisodeTurn, Step, Task
from apps.tasks.selectors import BoundedCount, count_tasks
from apps.training.provenance import Use, trace_attempts
from apps.workers.models import Worker
from apps.worlds.registry import find_world

PAGE = 25
HISTORY = 40
COUNTED = 100
WAY = (Task.State.QUEUED, Task.State.WORKING, Task.State.SCORING, Task.State.IN_REVIEW, Task.State.LEARNING)


@dataclass(frozen=True)
class StepView:
    """One step with what was said of it."""

    step: Step
    scores: Sequence[StepScore]
    words: Sequence[StepFeedback]


@dataclass(frozen=True)
class AttemptView:
    """One attempt with its steps, its own scores, and what became of it in the ledger."""

    attempt: Attempt
    steps: Sequence[StepView]
    scores: Sequence[StepScore]
    words: Sequence[StepFeedback]
    rollout: Any
    uses: Sequence[Use] = ()
    aside: Aside | None = None

    @property
    def checks(self) -> Sequence[Mapping[str, Any]]:
        """What the checks found; the word of a judge that is below its bar by now is unscored."""
        kept = (self.attempt.verification or {}).get("checks", ())
        return kept if self.aside is None or self.aside.checks is None else self.aside.checks

    @property
    def turns(self) -> Sequence[EpisodeTurn]:
        """As far as they were read with it."""
        found: Sequence[EpisodeTurn] = getattr(self.attempt, "_prefetched_objects_cache", {}).get("turns", ())
        return found

    @property
    def weights(self) -> Mapping[str, float]:
        """Scorer -> weight that entered the combined score."""
        found = self.attempt.score_details.get("weights", {})
        return {str(name): weight for name, weight in found.items()} if isinstance(found, dict) else {}


@dataclass(frozen=True)
class HeldUp:
    """Why a task waits for another try.

    Attributes:
        until: not before then.
        away_since: since when the server it needs is away; None where its last try failed otherwise.
    """

    link: str
    reason: str
    until: datetime
    away_since: datetime | None


@dataclass(frozen=True)
class TaskView:
    """Everything the task page shows to `user`."""

    task: Task
    user: User
    attempts: Sequence[AttemptView]
    feedback: Sequence[Feedback]
    hints: Sequence[Hint]
    reviews: Sequence[Review]
    history: Sequence[AuditEntry]
    held_up: HeldUp | None = None
    not_ended: Sequence[Attempt] = ()
    """In a world with turns: attempts that are under way, and those that were lost and are played anew."""
    withheld: Mapping[int, str] = field(default_factory=dict)
    """Feedback id -> why it does not count: who judged is below its bar."""

    @property
    def human_review(self) -> Review | None:
        """The open review this person may take: not the one they asked for by an appeal."""
        waiting = (review for review in self.reviews if _waits_for_a_person(review))
        return next((review for review in waiting if review.appellant_id != self.user.pk), None)

    @property
    def is_outside(self) -> bool:
        """An agent elsewhere does the work: once, with a model we may know nothing of."""
        return self.task.worker.kind == Worker.Kind.OUTSIDE

    @property
    def subject(self) -> str:
        """What live updates call it."""
        return f"task:{self.task.pk}"

    @property
    def can_be_cancelled(self) -> bool:
        return self.task.state not in Task.FINAL

    @property
    def way(self) -> list[tuple[str, str]]:
        """(label, done | now | ahead) of each state on the way to done; a review that nobody was asked for is none."""
        at = WAY.index(Task.State(self.task.state)) if self.task.state in WAY else None
        is_done = self.task.state == Task.State.DONE
        marks = ["done" if is_done or (at is not None and place < at) else "ahead" for place in range(len(WAY))]
        if at is not None:
            marks[at] = "now"
        labels = [str(state.label) for state in WAY]
        if not self.reviews and marks[WAY.index(Task.State.IN_REVIEW)] == "done":
            del labels[WAY.index(Task.State.IN_REVIEW)], marks[WAY.index(Task.State.IN_REVIEW)]
        return [*zip(labels, marks, strict=True), (str(Task.State.DONE.label), "now" if is_done else "ahead")]


@dataclass(frozen=True)
class TaskCounts:
    """Open tasks by state, each counted up to a limit; what is done is not counted, for that would read every row."""

    by_state: Mapping[str, BoundedCount]

    @property
    def open(self) -> BoundedCount:
        return BoundedCount(sum(self.by_state.values()), is_more=any(count.is_more for count in self.by_state.values()))

    @property
    def rows(self) -> list[tuple[str, BoundedCount]]:
        """(label, count) of the states that hold any."""
        return [(str(state.label), self.by_state[state]) for state in WAY if state in self.by_state]


def find_task(project: Project, task_id: int) -> Task | None:
    found = Task.objects.filter(project=project, pk=task_id)
    return found.select_related("worker", "submitted_by", "parent", "project").first()


def find_attempts(task: Task) -> QuerySet[Attempt]:
    """A task's attempts with their steps, without the tokens behind them."""
    attempts = Attempt.objects.filter(task=task).select_related("adapter")
    return attempts.prefetch_related(Prefetch("steps", Step.objects.order_by("index")))


def show_task(task: Task, *, user: User) -> TaskView:
    """A constant number of queries, however many attempts and steps. Of feedback, what `user` may read just now."""
    attempts = list(find_attempts(task).select_related("adapter", "rollout"))
    not_ended: list[Attempt] = []
    if find_world(task.environment).has_turns:
        prefetch_related_objects(attempts, "turns")
        under_way = Attempt.every.filter(task=task, state__in=Attempt.NOT_YET).annotate(turn_count=Count("turns"))
        not_ended = list(under_way.order_by("index", "pk"))
    uses = trace_attempts(attempts)
    scores: dict[tuple[int, int | None], list[StepScore]] = defaultdict(list)
    for score in StepScore.objects.filter(attempt__in=attempts).order_by("scorer"):
        scores[score.attempt_id, score.step_id].append(score)
    readable = Feedback.objects.readable_by(user).filter(task=task)
    feedback = list(readable.select_related("preferred_attempt").order_by("-id"))
    words: dict[tuple[int, int | None], list[StepFeedback]] = defaultdict(list)
    for word in StepFeedback.objects.filter(feedback__in=feedback).select_related("feedback").order_by("id"):
        words[word.attempt_id, word.step_id].append(word)
    history = AuditEntry.objects.filter(subject_type="task", subject_id=task.pk).order_by("-id")[:HISTORY]
    trust = Trust(task.project_id)
    asides = trust.find_asides({attempt.pk: attempt.score_details for attempt in attempts})
    return TaskView(
        task=task,
        withheld={one.pk: why for one in feedback if (why := trust.silence(one, of_hint=True))},
        user=user,
        attempts=[_view_attempt(one, scores, words, uses[one.pk], asides.get(one.pk)) for one in attempts],
        feedback=feedback,
        hints=list(Hint.objects.filter(feedback__in=feedback)),
        reviews=list(Review.objects.filter(task=task).select_related("claimed_by")),
        history=list(reversed(history)),
        held_up=None if task.state in Task.FINAL else _find_held_up(task),
        not_ended=not_ended,
    )


def _find_held_up(task: Task) -> HeldUp | None:
    """Why the task's work is not going on just now: its last try failed, or whom it needs is left alone for a while."""
    waiting = Segment.objects.filter(kind__in=OF_A_TASK, subject_id=task.pk, state=Segment.State.OPEN)
    found = waiting.filter(fence__isnull=True, published_at__isnull=True).exclude(errors=[]).order_by("-id").first()
    if found is None:
        return None
    last = found.errors[-1]
    return HeldUp(str(last.get("link", "")), str(last.get("message", "")), found.run_after, found.away_since)


def tasks_of(project: Project) -> QuerySet[Task]:
    """A project's tasks as a list shows them."""
    found = Task.objects.filter(project=project, evaluation=None).select_related("worker")
    return found.defer("reference", "metadata", "answer")


def count_open_tasks(project: Project) -> TaskCounts:
    return TaskCounts(count_tasks(project.pk, WAY))


def count_open_reviews(project: Project) -> str:
    """How many wait for a person, as the navigation says it: "" for none, "100+" for more than it counts."""
    waiting = Review.objects.filter(project=project, state=Review.State.OPEN, audience=Review.Audience.HUMAN)
    found = len(waiting.order_by().values_list("pk")[: COUNTED + 1])
    return f"{COUNTED}+" if found > COUNTED else str(found or "")


def _waits_for_a_person(review: Review) -> bool:
    return review.state == Review.State.OPEN and review.audience == Review.Audience.HUMAN


def _view_attempt(
    attempt: Attempt,
    scores: Mapping[tuple[int, int | None], Sequence[StepScore]],
    words: Mapping[tuple[int, int | None], Sequence[StepFeedback]],
    uses: Sequence[Use],
    aside: Aside | None,
) -> AttemptView:
    steps = [
        StepView(step, scores.get((attempt.pk, step.pk), ()), words.get((attempt.pk, step.pk), ()))
        for step in attempt.steps.all()
    ]
    return AttemptView(
        attempt=attempt,
        steps=steps,
        scores=scores.get((attempt.pk, None), ()),
        words=words.get((attempt.pk, None), ()),
        rollout=getattr(attempt, "rollout", None),
        uses=uses,
        aside=aside,
    )
