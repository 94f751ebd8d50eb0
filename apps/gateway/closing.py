"""A session that is said to be over when no request comes any more: what a plugin tells when its user leaves."""

import time

from django.db.models import F

from apps.gateway.spool import Position
from apps.inference.models import Session, SpoolPosition

WAIT_S = 2.0


def close_session(project: int, key: str, *, agent: str, spool: str, end: Position) -> bool:
    """Close a session as `X-Session-Done` does, behind all that was recorded of it before; whether there is one.

    Args:
        agent: handle of the caller, who must be the one who opened it.
        spool, end: what must be stored first; it is given `WAIT_S`. A later record opens the session again.
    """
    until = time.monotonic() + WAIT_S
    while _is_behind(spool, end) and time.monotonic() < until:
        time.sleep(0.02)
    sessions = Session.objects.filter(project_id=project, key=key, agent=agent)
    closed = sessions.filter(closed_at=None).update(closed_at=F("last_seen_at"))
    return bool(closed) or sessions.exists()


def _is_behind(spool: str, end: Position) -> bool:
    if end == Position():
        return False
    stored = SpoolPosition.objects.filter(name=spool).values_list("segment", "offset").first()
    return stored is None or stored < end
