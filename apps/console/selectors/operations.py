"""What needs a hand, and what happened: dead letters, queues and the audit."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from apps.accounts.models import Project
from apps.audit.models import AuditEntry
from apps.finding.bounds import find_first_since
from apps.outbox.models import Segment

PAGE = 25
WINDOW = 200_000
"""Entries that one page looks through for a filter; the next page goes on below them."""

# kind of segment -> page of what it works on
PAGE_OF_SEGMENT = {"work": "task", "try": "task", "learn": "task", "train": "run", "adopt": "adapter"}


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
