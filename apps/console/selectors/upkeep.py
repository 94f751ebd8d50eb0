"""What needs a hand, and what happened: dead letters and the audit."""

from dataclasses import dataclass

from django.db.models.functions import Now

from apps.accounts.models import Project
from apps.audit.models import AuditEntry
from apps.outbox.models import Segment

PAGE = 50
DEAD_SHOWN = 100

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
    """Open segments of a queue: waiting to be sent, out, and being worked on."""

    queue: str
    waiting: int
    out: int
    held: int


def find_dead_letters(project: Project) -> list[DeadLetter]:
    """Newest first."""
    dead = Segment.objects.filter(project_id=project.pk, state=Segment.State.DEAD).order_by("-finished_at")
    return [DeadLetter(segment) for segment in dead[:DEAD_SHOWN]]


def find_queue_depths(project: Project) -> list[QueueDepth]:
    """What of this project is on its way."""
    depths: dict[str, list[int]] = {}
    now = Now()
    rows = Segment.objects.filter(project_id=project.pk, state=Segment.State.OPEN).annotate(now=now)
    for queue, published_at, lease_until, moment in rows.values_list("queue", "published_at", "lease_until", "now"):
        place = 2 if lease_until is not None and lease_until > moment else 1 if published_at is not None else 0
        depths.setdefault(queue, [0, 0, 0])[place] += 1
    return [QueueDepth(queue, *counts) for queue, counts in sorted(depths.items())]


def find_audit(
    project: Project, *, kind: str = "", actor: str = "", before: int | None = None
) -> tuple[list[AuditEntry], int | None]:
    """A page of the project's audit, newest first, and the id to go on below; None at the end."""
    entries = AuditEntry.objects.filter(project_id=project.pk)
    if kind:
        entries = entries.filter(kind=kind)
    if actor:
        entries = entries.filter(actor=actor)
    if before is not None:
        entries = entries.filter(pk__lt=before)
    found = list(entries.order_by("-id")[: PAGE + 1])
    return found[:PAGE], found[PAGE - 1].pk if len(found) > PAGE else None
