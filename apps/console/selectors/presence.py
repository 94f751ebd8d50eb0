"""Who works on a task just now, as far as the reader may know: no blind reviewer learns of another from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from apps.accounts.models import User
from apps.feedback.models import Review

TOLD = frozenset({Review.Purpose.WORK})
"""What others than managers are told of; of the rest, that there is any would say too much."""


@dataclass(frozen=True)
class Present:
    """Somebody who has a review of the task open. Their page renews the lease while they are there."""

    name: str
    purpose: str
    until: datetime


def find_present(reviews: Iterable[Review], *, user: User, is_manager: bool, is_blind: bool) -> list[Present]:
    """Everybody else with a review open.

    Args:
        reviews: of one task, each with `claimed_by`.
        is_blind: `user` judges the task blind, or is asked to.
    """
    now = timezone.now()
    if is_blind and not is_manager:
        return []
    return [
        Present(review.claimed_by.username, str(review.get_purpose_display()), review.lease_until)
        for review in reviews
        if review.state == Review.State.OPEN
        and review.claimed_by is not None
        and review.claimed_by_id != user.pk
        and review.lease_until is not None
        and review.lease_until > now
        and (is_manager or review.purpose in TOLD)
    ]
