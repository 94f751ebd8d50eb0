"""What needs a hand, and what happened: dead letters, queues and the audit."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import Project
from apps.audit.chain import hash_entry
from apps.audit.models import AuditEntry, AuditSeal
from apps.finding.bounds import find_first_since
from apps.outbox.models import Segment

PAGE = 25
WINDOW = 200_000
"""Entries that one page looks through for a filter; the next page goes on below them."""
CHECKED = 200

# kind of segment -> page of what it works on
PAGE_OF_SEGMENT = {"work": "task", "learn": "task", "train": "run", "adopt": "adapter"}


@dataclass(frozen=True)
class DeadLetter:
    """A segment that was given up, with its last error."""

    segment: Segment

    @property
    def error_type(self) -> str:
        return str(self._last.get("type", ""))

    @property
    def message(self) -> str:
        return str(self._last.get("message", "No reason was recorded."))

    @property
    def page(self) -> str | None:
        return PAGE_OF_SEGMENT.get(self.segment.kind)

    @property
    def _last(self) -> dict[str, object]:
        return self.segment.errors[-1] if self.segment.errors else {}


@dataclass(frozen=True)
class QueueDepth:
    """Open segments of a queue: waiting to be sent, out, being worked on, and of those with a lease that ran out.

    Attributes:
        retrying: of the waiting, those that wait for another try after one that failed.
        away: of the waiting, those that wait for a server that is away.
        oldest_s: age of the oldest, in seconds.
    """

    queue: str
    waiting: int
    retrying: int
    away: int
    out: int
    held: int
    expired: int
    oldest_s: float | None

    @property
    def open(self) -> int:
        return self.waiting + self.out + self.held + self.expired


@dataclass(frozen=True)
class AuditFilter:
    """What of the audit is looked for; empty: everything.

    Attributes:
        since, until: times, `until` excluded.
    """

    kind: str = ""
    actor: str = ""
    subject_type: str = ""
    subject_id: int | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_empty(self) -> bool:
        return self == AuditFilter()


@dataclass(frozen=True)
class ChainStatus:
    """How far the audit is sealed, and what a look at the newest places found.

    Attributes:
        entry_id, at: the last sealed entry; None while nothing is sealed.
        waiting: newer entries without a place yet.
        checked: places that were recomputed just now.
        faults: places among them that do not hold.
    """

    entry_id: int | None
    at: datetime | None
    waiting: int
    checked: int
    faults: Sequence[int]
    head: str


def find_queue_depths(project: Project) -> list[QueueDepth]:
    """What of this project is on its way."""
    held = Q(lease_until__gt=Now())
    expired = Q(lease_until__lte=Now())
    free = Q(lease_until__isnull=True)
    later = free & Q(published_at=None, run_after__gt=Now())
    rows: Any = (
        Segment.objects.filter(project_id=project.pk, state=Segment.State.OPEN)
        .order_by()
        .values("queue")
        .annotate(
            waiting=Count("pk", filter=free & Q(published_at=None)),
            retrying=Count("pk", filter=later & Q(away_since=None) & ~Q(errors=[])),
            away=Count("pk", filter=later & Q(away_since__isnull=False)),
            out=Count("pk", filter=free & Q(published_at__isnull=False)),
            held=Count("pk", filter=held),
            expired=Count("pk", filter=expired),
            oldest=Min("created_at"),
        )
        .order_by("queue")
    )
    now = timezone.now()
    return [
        QueueDepth(
            queue=row["queue"],
            waiting=row["waiting"],
            retrying=row["retrying"],
            away=row["away"],
            out=row["out"],
            held=row["held"],
            expired=row["expired"],
            oldest_s=max(0.0, (now - row["oldest"]).total_seconds()) if row["oldest"] else None,
        )
        for row in rows
    ]


def find_audit(
    project: Project, *, wanted: AuditFilter | None = None, before: int | None = None, window: int = WINDOW
) -> tuple[list[AuditEntry], int | None]:
    """A page of the project's audit, newest first, and the id to go on below; None at the end.

    A filter looks through `window` entries at a time, so that a page may hold few or none and still go on.
    """
    wanted = wanted or AuditFilter()
    entries = AuditEntry.objects.filter(project_id=project.pk)
    low, high = _find_bounds(wanted, before)
    if high is not None:
        entries = entries.filter(pk__lt=high)
    if low is not None:
        entries = entries.filter(pk__gte=low)
    if wanted.kind:
        entries = entries.filter(kind=wanted.kind)
    if wanted.actor:
        entries = entries.filter(actor=wanted.actor)
    if wanted.subject_type:
        entries = entries.filter(subject_type=wanted.subject_type)
    if wanted.subject_id is not None:
        entries = entries.filter(subject_id=wanted.subject_id)
    floor = None
    if wanted.kind or wanted.actor or (wanted.subject_type and wanted.subject_id is None):
        newest = high if high is not None else (_find_newest() + 1)
        floor = max(newest - window, low or 0)
        entries = entries.filter(pk__gte=floor)
    found = list(entries.order_by("-id")[: PAGE + 1])
    if len(found) > PAGE:
        return found[:PAGE], found[PAGE - 1].pk
    return found, floor if floor is not None and floor > max(low or 0, 1) else None


def find_chain_status() -> ChainStatus:
    """Four queries and the hashes of the last `CHECKED` places. The whole chain is for `tentalis audit verify`."""
    seals = list(AuditSeal.objects.order_by("-seq")[:CHECKED])
    newest = _find_newest()
    if not seals:
        return ChainStatus(None, None, min(newest, CHECKED), 0, (), "")
    entries = AuditEntry.objects.in_bulk([seal.entry_id for seal in seals])
    faults = []
    for seal, older in zip(seals, [*seals[1:], None], strict=True):
        entry = entries.get(seal.entry_id)
        joins = older is None or (seal.seq == older.seq + 1 and seal.previous_hash == older.hash)
        if entry is None or not joins or seal.hash != hash_entry(seal.previous_hash, entry):
            faults.append(seal.seq)
    last = entries.get(seals[0].entry_id)
    waiting = AuditEntry.objects.filter(pk__gt=seals[0].entry_id)[:CHECKED].count()
    return ChainStatus(seals[0].entry_id, last.at if last else None, waiting, len(seals), faults, seals[0].hash)


def find_subject_types(project: Project) -> list[str]:
    """What the project's latest entries are about."""
    latest: QuerySet[AuditEntry] = AuditEntry.objects.filter(project_id=project.pk).order_by("-id")[:2000]
    return sorted({name for name in latest.values_list("subject_type", flat=True) if name})


def _find_bounds(wanted: AuditFilter, before: int | None) -> tuple[int | None, int | None]:
    """(lowest id, id to stay below) of the times and the page."""
    low = find_first_since(AuditEntry.objects.all(), wanted.since, path="at") if wanted.since else None
    high = find_first_since(AuditEntry.objects.all(), wanted.until, path="at") if wanted.until else None
    return low, min(value for value in (high, before) if value is not None) if (high, before) != (None, None) else None


def _find_newest() -> int:
    return AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
