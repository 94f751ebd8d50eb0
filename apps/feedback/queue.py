"""The queue of open reviews: what it can be narrowed to, its pages, and how long it is."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Self

from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import Project, User
from apps.accounts.rights import Right
from apps.accounts.services import require_right
from apps.base.errors import BadInputError
from apps.feedback.models import Review, ReviewQuerySet
from apps.tasks.models import Environment

MAX_LISTED = 200
COUNT_CAP = 10_000
DUE_SOON = timedelta(hours=1)
PURPOSES = (Review.Purpose.WORK.value, Review.Purpose.SECOND.value, Review.Purpose.APPEAL.value)
"""What can be asked for: gold items pass for work."""
CHOICES: Mapping[str, tuple[str, ...]] = {
    "environment": tuple(Environment.values),
    "purpose": PURPOSES,
    "assigned": ("me", "nobody", "anyone"),
    "held": ("free", "me", "others", "snoozed"),
    "due": ("soon", "late"),
}
MAX_FILTER_CHARS = 100


@dataclass(frozen=True, kw_only=True)
class QueueFilter:
    """What a queue is narrowed to; "" and None do not narrow it.

    Args:
        environment: one of the environments.
        worker: name of the worker that did the task.
        purpose: work, second or appeal; gold items are among the work.
        assigned: to me, to nobody, or to anyone at all.
        held: free (nobody has it open), me, others, or snoozed. Snoozed reviews are left out unless asked for.
        due: soon (within an hour) or late.
        min_priority: in [0, 1].
        min_score: in [0, 1]: every scorer said so much or more of every attempt, and somebody said something.
    """

    environment: str = ""
    worker: str = ""
    purpose: str = ""
    assigned: str = ""
    held: str = ""
    due: str = ""
    min_priority: float | None = None
    min_score: float | None = None

    @classmethod
    def from_query(cls, parameters: Mapping[str, Any]) -> Self:
        """Read an address's parameters; those of other names are not looked at.

        Raises:
            BadInputError: naming each that cannot be.
        """
        values: dict[str, Any] = {}
        errors: dict[str, list[str]] = {}
        for field in fields(cls):
            text = str(parameters.get(field.name) or "").strip()
            if not text:
                continue
            if field.name.startswith("min_"):
                values[field.name] = _read_share(field.name, text, errors)
            elif field.name in CHOICES and text not in CHOICES[field.name]:
                errors[field.name] = [f"wanted one of {', '.join(CHOICES[field.name])}, found {text[:40]!r}"]
            elif len(text) > MAX_FILTER_CHARS or "\x00" in text:
                errors[field.name] = [f"wanted a name of at most {MAX_FILTER_CHARS} characters, found another"]
            else:
                values[field.name] = text
        if errors:
            raise BadInputError("; ".join(f"{name}: {found[0]}" for name, found in errors.items()), errors=errors)
        return cls(**values)

    def to_query(self) -> dict[str, str]:
        """The parameters that say the same; what does not narrow is left out."""
        return {
            name: f"{value:g}" if isinstance(value, float) else str(value)
            for name, value in asdict(self).items()
            if value not in ("", None)
        }


EVERYTHING = QueueFilter()


@dataclass(frozen=True)
class QueuePage:
    """Reviews by their place in the queue, and where the next page starts ("": no more)."""

    reviews: Sequence[Review]
    next_after: str


@dataclass(frozen=True)
class QueueCount:
    """How many reviews there are; `is_more`: counting stopped there."""

    number: int
    is_more: bool

    def __str__(self) -> str:
        return f"{self.number:,}{'+' if self.is_more else ''}"


def find_queue(
    project: Project, by: User, filters: QueueFilter = EVERYTHING, *, after: str = "", limit: int = 25
) -> QueuePage:
    """One page of the open reviews that wait for people, the first to be taken first.

    Pages start behind the last review seen, so that what is opened or closed meanwhile moves nothing. One query; the
    task with its worker, and who holds it or is to have it, come with each review.

    Args:
        after: `next_after` of the page before.
        limit: 1 to 200.
    Raises:
        NotFoundError, NotAllowedError: `by` may not read the reviews.
        BadInputError: a limit or place that cannot be.
    """
    require_right(by, project, Right.REVIEWS_READ)
    if not 1 <= limit <= MAX_LISTED:
        raise BadInputError(f"limit: wanted 1 to {MAX_LISTED}, found {limit}")
    rows = narrow(project, by, filters).select_related("project", "task__worker", "claimed_by", "assigned_to")
    if after:
        rank_at, pk = _read_place(after)
        rows = rows.filter(Q(rank_at__gt=rank_at) | Q(rank_at=rank_at, pk__gt=pk), rank_at__gte=rank_at)
    page = list(rows.order_by("rank_at", "pk")[: limit + 1])
    is_more = len(page) > limit
    page = page[:limit]
    return QueuePage(page, _write_place(page[-1]) if is_more else "")


def count_queue(project: Project, by: User, filters: QueueFilter = EVERYTHING, *, cap: int = COUNT_CAP) -> QueueCount:
    """How many reviews match; counting stops at `cap`.

    Raises:
        NotFoundError, NotAllowedError: `by` may not read the reviews.
    """
    require_right(by, project, Right.REVIEWS_READ)
    found = narrow(project, by, filters).order_by()[: cap + 1].count()
    return QueueCount(min(found, cap), found > cap)


def narrow(project: Project, by: User, filters: QueueFilter) -> ReviewQuerySet:
    """The project's open reviews for people that match, in no order."""
    rows = Review.objects.filter(project=project, audience=Review.Audience.HUMAN, state=Review.State.OPEN)
    if filters.held != "snoozed":
        rows = rows.filter(Q(snoozed_until__isnull=True) | Q(snoozed_until__lt=Now()))
    return narrow_rows(rows, by, filters)


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


def _read_share(name: str, text: str, errors: dict[str, list[str]]) -> float | None:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if 0 <= value <= 1:  # NaN fails this too
        return value
    errors[name] = [f"wanted a number from 0 to 1, found {text[:40]!r}"]
    return None


def _write_place(review: Review) -> str:
    return f"{review.rank_at.isoformat()}~{review.pk}"


def _read_place(text: str) -> tuple[datetime, int]:
    moment, _, number = text.partition("~")
    try:
        rank_at, pk = datetime.fromisoformat(moment), int(number)
        if rank_at.tzinfo is not None and 0 <= pk < 2**63:
            return rank_at, pk
    except ValueError:
        pass
    raise BadInputError(f"after: wanted the place at which another page ended, found {text[:60]!r}")
