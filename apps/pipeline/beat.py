"""The timetable: what is done every so often, by one process at a time."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import connection

from apps.audit.chain import seal_entries
from apps.conversations.forgotten import drop_sealed
from apps.conversations.keeping import delete_old_sessions
from apps.feedback.favours import screen_oldest
from apps.operations.servers import look as look_at_servers
from apps.operations.services import watch
from apps.operations.tracing import tell_spans
from apps.pipeline import sweep
from apps.pipeline.courses import go_on_with_courses
from apps.pipeline.file_retention import delete_old_files
from apps.pipeline.probing import probe_judges
from apps.pipeline.retention import delete_old
from apps.pipeline.shadow_trials import watch_shadows
from apps.pipeline.watching import watch_served
from apps.webhooks.posting import tell
from apps.webhooks.sending import forget_old

logger = logging.getLogger(__name__)

LOCK = 7_466_853_001
SERVERS_LOCK = 7_466_853_003
SPANS_LOCK = 7_466_853_005
"""Keys of the advisory locks whose holders keep the timetables."""


@dataclass
class Entry:
    """Something due every `every_s` seconds."""

    name: str
    every_s: float
    function: Callable[[], object]
    due_at: float = field(default=0.0)


@dataclass(frozen=True)
class Timetable:
    """Entries that one thread does one after the other.

    Args:
        lock: key of the advisory lock whose holder does them.
    """

    lock: int
    entries: tuple[Entry, ...]


TIMETABLE = Timetable(
    LOCK,
    (
        Entry("sweep segments", 2.0, sweep.sweep_segments),
        Entry("seal the audit", 1.0, seal_entries),
        Entry("sweep reviews", 10.0, sweep.sweep_reviews),
        Entry("settle feedback", 5.0, sweep.settle_feedback),
        Entry("sweep evaluations", 5.0, sweep.sweep_evaluations),
        Entry("sweep proposals", 1.0, sweep.sweep_proposals),
        Entry("cut sessions", 2.0, sweep.cut_sessions),
        Entry("sweep runs", 5.0, sweep.sweep_runs),
        Entry("go on with courses", 2.0, go_on_with_courses),
        Entry("label steps", 30.0, sweep.label_steps),
        Entry("watch shadows", 10.0, watch_shadows),
        Entry("probe judges", 3600.0, probe_judges),
        Entry("tell webhooks", 0.5, tell),
        Entry("forget what webhooks took", 600.0, forget_old),
        Entry("watch for alarms", 15.0, watch),
        Entry("forget who was forgotten", 3600.0, drop_sealed),
        Entry("delete what is kept no longer", 900.0, delete_old),
        Entry("delete sessions that taught nothing", 900.0, delete_old_sessions),
        Entry("delete files that are kept no longer", 900.0, delete_old_files),
    ),
)
SERVERS_TIMETABLE = Timetable(
    SERVERS_LOCK,
    (
        Entry("sweep adapters", 10.0, sweep.sweep_adapters),
        Entry("watch canaries", 5.0, sweep.watch_canaries),
        Entry("look at model servers", 15.0, look_at_servers),
        Entry("watch what serves", 30.0, watch_served),
        Entry("tend the cluster", 5.0, sweep.tend_cluster),
        Entry("look for favours", 60.0, screen_oldest),
    ),
)
"""What asks servers or takes long, on a thread of its own: none of it keeps the rest from its time."""
SPANS_TIMETABLE = Timetable(SPANS_LOCK, (Entry("tell spans", 2.0, tell_spans),))
"""Kept only where a collector is named: one that is slow keeps nobody else waiting."""


def run_due(now: float | None = None, *, timetable: Timetable = TIMETABLE) -> None:
    """Do what is due, if this process holds the lock; one failure does not keep the rest from running."""
    now = time.monotonic() if now is None else now
    due = [entry for entry in timetable.entries if entry.due_at <= now]
    if not due or not _holds_lock(timetable.lock):
        return
    for entry in due:
        entry.due_at = now + entry.every_s
        try:
            entry.function()
        except Exception:
            logger.exception("%s failed; it is tried again in %.0f s", entry.name, entry.every_s)


def _holds_lock(key: int) -> bool:
    """Whether this session has the timetable's lock; it is given up with the connection, by death too."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() "
            "AND (classid::bigint << 32) + objid::bigint = %s)",
            [key],
        )
        if cursor.fetchone()[0]:
            return True
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        return bool(cursor.fetchone()[0])
