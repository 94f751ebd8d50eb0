"""Gold items: work whose right judgement is known, handed out among the rest to learn how well people judge.

What is said of one trains nothing and moves no task; it is compared with what is known.
"""

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError, ConflictError
from apps.feedback.models import Feedback, GoldItem, Review
from apps.feedback.opening import decide_reviewers, open_human_review
from apps.feedback.queue import QueueFilter
from apps.feedback.rights import MANAGERS
from apps.feedback.rules import validate_review_policy
from apps.tasks.models import Attempt, Task

_LOTTERY = random.SystemRandom()
"""A draw that could be computed from ids would tell a reviewer which item is gold."""

ASKED = {
    (purpose, assigned, held, "")
    for purpose in ("", Review.Purpose.WORK)
    for assigned in ("", "nobody")
    for held in ("", "free")
}
"""Filters' purpose, assigned, held and due under which a gold item passes for the next review."""


def add_gold(
    *, task: Task, by: User, expected: Mapping[str, Any] | None = None, reference: Feedback | None = None
) -> GoldItem:
    """Hand a task out as a gold item from now on.

    Args:
        expected: {"score": in [0, 1] or None, "attempts": {index: in [0, 1]}}, where `by` knows it;
        reference: a feedback on the task that is taken for the truth. With neither, what the world verified of the
            attempts is.
    Raises:
        NotFoundError, NotAllowedError: `by` is no manager of the project.
        BadInputError: nothing is known of the task, or it says something impossible.
        ConflictError: it is a gold item already.
    """
    require_role(by, task.project, *MANAGERS)
    attempts = {attempt.index: attempt for attempt in task.attempts.all()}
    truth = GoldItem.Truth.REFERENCE
    if expected is None and reference is not None:
        if reference.task_id != task.pk or reference.retracted_at is not None:
            raise BadInputError(f"reference: wanted a standing feedback on task {task.pk}, found {reference.pk}")
        words = reference.steps.filter(step__isnull=True, score__isnull=False).select_related("attempt")
        expected = {"score": reference.score, "attempts": {word.attempt.index: word.score for word in words}}
    elif expected is None:
        truth = GoldItem.Truth.VERIFIED
        known = {index: one.outcome for index, one in attempts.items() if one.outcome is not None}
        expected = {"score": None, "attempts": known}
    stored = _read_expected(expected, attempts)
    try:
        with transaction.atomic():
            item = GoldItem.objects.create(
                project_id=task.project_id, task=task, expected=stored, truth=truth, added_by=by
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


def draw_gold(project: Project, by: User, filters: QueueFilter, *, lease: timedelta) -> int | None:
    """Id of a gold review that is `by`'s from now on, at the policy's rate; None where none was drawn or is left.

    Nobody is given one on a task they have spoken on, or have a gold review of already, nor where the filters ask for
    what a new review for anybody is not.
    """
    rules = validate_review_policy(project.review_policy)
    is_asked = (filters.purpose, filters.assigned, filters.held, filters.due) in ASKED and filters.min_score is None
    if not is_asked or rules.gold_rate == 0 or _LOTTERY.random() >= rules.gold_rate:
        return None
    said = Feedback.objects.filter(task=OuterRef("task"), author=by.handle)
    asked = Review.objects.filter(task=OuterRef("task"), purpose=Review.Purpose.GOLD, claimed_by=by)
    items = GoldItem.objects.filter(project=project, removed_at__isnull=True)
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
    """What is known of the gold item this was said of: {"score", "attempts": {index: score}}; None for other work."""
    if feedback.review is None or feedback.review.purpose != Review.Purpose.GOLD:
        return None
    item = GoldItem.objects.filter(task=feedback.task_id).order_by("-id").first()
    if item is None:
        return None
    return {
        "score": item.expected["score"],
        "attempts": {int(index): score for index, score in item.expected["attempts"].items()},
    }


def _read_expected(expected: Mapping[str, Any], attempts: Mapping[int, Attempt]) -> dict[str, Any]:
    score, of_attempts = expected.get("score"), dict(expected.get("attempts") or {})
    for name, value in (("score", score), *((f"attempt {index}", value) for index, value in of_attempts.items())):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
            raise BadInputError(f"expected: wanted a {name} from 0 to 1, found {value!r:.80}")
    if unknown := [index for index in of_attempts if index not in attempts]:
        raise BadInputError(f"expected: wanted attempts of the task, found {unknown[0]!r}")
    if score is None and not of_attempts:
        raise BadInputError("expected: wanted a score, or attempts that the world verified; nothing is known of this")
    return {"score": score, "attempts": {str(index): value for index, value in of_attempts.items()}}
