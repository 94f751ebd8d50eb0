"""A session that is said to be over when no request comes any more: what a plugin tells when its user leaves."""

import time
from collections.abc import Mapping

from django.db.models import F

from apps.gateway.spool import Position
from apps.inference.models import Session, SpoolPosition

WAIT_S = 2.0


def close_session(project: int, key: str, *, agent: str, ends: Mapping[str, Position]) -> bool:
    """Close a session as `X-Session-Done` does, behind all that was recorded of it before; whether there is one.

    Args:
        agent: handle of the caller, who must be the one who opened it.
        ends: of spools: what must be stored first; it is given `WAIT_S`. A later record opens the session again.
    """
    until = time.monotonic() + WAIT_S
    while _is_behind(ends) and time.monotonic() < until:
        time.sleep(0.02)
    sessions = Session.objects.filter(project_id=project, key=key, agent=agent)
    closed = sessions.filter(closed_at=None).update(closed_at=F("last_seen_at"))
    return bool(closed) or sessions.exists()


def _is_behind(ends: Mapping[str, Position]) -> bool:
    wanted = {name: end for name, end in ends.items() if end != Position()}
    rows = SpoolPosition.objects.filter(name__in=wanted).values_list("name", "segment", "offset") if wanted else ()
    stored = {name: place for name, *place in rows}
    return any(stored.get(name, [-1, 0]) < list(end) for name, end in wanted.items())
