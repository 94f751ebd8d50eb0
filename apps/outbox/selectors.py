"""Reads of the outbox."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform, KeyTransform

from apps.outbox.models import Segment

MOST = 1_000
"""Counts stop here."""


@dataclass(frozen=True)
class ServerWait:
    """Work that waits for a server that is away.

    Attributes:
        count: pieces of work, up to `MOST`.
        since: when the first of them found it away.
        reason: what that one met last.
    """

    count: int
    since: datetime
    reason: str


@dataclass(frozen=True)
class DeadWork:
    """Work that failed after its last try.

    Attributes:
        count: pieces of work, up to `MOST`.
        attempts: tries of the newest.
        reason: what that one met last.
    """

    count: int
    attempts: int
    reason: str


def find_dead(project_id: int) -> QuerySet[Segment]:
    """A project's dead letters."""
    return Segment.objects.filter(project_id=project_id, state=Segment.State.DEAD)


def died_last(kind: str) -> Exists:
    """Whether of the row at hand the newest segment of a kind failed for good: what the clock starts again and again
    leaves such a row alone, until somebody replays that segment or puts it away."""
    segments = Segment.objects.filter(kind=kind, subject_id=OuterRef(OuterRef("pk")))
    newest = Subquery(segments.order_by("-pk").values("pk")[:1])
    return Exists(Segment.objects.filter(pk=newest, state=Segment.State.DEAD))


def with_last_error(segments: QuerySet[Segment], error: str) -> QuerySet[Segment]:
    """Those of them whose last error is of this type."""
    return segments.alias(last_error=_of_last("type")).filter(last_error=error)


def with_last_message(segments: QuerySet[Segment], text: str) -> QuerySet[Segment]:
    """Those of them whose last error says this, in any case of letters."""
    return segments.alias(last_message=_of_last("message")).filter(last_message__icontains=text)


def count_dead_by_error(project_id: int, *, kind: str = "") -> dict[str, int]:
    """Type of the last error -> how many of a project's newest `MOST` dead letters ended with it, most first."""
    dead = find_dead(project_id)
    dead = dead.filter(kind=kind) if kind else dead
    newest = dead.order_by("-id").values_list(_of_last("type"), flat=True)[:MOST]
    return dict(Counter(str(one) for one in newest if one).most_common())


def find_newest_dead(project_id: int) -> DeadWork | None:
    """What of a project failed for good, with the newest one's reason; None where nothing did. One query."""
    newest = find_dead(project_id).order_by("-id").values_list("attempts", _of_last("message"))
    found: list[Any] = list(newest[:MOST])
    return DeadWork(len(found), found[0][0], str(found[0][1] or "")) if found else None


def find_server_wait(project_id: int) -> ServerWait | None:
    """What of a project waits for a server that is away; None where nothing does. One query."""
    waiting = Segment.objects.filter(project_id=project_id, state=Segment.State.OPEN, away_since__isnull=False)
    found: list[Any] = list(waiting.order_by("away_since").values_list("away_since", _of_last("message"))[:MOST])
    return ServerWait(len(found), found[0][0], str(found[0][1] or "")) if found else None


def _of_last(name: str) -> KeyTextTransform:
    """A field of a segment's last error."""
    return KeyTextTransform(name, KeyTransform("-1", "errors"))
