"""The queue of open reviews: what it can be narrowed to, and how long it is."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.feedback.models import Review, ReviewQuerySet
from apps.tasks.models import Task
from apps.tasks.selectors import BoundedCount, find_by_words

COUNT_CAP = 10_000
DUE_SOON = timedelta(hours=1)
PURPOSES = tuple(str(purpose.value) for purpose in Review.Purpose if purpose != Review.Purpose.GOLD)
"""What can be asked for: gold items pass for work."""
CHOICES: Mapping[str, tuple[str, ...]] = {
    "purpose": PURPOSES,
    "assigned": ("me", "nobody", "anyone"),
    "held": ("free", "me", "others", "snoozed"),
    "due": ("soon", "late"),
}
MAX_FILTER_CHARS = 100
READERS = dict.fromkeys(("min_priority", "min_score"), float) | dict.fromkeys(
    ("since", "until"), datetime.fromisoformat
)


@dataclass(frozen=True, kw_only=True)
class QueueFilter:
    """What a queue is narrowed to; "" and None do not narrow it.

    Args:
        text: words of the task.
        environment: one of the environments.
        worker: name of the worker that did the task.
        purpose: work, second, appeal or pair; gold items are among the work.
        reviewer: user name of whom it is assigned to, or who has it open.
        assigned: to me, to nobody, or to anyone at all.
        held: free (nobody has it open), me, others, or snoozed. Snoozed reviews are left out unless asked for.
        due: soon (within an hour) or late.
        min_priority: in [0, 1].
        min_score: in [0, 1]: every scorer said so much or more of every attempt, and somebody said something.
        since, until: when it was opened, `until` excluded.
    """

    text: str = ""
    environment: str = ""
    worker: str = ""
    purpose: str = ""
    reviewer: str = ""
    assigned: str = ""
    held: str = ""
    due: str = ""
    min_priority: float | None = None
    min_score: float | None = None
    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def from_kept(cls, kept: Mapping[str, str]) -> Self:
        """What `to_query` wrote."""
        values: dict[str, Any] = {name: READERS.get(name, str)(value) for name, value in kept.items()}
        return cls(**values)

    def to_query(self) -> dict[str, str]:
        """The parameters that say the same; what does not narrow is left out."""
        said = {name: value for name, value in asdict(self).items() if value not in ("", None)}
        return {name: _write(value) for name, value in said.items()}


EVERYTHING = QueueFilter()


def count_queue(project: Project, by: User, filters: QueueFilter = EVERYTHING, *, cap: int = COUNT_CAP) -> BoundedCount:
    """How many reviews match; counting stops at `cap`.

    Raises:
        NotFoundError, NotAllowedError: `by` may not read the reviews.
    """
    require_right(by, project, Right.REVIEWS_READ)
    found = narrow(project, by, filters).order_by()[: cap + 1].count()
    return BoundedCount(min(found, cap), is_more=found > cap)


def find_waiting(project: Project, *, with_snoozed: bool = False) -> ReviewQuerySet:
    """The project's open reviews for people, in no order."""
    rows = Review.objects.filter(project=project, audience=Review.Audience.HUMAN, state=Review.State.OPEN)
    return rows if with_snoozed else rows.filter(Q(snoozed_until__isnull=True) | Q(snoozed_until__lt=Now()))


def narrow(project: Project, by: User, filters: QueueFilter) -> ReviewQuerySet:
    """Those of them that match."""
    return narrow_rows(find_waiting(project, with_snoozed=filters.held == "snoozed"), by, filters)


def narrow_rows(rows: ReviewQuerySet, by: User, filters: QueueFilter) -> ReviewQuerySet:
    """Those of these reviews that match."""
    is_held = Q(claimed_by__isnull=False, lease_until__gte=Now())
    if filters.held == "snoozed":
        rows = rows.filter(snoozed_until__gte=Now())
    if filters.held == "free":
        rows = rows.filter(Q(claimed_by__isnull=True) | Q(lease_until__isnull=True) | Q(lease_until__lt=Now()))
    elif filters.held == "me":
        rows = rows.filter(is_held, claimed_by=by)
    elif filters.held == "others":
        rows = rows.filter(is_held).exclude(claimed_by=by)
    if filters.text:
        rows = rows.filter(task__in=find_by_words(Task.objects.all(), filters.text).values("pk"))
    if filters.reviewer:
        name = filters.reviewer.removeprefix("user:")
        rows = rows.filter(Q(assigned_to__username=name) | is_held & Q(claimed_by__username=name))
    if filters.since is not None:
        rows = rows.filter(created_at__gte=filters.since)
    if filters.until is not None:
        rows = rows.filter(created_at__lt=filters.until)
    if filters.environment:
        rows = rows.filter(task__environment=filters.environment)
    if filters.worker:
        rows = rows.filter(task__worker__name=filters.worker)
    if filters.purpose:
        purposes = [filters.purpose]
        if filters.purpose == Review.Purpose.WORK:
            purposes.append(Review.Purpose.GOLD)
        rows = rows.filter(purpose__in=purposes)
    if filters.assigned == "me":
        rows = rows.filter(assigned_to=by)
    elif filters.assigned == "nobody":
        rows = rows.filter(assigned_to__isnull=True)
    elif filters.assigned == "anyone":
        rows = rows.filter(assigned_to__isnull=False)
    if filters.due == "soon":
        rows = rows.filter(due_at__gte=Now(), due_at__lt=Now() + DUE_SOON)
    elif filters.due == "late":
        rows = rows.filter(due_at__lt=Now())
    if filters.min_priority is not None:
        rows = rows.filter(priority__gte=filters.min_priority)
    if filters.min_score is not None:
        rows = rows.filter(lowest_score__gte=filters.min_score)
    return rows


def _write(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return f"{value:g}" if isinstance(value, float) else str(value)
