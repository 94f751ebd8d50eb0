"""Gold items: work whose right judgement is known, handed out among the rest to learn how well people judge.

What is said of one trains nothing and moves no task; it is compared with what is known.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now

from apps.accounts.models import Project, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from apps.calibration.models import Comparison
from apps.calibration.services import forget_known
from apps.feedback.create_reviews import decide_reviewers, open_human_review
from apps.feedback.models import Feedback, GoldItem, Review
from apps.feedback.queue import QueueFilter
from apps.feedback.rights import MANAGERS
from apps.feedback.rules import validate_review_policy
from apps.feedback.set_aside import Trust
from apps.tasks.models import Attempt, Task
from tentalis.core.scoring.calibration import APPROVES

_LOTTERY = random.SystemRandom()
"""A draw that could be computed from ids would tell a reviewer which item is gold."""

MOST_SHOWN = 200


@dataclass(frozen=True)
class ShownGold:
    """A gold item, and how it did.

    Args:
        judged: how often it was judged as one; compared: words on its attempts that were held against what is known;
        right: of those, how many approve or reject as is known.
    """

    item: GoldItem
    judged: int
    compared: int
    right: int


ASKED = {
    (purpose, assigned, held, "")
    for purpose in ("", Review.Purpose.WORK)
    for assigned in ("", "nobody")
    for held in ("", "free")
}
"""Filters' purpose, assigned, held and due under which a gold item passes for the next review."""
NEVER_OF_GOLD = frozenset({"text", "reviewer", "min_score", "since", "until"})
"""Filters under which none does."""


def add_gold(
    *, task: Task, by: User, expected: Mapping[str, Any] | None = None, reference: Feedback | None = None
) -> GoldItem:
    """Hand a task out as a gold item from now on.

    Args:
        expected: {"score": in [0, 1] or None, "attempts": {index: in [0, 1]}}, where `by` knows it; a score alone is
            that of each attempt;
        reference: a feedback on the task that is taken for the truth. With neither, what the world verified of the
            attempts is, but for what a judge said that is below its bar.
    Raises:
        NotFoundError, NotAllowedError: `by` is no manager of the project.
        BadInputError: nothing is known of the task, or it says something impossible.
        ConflictError: it is a gold item already.
    """
    require_role(by, task.project, *MANAGERS)
    attempts = {attempt.index: attempt for attempt in task.attempts.all()}
    truth, rests_on = GoldItem.Truth.REFERENCE, None
    if expected is None and reference is not None:
        if reference.task_id != task.pk or reference.retracted_at is not None:
            raise BadInputError.at("feedback", f"wanted a standing feedback on task {task.pk}, found {reference.pk}")
        expected, rests_on = {"score": reference.score, "attempts": _read_reference(reference, attempts)}, reference
    elif expected is None:
        truth = GoldItem.Truth.VERIFIED
        lost = Trust(task.project_id).find_lost({one.pk: one.score_details for one in attempts.values()})
        known = {
            index: one.outcome for index, one in attempts.items() if one.outcome is not None and one.pk not in lost
        }
        expected = {"score": None, "attempts": known}
    if expected.get("score") is not None and not expected.get("attempts"):
        expected = {**expected, "attempts": dict.fromkeys(_list_answered(attempts), expected["score"])}
    stored = _read_expected(expected, attempts)
    try:
        with transaction.atomic():
            item = GoldItem.objects.create(
                project_id=task.project_id, task=task, expected=stored, truth=truth, reference=rests_on, added_by=by
            )
            record(Kind.GOLD_ADDED, subject=item, by=by.handle, payload={"task": task.pk, "truth": str(truth)})
    except IntegrityError:
        raise ConflictError(f"task {task.pk} is a gold item already") from None
    return item


def remove_gold(*, item: GoldItem, by: User) -> GoldItem:
    """Hand it out no more; what was said of it stays.

    Raises:
        NotFoundError, NotAllowedError: `by` is no manager of the project.
    """
    require_role(by, item.project, *MANAGERS)
    with transaction.atomic():
        if GoldItem.objects.filter(pk=item.pk, removed_at__isnull=True).update(removed_at=Now()):
            record(Kind.GOLD_REMOVED, subject=item, by=by.handle, payload={"task": item.task_id})
        item.refresh_from_db()
    return item


def end_gold(taken_back: Sequence[Feedback], *, by: str) -> None:
    """Hand no task out any more whose known answer was one of these, in the running transaction: they were undone or
    retracted. What was held against the task's known answers is forgotten, and the weights are counted anew."""
    items = GoldItem.objects.filter(reference__in=taken_back)
    for item in items.filter(removed_at__isnull=True).select_for_update().order_by("pk"):
        GoldItem.objects.filter(pk=item.pk).update(removed_at=Now())
        record(Kind.GOLD_REMOVED, subject=item, by=by, payload={"task": item.task_id})
    for project_id, task_id in items.values_list("project_id", "task_id").order_by("project_id", "task_id").distinct():
        forget_known(project_id=project_id, attempts=Attempt.objects.filter(task=task_id))


def draw_gold(project: Project, by: User, filters: QueueFilter, *, lease: timedelta) -> int | None:
    """Id of a gold review that is `by`'s from now on, at the policy's rate; None where none was drawn or is left.

    Nobody is given one that they added, on a task they have spoken on, or have a gold review of already, nor where the
    filters ask for what a new review for anybody is not.
    """
    rules = validate_review_policy(project.review_policy)
    is_asked = (filters.purpose, filters.assigned, filters.held, filters.due) in ASKED
    is_asked = is_asked and NEVER_OF_GOLD.isdisjoint(filters.to_query())
    if not is_asked or rules.gold_rate == 0 or _LOTTERY.random() >= rules.gold_rate:
        return None
    said = Feedback.objects.filter(task=OuterRef("task"), author=by.handle)
    asked = Review.objects.filter(task=OuterRef("task"), purpose=Review.Purpose.GOLD, claimed_by=by)
    items = GoldItem.objects.filter(project=project, removed_at__isnull=True).exclude(added_by=by)
    if filters.environment:
        items = items.filter(task__environment=filters.environment)
    if filters.worker:
        items = items.filter(task__worker__name=filters.worker)
    item = items.filter(~Exists(said), ~Exists(asked)).select_related("task__project").order_by("?").first()
    if item is None:
        return None
    reason = decide_reviewers(item.task, rules).reason
    review = open_human_review(item.task, rules, reason=reason, by="policy", purpose=Review.Purpose.GOLD)
    Review.objects.filter(pk=review.pk).update(claimed_by=by, lease_until=Now() + lease)
    return review.pk


def find_expected(feedback: Feedback) -> dict[str, Any] | None:
    """What is known of the gold item this was said of: {"score", "attempts": {index: score}}; None for other work, and
    where the judgement that was taken for the truth was taken back."""
    if feedback.review is None or feedback.review.purpose != Review.Purpose.GOLD:
        return None
    item = GoldItem.objects.filter(task=feedback.task_id).select_related("reference").order_by("-id").first()
    if item is None or (item.reference is not None and item.reference.retracted_at is not None):
        return None
    return {
        "score": item.expected["score"],
        "attempts": {int(index): score for index, score in item.expected["attempts"].items()},
    }


def find_all_expected(feedback: Iterable[Feedback]) -> dict[int, dict[str, Any]]:
    """Feedback id -> what is known of the gold item it was said of; nothing of other work."""
    return {one.pk: found for one in feedback if (found := find_expected(one)) is not None}


def _read_reference(reference: Feedback, attempts: Mapping[int, Attempt]) -> dict[int, float]:
    """What a judgement says of attempts, index -> score in [0, 1].

    None good rejects all of them; the score of the whole is each one's. A ranking accepts its first and rejects its
    last, a preference accepts its best. A number on an attempt stands above all that.
    """
    answered = _list_answered(attempts)
    known: dict[int, float] = {}
    if reference.none_good:
        known = dict.fromkeys(answered, 0.0)
    elif reference.score is not None:
        known = dict.fromkeys(answered, reference.score)
    if not reference.none_good and reference.preferred_attempt is not None:
        known[reference.preferred_attempt.index] = 1.0
    if not reference.none_good and len(reference.ranking) > 1:
        known |= dict.fromkeys(reference.ranking[0], 1.0) | dict.fromkeys(reference.ranking[-1], 0.0)
    words = reference.steps.filter(step__isnull=True, score__isnull=False).values_list("attempt__index", "score")
    return known | {index: score for index, score in words if score is not None}


def _list_answered(attempts: Mapping[int, Attempt]) -> list[int]:
    return [index for index, one in attempts.items() if one.state == Attempt.State.ANSWERED]


def list_gold(project: Project) -> list[ShownGold]:
    """What is handed out as gold items, the newest first, with how often each was judged and how often rightly."""
    found = with_gold_counts(GoldItem.objects.filter(project=project, removed_at__isnull=True))
    found = found.select_related("task", "added_by").order_by("-id")
    return [ShownGold(item, item.judged, item.compared, item.right) for item in found[:MOST_SHOWN]]


def with_gold_counts(items: QuerySet[GoldItem]) -> QuerySet[Any]:
    """Each with what `ShownGold` says of it: `judged`, `compared`, `right`."""
    judged = Review.objects.filter(task=OuterRef("task"), purpose=Review.Purpose.GOLD, state=Review.State.CLOSED)
    held = Comparison.objects.filter(attempt__task=OuterRef("task"), source=Comparison.Source.GOLD)
    agrees = Q(said__gte=APPROVES, truth__gte=APPROVES) | Q(said__lt=APPROVES, truth__lt=APPROVES)
    return items.annotate(
        judged=_count(judged, "task"),
        compared=_count(held, "attempt__task"),
        right=_count(held.filter(agrees), "attempt__task"),
    )


def _count(rows: QuerySet[Any], by: str) -> Coalesce:
    return Coalesce(Subquery(rows.order_by().values(by).annotate(n=Count("pk")).values("n")), 0)


def _read_expected(expected: Mapping[str, Any], attempts: Mapping[int, Attempt]) -> dict[str, Any]:
    score, of_attempts = expected.get("score"), dict(expected.get("attempts") or {})
    for name, value in (("score", score), *((f"attempt {index}", value) for index, value in of_attempts.items())):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
            raise BadInputError.at("expected", f"wanted a {name} from 0 to 1, found {value!r:.80}")
    if unknown := [index for index in of_attempts if index not in attempts]:
        raise BadInputError.at("expected", f"wanted attempts of the task, found {unknown[0]!r}")
    if score is None and not of_attempts:
        message = "wanted a score, or attempts that the world verified; nothing is known of this"
        raise BadInputError.at("expected", message)
    return {"score": score, "attempts": {str(index): value for index, value in of_attempts.items()}}
