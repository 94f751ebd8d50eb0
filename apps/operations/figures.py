"""How the installation is now: read from the database and the disk when asked, so that any process says the same."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from apps.audit.chain import find_chain_status
from apps.audit.kinds import Kind
from apps.inference.allowances import BudgetUse, use_of_budgets
from tentalis.platform.errors import PlatformError
from tentalis.platform.home import Home
from tentalis.platform.state import read_state

COUNTED_UNSEALED = 100_000
_QUEUES = """
SELECT kind, count(*) FILTER (WHERE state = 'open'),
       count(*) FILTER (WHERE state = 'open' AND fence IS NOT NULL),
       count(*) FILTER (WHERE state = 'open' AND lease_until < now()),
       coalesce(extract(epoch FROM now() - min(lease_until) FILTER (WHERE state = 'open' AND lease_until < now())), 0),
       coalesce(extract(epoch FROM now() - min(greatest(run_after, created_at))
           FILTER (WHERE state = 'open' AND fence IS NULL AND run_after <= now())), 0),
       count(*) FILTER (WHERE state = 'dead')
FROM outbox_segment WHERE state IN ('open', 'dead') GROUP BY kind ORDER BY kind
"""
_UNSEALED = """
WITH last AS (SELECT epoch, xid, entry_id FROM audit_auditseal ORDER BY seq DESC LIMIT 1),
     behind AS (
         SELECT e.at FROM audit_auditentry e
         WHERE (e.epoch, e.xid, e.id) > (coalesce((SELECT epoch FROM last), 0), coalesce((SELECT xid FROM last), 0),
                                         coalesce((SELECT entry_id FROM last), 0))
         ORDER BY e.epoch, e.xid, e.id LIMIT %s
     )
SELECT count(*), coalesce(extract(epoch FROM now() - min(at)), 0) FROM behind
"""
_LATEST = """
SELECT extract(epoch FROM now() - max(at)) FROM (
    SELECT at FROM audit_auditentry WHERE project_id IS NULL AND kind = %s ORDER BY id DESC LIMIT 1
) AS latest
"""
_FIRST = "SELECT extract(epoch FROM now() - at) FROM audit_auditentry ORDER BY id LIMIT 1"
_CONNECTIONS = """
SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity WHERE backend_type = 'client backend'
"""
_DELIVERIES = """
SELECT count(*), coalesce(extract(epoch FROM now() - min(d.next_at)), 0)
FROM webhooks_delivery d JOIN webhooks_webhook w ON w.id = d.webhook_id
WHERE d.state = 'pending' AND w.is_active AND d.next_at <= now()
"""
_UNTAKEN = """
SELECT count(*), coalesce(extract(epoch FROM now() - min(untaken_since)), 0)
FROM training_trainingrun WHERE state IN ('queued', 'running') AND untaken_since IS NOT NULL
"""
_SERVERS = """
SELECT coalesce(project.slug || '/', '') || look.name, coalesce(extract(epoch FROM now() - look.away_since), 0),
       look.words
FROM operations_serverlook look
LEFT JOIN inference_provider provider ON provider.id = look.provider_id
LEFT JOIN accounts_project project ON project.id = provider.project_id
ORDER BY look.provider_id
"""
_POSITIONS = 'SELECT name, segment, "offset" FROM inference_spoolposition'


@dataclass(frozen=True)
class Queue:
    """Segments of one kind: open, of those held by somebody, of those with a lease that is over, and dead letters.

    Attributes:
        expired_s, oldest_s: how long the oldest lease has been over, and the oldest due segment has waited.
    """

    kind: str
    open: int
    held: int
    expired: int
    expired_s: float
    oldest_s: float
    dead: int


@dataclass(frozen=True)
class Disk:
    place: str
    free_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class Supervised:
    """A service of this machine's supervisor; `ready_at`: seconds since 1970, None while it is not ready."""

    name: str
    state: str
    restarts: int
    ready_at: float | None


@dataclass(frozen=True)
class ServerFigure:
    """A model server in use; how long it has been away, 0 while it answers. `name`: a project's own behind its slug."""

    name: str
    away_s: float
    words: str


@dataclass(frozen=True)
class Figures:
    """All of them. Ages are in seconds; None: it never happened.

    Attributes:
        age_s: since the first thing that happened in the installation.
        chain_faults: what the last verification of the audit found.
        untaken, untaken_s: trainings that no box takes up, and how long the oldest of them has waited for one.
        spool_behind_bytes, spool_rejected_bytes: what the gateway recorded and nobody has stored yet, or ever will.
        services: () where no supervisor of ours runs here, or it cannot say how they are.
    """

    queues: tuple[Queue, ...] = ()
    unsealed: int = 0
    unsealed_s: float = 0.0
    chain_faults: int = 0
    age_s: float = 0.0
    backup_s: float | None = None
    drill_s: float | None = None
    connections: int = 0
    most_connections: int = 0
    deliveries: int = 0
    delivery_s: float = 0.0
    untaken: int = 0
    untaken_s: float = 0.0
    disks: tuple[Disk, ...] = ()
    spool_behind_bytes: int = 0
    spool_rejected_bytes: int = 0
    services: tuple[Supervised, ...] = ()
    servers: tuple[ServerFigure, ...] = ()
    budgets: tuple[BudgetUse, ...] = ()
    alarms: dict[str, int] = field(default_factory=dict)


def measure() -> Figures:
    """Some ten short statements and a look at the disk."""
    positions = {name: (segment, offset) for name, segment, offset in _ask(_POSITIONS)}
    spool = settings.HOME / "spool"
    ((unsealed, unsealed_s),) = _ask(_UNSEALED, COUNTED_UNSEALED)
    ((connections, most_connections),) = _ask(_CONNECTIONS)
    ((deliveries, delivery_s),) = _ask(_DELIVERIES)
    ((untaken, untaken_s),) = _ask(_UNTAKEN)
    return Figures(
        queues=tuple(
            Queue(kind, open_, held, expired, float(expired_s), float(oldest_s), dead)
            for kind, open_, held, expired, expired_s, oldest_s, dead in _ask(_QUEUES)
        ),
        unsealed=unsealed,
        unsealed_s=float(unsealed_s),
        chain_faults=len(find_chain_status().faults),
        age_s=next((float(row[0]) for row in _ask(_FIRST)), 0.0),
        backup_s=_since(Kind.BACKUP_MADE),
        drill_s=_since(Kind.BACKUP_DRILLED),
        connections=connections,
        most_connections=most_connections,
        deliveries=deliveries,
        delivery_s=float(delivery_s),
        untaken=untaken,
        untaken_s=float(untaken_s),
        disks=tuple(find_disks()),
        spool_behind_bytes=measure_behind(spool, positions),
        spool_rejected_bytes=_size(spool / "rejected"),
        services=tuple(find_services()),
        servers=tuple(ServerFigure(name, float(away_s), words) for name, away_s, words in _ask(_SERVERS)),
        budgets=tuple(use_of_budgets()),
        alarms=dict(_ask("SELECT rule, count(*) FROM operations_alarm WHERE state = 'open' GROUP BY rule")),
    )


def measure_behind(spool: Path, positions: dict[str, tuple[int, int]]) -> int:
    """Bytes in the spools behind the places up to which they are stored."""
    behind = 0
    for path in spool.glob("[!.]*/*.spool"):
        segment, offset = positions.get(path.parent.name, (0, 0))
        number = int(path.stem) if path.stem.isdecimal() else -1
        if number >= segment:
            behind += max(0, _size(path) - (offset if number == segment else 0))
    return behind


def _ask(statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


def _since(kind: Kind) -> float | None:
    ((age,),) = _ask(_LATEST, kind.value)
    return None if age is None else float(age)


def find_disks() -> Iterator[Disk]:
    """Where the installation writes."""
    for name, path in (("home", settings.HOME), ("artifacts", settings.ARTIFACTS), ("spool", settings.HOME / "spool")):
        there = next((found for found in (path, *path.parents) if found.exists()), None)
        if there is not None:
            usage = shutil.disk_usage(there)
            yield Disk(name, usage.free, usage.total)


def find_services() -> Iterator[Supervised]:
    """What this machine's supervisor says of its processes; nothing where there is none, or it cannot say."""
    try:
        state = read_state(Home(settings.HOME))
    except PlatformError:
        return
    if state is not None and state.is_alive() and state.is_current and state.phase == "ready":
        for service in state.services:
            yield Supervised(service.name, service.state, service.restarts, service.ready_at)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


Measure = Callable[[], Figures]
