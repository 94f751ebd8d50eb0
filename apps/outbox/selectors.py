"""Reads of the outbox."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

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


def find_server_wait(project_id: int) -> ServerWait | None:
    """What of a project waits for a server that is away; None where nothing does. One query."""
    waiting = Segment.objects.filter(project_id=project_id, state=Segment.State.OPEN, away_since__isnull=False)
    reason = KeyTextTransform("message", KeyTransform("-1", "errors"))
    found: list[Any] = list(waiting.order_by("away_since").values_list("away_since", reason)[:MOST])
    return ServerWait(len(found), found[0][0], str(found[0][1] or "")) if found else None
