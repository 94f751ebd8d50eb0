"""The queue as its page shows it: rows in words, and who may be given what."""

from dataclasses import dataclass

from django.core.exceptions import PermissionDenied
from django.utils.translation import gettext as _

from apps.accounts.models import Member, Project, User
from apps.accounts.services import find_role
from apps.feedback.models import Review
from apps.feedback.rights import MANAGERS, REVIEWERS

PEOPLE = 200
AI_REVIEWS = 25
HIGH, MIDDLE = 0.66, 0.33


@dataclass(frozen=True)
class Priority:
    """How much is learned from judging it, in a word."""

    level: str
    label: str


def say_priority(review: Review) -> Priority:
    if review.priority >= HIGH:
        return Priority("high", _("High"))
    return Priority("medium", _("Medium")) if review.priority >= MIDDLE else Priority("normal", _("Normal"))


def say_purpose(review: Review) -> str:
    """A gold item must look like any other."""
    words = {
        Review.Purpose.SECOND.value: _("Second opinion"),
        Review.Purpose.APPEAL.value: _("Appeal"),
        Review.Purpose.PAIR.value: _("Side by side"),
    }
    return words.get(review.shown_purpose, "")


def find_ai_reviews(project: Project) -> list[Review]:
    """What waits for an AI manager, oldest first."""
    waiting = Review.objects.filter(project=project, state=Review.State.OPEN, audience=Review.Audience.AI)
    return list(waiting.select_related("task__worker").order_by("rank_at", "pk")[:AI_REVIEWS])


def find_reviewers(project: Project) -> list[User]:
    """Who can be given a review."""
    members = Member.objects.filter(project=project, role__in=REVIEWERS, user__is_active=True, user__is_agent=False)
    return [member.user for member in members.select_related("user").order_by("user__username")[:PEOPLE]]


def may_manage(project: Project, user: User) -> bool:
    """Whether this person gives reviews to others and judges in bulk."""
    return find_role(user, project) in MANAGERS


def require_manager(project: Project, user: User) -> None:
    """Raises PermissionDenied for anyone else."""
    if not may_manage(project, user):
        raise PermissionDenied(f"Judging in bulk takes a manager of {project.name}.")
