"""Skip a review: to nobody, to later, to the others, to an expert."""

from typing import Literal, get_args

from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.services import require_role
from apps.audit.kinds import Kind
from apps.audit.services import move, record
from apps.base.errors import BadInputError
from apps.base.texts import require_text
from apps.feedback.claims import lock_review
from apps.feedback.models import Review, ReviewSkip
from apps.feedback.rights import REVIEWERS
from apps.feedback.submit import carry_on
from tentalis.core.field_limits import MAX_REASON_CHARS

Then = Literal["nobody", "later", "others", "expert"]


def skip_review(*, review: Review, by: User, reason: str, then: str = "nobody") -> Review:
    """Leave a review without a judgement.

    Args:
        then: nobody: it is closed and the task goes on without it; later: it goes back to the queue and comes to `by`
            again in an hour or when nothing else is left; others: it goes back and does not come to `by` again;
            expert: it goes back for managers and owners.
    Raises:
        BadInputError: no reason, too long a one, or another `then`.
        Else as `give_feedback`.
    """
    require_role(by, review.project, *REVIEWERS)
    reason = require_text("reason", reason, MAX_REASON_CHARS)
    if then not in get_args(Then):
        raise BadInputError.at("then", f"wanted one of {', '.join(get_args(Then))}, found {then!r:.40}")
    with transaction.atomic():
        task, row = lock_review(review, by)
        payload = {"task": task.pk, "reason": reason, "then": then}
        if then != "nobody" and row.state == Review.State.OPEN:
            _pass_on(row, by, then)
            record(Kind.REVIEW_PASSED_ON, subject=row, by=by.handle, payload=payload)
        else:
            move(row, Review.State.SKIPPED, by=by.handle, payload=payload, closed_at=Now())
            if row.purpose != Review.Purpose.GOLD:
                carry_on(task, by=by.handle)
        ReviewSkip.objects.create(review=row, user=by, reason=reason, then=then)
    return row


def _pass_on(row: Review, by: User, then: str) -> None:
    row.claimed_by = row.lease_until = None
    if then != "later" and row.assigned_to_id == by.pk:
        row.assigned_to = None
    row.needs_expert = row.needs_expert or then == "expert"
    row.save(update_fields=["claimed_by", "lease_until", "assigned_to", "needs_expert"])
