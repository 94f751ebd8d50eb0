"""What waits in each queue, is at work and was given up, read from the rows: the broker is not asked."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Min, Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import Project
from apps.outbox.models import Segment


@dataclass(frozen=True)
class QueueDepth:
    """Open segments of a queue: waiting to be sent, out, being worked on, and of those with a lease that ran out.

    Attributes:
        retrying: of the waiting, those that wait for another try after one that failed.
        away: of the waiting, those that wait for a server that is away.
        oldest_s: age of the oldest open one, in seconds.
    """

    queue: str
    waiting: int
    retrying: int
    away: int
    out: int
    held: int
    expired: int
    dead: int
    oldest_s: float | None

    @property
    def open(self) -> int:
        return self.waiting + self.in_flight

    @property
    def in_flight(self) -> int:
        """Sent, and not ended."""
        return self.out + self.held + self.expired


def find_queue_depths(projects: Iterable[Project]) -> list[QueueDepth]:
    """Of the queues that hold something of these projects."""
    is_open = Q(state=Segment.State.OPEN)
    free = is_open & Q(lease_until__isnull=True)
    later = free & Q(published_at=None, run_after__gt=Now())
    rows: Any = (
        Segment.objects.filter(
            project_id__in=[project.pk for project in projects], state__in=[Segment.State.OPEN, Segment.State.DEAD]
        )
        .order_by()
        .values("queue")
        .annotate(
            waiting=Count("pk", filter=free & Q(published_at=None)),
            retrying=Count("pk", filter=later & Q(away_since=None) & ~Q(errors=[])),
            away=Count("pk", filter=later & Q(away_since__isnull=False)),
            out=Count("pk", filter=free & Q(published_at__isnull=False)),
            held=Count("pk", filter=is_open & Q(lease_until__gt=Now())),
            expired=Count("pk", filter=is_open & Q(lease_until__lte=Now())),
            dead=Count("pk", filter=~is_open),
            oldest=Min("created_at", filter=is_open),
        )
        .order_by("queue")
    )
    now = timezone.now()
    return [
        QueueDepth(**row, oldest_s=max(0.0, (now - oldest).total_seconds()) if oldest else None)
        for row in rows
        for oldest in [row.pop("oldest")]
    ]


def find_open_queues(project: Project) -> list[QueueDepth]:
    """What of one project is on its way."""
    return [queue for queue in find_queue_depths([project]) if queue.open]
