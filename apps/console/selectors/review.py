"""A review as its page shows it: which attempt stands where, and what may be seen of it before a judgement."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_uppercase

from django.db.models.functions import Now
from django.utils.translation import gettext as _

from apps.accounts.models import Project, User
from apps.calibration.models import Rater
from apps.console.rendering import Diff, diff_lines
from apps.console.selectors.work import TaskView, find_attempts
from apps.feedback.models import Feedback, Review, StepFeedback
from apps.feedback.rules import validate_review_policy
from apps.scoring.models import StepScore
from apps.tasks.copies import annotate_copies, group_copies
from apps.tasks.models import Attempt, Step, Task


@dataclass(frozen=True)
class Shown:
    """One answer on the page: an attempt, and the others that read the same.

    Attributes:
        attempt: the first of them; what is said of it is said of all.
        name: what the page calls it: "Answer B" in a blind review, else "Attempt 3".
        letter: short for it.
    """

    attempt: Attempt
    name: str
    letter: str
    steps: Sequence[Step]
    copies: Sequence[Attempt] = ()

    @property
    def indices(self) -> list[int]:
        """Of the attempt and its copies."""
        return [self.attempt.index, *(one.index for one in self.copies)]

    @property
    def numbers(self) -> str:
        """As pages count them."""
        return ", ".join(str(index + 1) for index in sorted(self.indices))

    @property
    def count(self) -> int:
        return len(self.indices)


@dataclass(frozen=True)
class StepReveal:
    """A step, what the scorers said of it, and what people did."""

    step: Step | None
    scores: Sequence[StepScore]
    words: Sequence[StepFeedback]


@dataclass(frozen=True)
class AttemptReveal:
    """What stood behind a name: shown once the judgement is given."""

    shown: Shown
    whole: StepReveal
    steps: Sequence[StepReveal] = field(default_factory=list)


@dataclass(frozen=True)
class Standing:
    """How much a person's word counts, in [0, 1], and what that comes from; without a rater nothing was compared."""

    rater: Rater | None

    @property
    def weight(self) -> float:
        if self.rater is None:
            return 1.0
        return 0.0 if self.rater.quarantined_at else self.rater.weight


def find_standing(project: Project, user: User) -> Standing:
    """One query."""
    return Standing(Rater.objects.filter(project=project, handle=user.handle).first())


def is_blind(task: Task, review: Review | None) -> bool:
    """Whether a judgement is asked for without sight of adapters, scores and other people's words."""
    if review is None:
        return False
    return review.purpose == Review.Purpose.PAIR or validate_review_policy(task.project.review_policy).blind


def is_reviewing_blind(view: TaskView, user: User) -> bool:
    """Whether this person has a blind review of the task open, so that its page must not tell them first."""
    held = [one for one in view.reviews if one.state == Review.State.OPEN and one.claimed_by_id == user.pk]
    return any(is_blind(view.task, review) for review in held)


def hide_from_reviewer(view: TaskView, user: User) -> TaskView:
    """The task without what others said, for who is judging it blind."""
    return replace(view, feedback=[], hints=[]) if is_reviewing_blind(view, user) else view


def show_attempts(task: Task, *, review: Review | None, user: User) -> list[Shown]:
    """The task's answers as this reviewer sees them, those that read the same as one. Without a review, or with sight,
    in the order of the attempts."""
    groups = group_copies(annotate_copies(find_attempts(task)))
    if review is None or not is_blind(task, review):
        return [_show(group, _("Attempt %(number)s"), str(group[0].index + 1)) for group in groups]
    by_index = {group[0].index: group for group in groups}
    order = shuffle_attempts(list(by_index), review_id=review.pk, user_id=user.pk)
    return [_show(by_index[index], _("Answer %(number)s"), name_place(place)) for place, index in enumerate(order)]


def _show(group: Sequence[Attempt], name: str, letter: str) -> Shown:
    first, *copies = group
    return Shown(first, name % {"number": letter}, letter, list(first.steps.all()), copies)


def shuffle_attempts(indices: Sequence[int], *, review_id: int, user_id: int) -> list[int]:
    """An order by lot that is the same whenever this person opens this review."""

    def draw(index: int) -> bytes:
        return hashlib.sha256(f"{review_id}:{user_id}:{index}".encode()).digest()

    return sorted(indices, key=draw)


def name_place(place: int) -> str:
    """A, B … Z, AA …"""
    letters = ascii_uppercase[place % 26]
    return letters if place < 26 else name_place(place // 26 - 1) + letters


def compare(left: Attempt, right: Attempt, *, whole: bool) -> Diff:
    """The answers line by line, or all that was written on the way to them."""

    def read(attempt: Attempt) -> str:
        return _read_whole(attempt) if whole else attempt.answer or attempt.text

    return diff_lines(read(left), read(right))


def find_undoable(project: Project, user: User, feedback_id: int) -> Feedback | None:
    """One's feedback, while it can be taken back as if it had not been."""
    found = Feedback.objects.filter(project=project, pk=feedback_id, author=user.handle, retracted_at__isnull=True)
    return found.filter(undo_until__gt=Now()).first()


def find_own_feedback(review: Review, user: User) -> Feedback | None:
    """What this person said in a review, `with_gold`."""
    return Feedback.objects.with_gold().filter(review=review, author=user.handle, retracted_at__isnull=True).first()


def find_standing_feedback(project: Project, feedback_id: int) -> Feedback | None:
    """A feedback that was not taken back, with its task and review."""
    found = Feedback.objects.filter(project=project, pk=feedback_id, retracted_at__isnull=True)
    return found.select_related("task__project", "task__worker", "review__project", "project").first()


def find_scores(shown: Sequence[Shown]) -> dict[tuple[int, int | None], list[StepScore]]:
    """(attempt id, step id, or None for the whole) -> what the scorers said, by their names. One query."""
    scores: dict[tuple[int, int | None], list[StepScore]] = defaultdict(list)
    for score in StepScore.objects.filter(attempt__in=[one.attempt for one in shown]).order_by("scorer"):
        scores[score.attempt_id, score.step_id].append(score)
    return scores


def reveal_attempts(feedback: Feedback, shown: Sequence[Shown]) -> list[AttemptReveal]:
    """What the scorers and everybody else said of the attempts that were judged without it. Two queries."""
    scores = find_scores(shown)
    words: dict[tuple[int, int | None], list[StepFeedback]] = defaultdict(list)
    said = StepFeedback.objects.filter(feedback__task=feedback.task_id, feedback__retracted_at__isnull=True)
    for word in said.select_related("feedback").order_by("feedback_id", "id"):
        words[word.attempt_id, word.step_id].append(word)
    return [_reveal(one, scores, words) for one in shown]


def _read_whole(attempt: Attempt) -> str:
    steps = list(attempt.steps.all())
    parts = [part for step in steps for part in (step.text, step.tool_result) if part]
    return "\n".join(parts) or attempt.text


def _reveal(
    one: Shown,
    scores: Mapping[tuple[int, int | None], Sequence[StepScore]],
    words: Mapping[tuple[int, int | None], Sequence[StepFeedback]],
) -> AttemptReveal:
    def at(step: Step | None) -> StepReveal:
        place = (one.attempt.pk, None if step is None else step.pk)
        copies = [(copy.pk, None if step is None else copy.steps.all()[step.index].pk) for copy in one.copies]
        said = [word for each in (place, *copies) for word in words.get(each, ())]
        return StepReveal(step, scores.get(place, ()), said)

    return AttemptReveal(one, at(None), [at(step) for step in one.steps])
