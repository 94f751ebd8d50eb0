"""Look for reviewers of a project who favour somebody beyond chance (`core.scoring.favour`), and keep what is found."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from django.db.models import F
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.calibration.favours import keep_screen, name_group
from apps.calibration.models import Comparison, FavourScreen
from apps.feedback.comparing import Item, load_words, read_scores
from apps.feedback.models import Feedback
from apps.tasks.models import Attempt
from tentalis.core.scoring.calibration import approves
from tentalis.core.scoring.favour import Group, Word, screen

BY = "timetable"
FEEDBACKS = 5_000
"""Those that are looked at, the newest ones."""
EVERY = timedelta(days=1)
EXAMPLES = 5
REVIEWERS = (Feedback.Source.HUMAN, Feedback.Source.AI, Feedback.Source.OUTSIDE)


class ReviewerWords(NamedTuple):
    """What a project's reviewers said lately, and what is known of it."""

    words: list[Word]
    known: Mapping[Hashable, bool]


def screen_oldest() -> int:
    """Look at the project whose last look is oldest, if that is older than EVERY. Returns how many were looked at."""
    active = Project.objects.filter(archived_at=None)
    project = active.order_by(F("favour_screen__screened_at").asc(nulls_first=True), "pk").first()
    if project is None or _is_fresh(project):
        return 0
    _screen(project, by=BY)
    return 1


def screen_project(*, project: Project, by: User) -> FavourScreen:
    """Look now.

    Raises:
        NotFoundError, NotAllowedError: `by` may not.
    """
    require_right(by, project, Right.PIPELINE_WRITE)
    return _screen(project, by=by.handle)


def load_said(project: Project) -> ReviewerWords:
    """The last words of people, AI managers and outside agents on attempts and steps. Four statements.

    The last `FEEDBACKS` feedbacks are read; of one reviewer the last word on an item counts.
    """
    newest = Feedback.objects.standing().filter(project=project, source__in=REVIEWERS).order_by("-id")
    tasks = set(newest.values_list("task_id", flat=True)[:FEEDBACKS])
    rows = Attempt.objects.filter(task__in=tasks, state=Attempt.State.ANSWERED).order_by("index")
    attempts: dict[int, dict[int, tuple[int, float | None]]] = defaultdict(dict)
    lines: dict[int, str] = {}
    for task, index, pk, worker, adapter in rows.values_list("task_id", "index", "pk", "worker__name", "adapter__name"):
        attempts[task][index] = pk, None
        lines[pk] = adapter or worker
    words: dict[tuple[str, Item], Word] = {}
    for task, given in load_words(tasks).items():
        for word in given.values():
            if word.source in REVIEWERS and task in attempts:
                for item, score in read_scores(word, attempts[task], {}).items():
                    if item[0] in lines:
                        words[word.author, item] = Word(word.author, task, item, lines[item[0]], approves(score))
    truths = Comparison.objects.filter(
        attempt__in=list(lines), source__in=(Comparison.Source.GOLD, Comparison.Source.VERIFIED)
    )
    known: dict[Hashable, bool] = {
        (attempt, step): approves(truth) for attempt, step, truth in truths.values_list("attempt", "step", "truth")
    }
    return ReviewerWords(list(words.values()), known)


def _is_fresh(project: Project) -> bool:
    return FavourScreen.objects.filter(project=project, screened_at__gt=timezone.now() - EVERY).exists()


def _screen(project: Project, *, by: str) -> FavourScreen:
    said = load_said(project)
    found = screen(said.words, known=said.known)
    examples = {name_group(group): _find_examples(group, said) for group in found.groups}
    return keep_screen(project=project, screen=found, examples=examples, by=by)


def _find_examples(group: Group, said: ReviewerWords) -> Sequence[int]:
    """The newest tasks of the line on which one of them said what sets the group apart."""
    leans = group.share > group.expected
    ours = (word for word in said.words if word.rater in group.raters and word.line == group.line)
    tasks = {word.task for word in ours if word.approves == leans and word.item not in said.known}
    return sorted(tasks, reverse=True)[:EXAMPLES]
