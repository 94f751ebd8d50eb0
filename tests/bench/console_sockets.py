"""Many open pages on one web: how soon each hears what commits, and what a cut, a restart, a lost right do.

All sockets live in this process's event loop, beside the one writer, so that both ends share a clock. A socket comes
back by itself after the waits of the page's own script, and asks for what it missed by the id it heard last.
"""

import asyncio
import json
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

import psutil
import psycopg
from rich.console import Console
from rich.table import Table
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from apps.accounts.models import Member, Project, Role, User
from tentalis.platform.up import RunningStack
from tests.bench.console_history import OWNER, REVIEWERS, SLUG
from tests.bench.console_pages import COOKIE, make_session, quantile

RATE_PER_S = 20.0
CUT_S = 30.0
P99_BAR_S, BACK_BAR_S, REVOKED_BAR_S = 1.0, 5.0, 5.0
GIVE_UP_S = 60.0
WAITS_S = (0.5, 1.0, 2.0, 5.0, 10.0)
INSERT = """INSERT INTO audit_auditentry (kind, subject_type, subject_id, project_id, actor, payload)
VALUES ('task.scored', 'task', %s, %s, 'bench', '{}') RETURNING id"""


@dataclass(frozen=True)
class Sockets:
    """What was measured; times in seconds unless named otherwise.

    Attributes:
        p50_ms … most_ms: from just before the commit to the frame's arrival.
        gaps: (event, socket) pairs that never met; doubled: those that met twice, which the page does not mind.
        cpu_share: of the web process while events came, in cores; memory_mb: resident, and per_socket_kb its growth.
        cut_back_s: from the moment all come back after the cut until the last has heard everything; cut_back_cpu_s:
            what that cost the web process.
        restart_back_s: the same after Postgres took connections again.
        revoked_s: how long after their right was gone some still heard; told_after: events committed after it and told.
    """

    count: int
    rate_per_s: float
    events: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    most_ms: float
    gaps: int
    doubled: int
    connected_s: float
    cpu_share: float
    memory_mb: float
    per_socket_kb: float
    cut_s: float
    cut_events: int
    cut_back_s: float
    cut_back_cpu_s: float
    cut_gaps: int
    restart_events: int
    restart_back_s: float
    restart_gaps: int
    revoked_s: float
    told_after: int
    missed: Sequence[str] = field(default_factory=tuple)


@lru_cache(maxsize=256)
def _read_ids(frame: str) -> tuple[int, ...]:
    return tuple(item["id"] for item in json.loads(frame))


class Ear:
    """One open page."""

    def __init__(self, *, address: str, origin: str, user: User, after: int) -> None:
        self.user = user
        self.heard_s: dict[int, float] = {}
        self.doubled = 0
        self.is_open = asyncio.Event()
        self._address, self._origin = address, origin
        self._cookie = f"{COOKIE}={make_session(user)}"
        self._last = after
        self._socket: ClientConnection | None = None
        self._may_come_back = asyncio.Event()
        self._may_come_back.set()

    async def listen(self) -> None:
        """Until cancelled."""
        failures = 0
        while True:
            await self._may_come_back.wait()
            with suppress(OSError, WebSocketException, TimeoutError):
                async with connect(
                    f"{self._address}?batched=1&after={self._last}",
                    additional_headers={"Cookie": self._cookie},
                    origin=self._origin,  # type: ignore[arg-type]
                    open_timeout=GIVE_UP_S,
                    max_size=None,
                ) as self._socket:
                    failures = 0
                    self.is_open.set()
                    async for frame in self._socket:
                        self._hear(str(frame))
            self.is_open.clear()
            if self._may_come_back.is_set():
                await asyncio.sleep(WAITS_S[min(failures, len(WAITS_S) - 1)])
                failures += 1

    def cut(self) -> None:
        """The network is gone: nothing is said to the other end but that the connection broke."""
        self._may_come_back.clear()
        if self._socket is not None:
            self._socket.transport.abort()

    def come_back(self) -> None:
        self._may_come_back.set()

    def _hear(self, frame: str) -> None:
        now_s = time.perf_counter()
        for number in _read_ids(frame):
            if number in self.heard_s:
                self.doubled += 1
            else:
                self.heard_s[number] = now_s
            self._last = max(self._last, number)


class Writer:
    """Commits one audit entry after another at a steady rate; knows when each was committed."""

    def __init__(self, *, dsn: str, project_id: int) -> None:
        self.committed_s: dict[int, float] = {}
        self.came_back_s = 0.0
        self._dsn, self._project_id = dsn, project_id

    async def write(self) -> None:
        """Until cancelled; through a restart of Postgres."""
        while True:
            with suppress(psycopg.OperationalError):
                async with await psycopg.AsyncConnection.connect(self._dsn) as connection:
                    self.came_back_s = time.perf_counter()
                    await self._write_steadily(connection)
            await asyncio.sleep(0.05)

    async def _write_steadily(self, connection: psycopg.AsyncConnection) -> None:
        due_s = time.perf_counter()
        while True:
            cursor = await connection.execute(INSERT, [1 + len(self.committed_s), self._project_id])
            row = await cursor.fetchone()
            began_s = time.perf_counter()
            await connection.commit()
            if row is not None:
                self.committed_s[row[0]] = began_s
            due_s += 1 / RATE_PER_S
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))


def measure_sockets(stack: RunningStack, *, count: int, seconds: float) -> Sockets:
    """Open `count` pages, let events come for `seconds`, then cut, restart and revoke."""
    from apps.console.selectors.live import find_latest_entry_id

    project = Project.objects.get(slug=SLUG)
    users = [User.objects.get(username=name) for name in (OWNER, *(f"reviewer{n:02d}" for n in range(REVIEWERS)))]
    dropped: Member = Member.objects.get_or_create(project=project, user=users[-1], defaults={"role": Role.REVIEWER})[0]
    origin = stack.state().addresses["console_url"]
    after = find_latest_entry_id()
    ears = [
        Ear(
            address=origin.replace("http", "ws", 1) + "/ws/live/",
            origin=origin,
            user=users[number % len(users)],
            after=after,
        )
        for number in range(count)
    ]
    writer = Writer(dsn=stack.state().addresses["database_url"], project_id=project.pk)
    return asyncio.run(_measure(stack, ears, writer, seconds, dropped))


async def _measure(
    stack: RunningStack, ears: Sequence[Ear], writer: Writer, seconds: float, dropped: Member
) -> Sockets:
    web = psutil.Process(stack.pid_of("web"))
    memory_before = _memory(web)
    began_s = time.perf_counter()
    tasks = [asyncio.create_task(ear.listen()) for ear in ears]
    await asyncio.wait_for(asyncio.gather(*(ear.is_open.wait() for ear in ears)), GIVE_UP_S)
    connected_s = time.perf_counter() - began_s
    await asyncio.sleep(1)
    writing = asyncio.create_task(writer.write())
    try:
        cpu_before, began_s = _cpu_s(web), time.perf_counter()
        await asyncio.sleep(seconds)
        cpu_share = (_cpu_s(web) - cpu_before) / (time.perf_counter() - began_s)
        memory = _memory(web)
        steady = dict(writer.committed_s)
        await _until_heard(ears, steady)
        steady_gaps = _count_gaps(ears, steady)
        ordered = sorted(
            ear.heard_s[number] - at_s for ear in ears for number, at_s in steady.items() if number in ear.heard_s
        )
        doubled = sum(ear.doubled for ear in ears)

        for ear in ears:
            ear.cut()
        missed_from = set(writer.committed_s)
        await asyncio.sleep(CUT_S)
        cut = {number: at_s for number, at_s in writer.committed_s.items() if number not in missed_from}
        cpu_before, began_s = _cpu_s(web), time.perf_counter()
        for ear in ears:
            ear.come_back()
        await _until_heard(ears, cut)
        cut_back_s, cut_back_cpu_s = time.perf_counter() - began_s, _cpu_s(web) - cpu_before
        cut_gaps = _count_gaps(ears, cut)

        before = set(writer.committed_s)
        stack.signal("postgres", signal.SIGINT)
        went_s = time.perf_counter()
        while writer.came_back_s < went_s and time.perf_counter() < went_s + GIVE_UP_S:
            await asyncio.sleep(0.05)
        came_back_s = writer.came_back_s
        await asyncio.sleep(2)
        restart = {number: at_s for number, at_s in writer.committed_s.items() if number not in before}
        await _until_heard(ears, restart)
        first = min((number for number, at_s in restart.items() if at_s >= came_back_s), default=0)
        restart_back_s = max((ear.heard_s.get(first, came_back_s + GIVE_UP_S) for ear in ears), default=0) - came_back_s
        restart_gaps = _count_gaps(ears, restart)

        out = [ear for ear in ears if ear.user.pk == dropped.user_id]
        await asyncio.to_thread(dropped.delete)
        revoked_at_s = time.perf_counter()
        await asyncio.sleep(REVOKED_BAR_S)
    finally:
        for task in (writing, *tasks):
            task.cancel()
        await asyncio.gather(writing, *tasks, return_exceptions=True)
    late = [heard_s - revoked_at_s for ear in out for number, heard_s in ear.heard_s.items() if heard_s > revoked_at_s]
    told_others = sum(at_s > revoked_at_s and n in ears[0].heard_s for n, at_s in writer.committed_s.items())
    told_after = sum(writer.committed_s.get(n, 0) > revoked_at_s for ear in out for n in ear.heard_s)
    p99_s = quantile(ordered, 0.99)
    checks = {
        f"events reach sockets p99 {p99_s:.2f} s, wanted {P99_BAR_S:g} s at most": p99_s <= P99_BAR_S,
        f"{steady_gaps} gaps while all was well": steady_gaps == 0,
        f"back {cut_back_s:.1f} s after the cut, wanted {BACK_BAR_S:g} s": cut_back_s <= BACK_BAR_S,
        f"{cut_gaps} gaps after the cut": cut_gaps == 0,
        f"back {restart_back_s:.1f} s after Postgres, wanted {BACK_BAR_S:g} s": restart_back_s <= BACK_BAR_S,
        f"{restart_gaps} gaps after Postgres came back": restart_gaps == 0,
        f"{told_after} announcements to those without the right": told_after == 0,
        "nothing was told to the others meanwhile": told_others > 0,
    }
    return Sockets(
        count=len(ears),
        rate_per_s=RATE_PER_S,
        events=len(steady),
        p50_ms=round(1000 * quantile(ordered, 0.5), 1),
        p95_ms=round(1000 * quantile(ordered, 0.95), 1),
        p99_ms=round(1000 * p99_s, 1),
        most_ms=round(1000 * ordered[-1], 1),
        gaps=steady_gaps,
        doubled=doubled,
        connected_s=round(connected_s, 2),
        cpu_share=round(cpu_share, 2),
        memory_mb=round(memory / 2**20, 1),
        per_socket_kb=round((memory - memory_before) / 1024 / len(ears), 1),
        cut_s=CUT_S,
        cut_events=len(cut),
        cut_back_s=round(cut_back_s, 2),
        cut_back_cpu_s=round(cut_back_cpu_s, 2),
        cut_gaps=cut_gaps,
        restart_events=len(restart),
        restart_back_s=round(restart_back_s, 2),
        restart_gaps=restart_gaps,
        revoked_s=round(max(late, default=0.0), 2),
        told_after=told_after,
        missed=[words for words, is_met in checks.items() if not is_met],
    )


async def _until_heard(ears: Sequence[Ear], committed_s: Mapping[int, float]) -> None:
    """Wait until everybody has heard all of it, or for long enough."""
    wanted = committed_s.keys()
    ends_s = time.perf_counter() + GIVE_UP_S
    waiting = list(ears)
    while waiting and time.perf_counter() < ends_s:
        waiting = [ear for ear in waiting if not wanted <= ear.heard_s.keys()]
        await asyncio.sleep(0.05)


def _count_gaps(ears: Sequence[Ear], committed_s: Mapping[int, float]) -> int:
    return sum(len(committed_s.keys() - ear.heard_s.keys()) for ear in ears)


def _cpu_s(web: psutil.Process) -> float:
    """CPU seconds of the web's processes that live now."""
    times = [process.cpu_times() for process in (web, *web.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def _memory(web: psutil.Process) -> int:
    return sum(process.memory_info().rss for process in (web, *web.children(recursive=True)))


def print_sockets(console: Console, sockets: Sockets) -> None:
    table = Table(title=f"{sockets.count} live sockets on one web, {sockets.rate_per_s:g} events a second")
    table.add_column("")
    table.add_column("found", justify="right")
    table.add_column("bar", justify="right")
    latency = f"{sockets.p50_ms:.0f} / {sockets.p95_ms:.0f} / {sockets.p99_ms:.0f} / {sockets.most_ms:.0f} ms"
    for name, found, bar in (
        ("commit to frame p50 / p95 / p99 / most", latency, f"p99 {1000 * P99_BAR_S:.0f} ms"),
        (f"gaps in {sockets.events * sockets.count:,} (event, socket) pairs", str(sockets.gaps), "0"),
        ("told twice", str(sockets.doubled), ""),
        ("all connected after", f"{sockets.connected_s:.1f} s", ""),
        ("web processes", f"{sockets.cpu_share:.2f} cores, {sockets.memory_mb:.0f} MB", ""),
        ("memory a socket", f"{sockets.per_socket_kb:.0f} kB", ""),
        (
            f"back after a cut of {sockets.cut_s:g} s",
            f"{sockets.cut_back_s:.1f} s ({sockets.cut_back_cpu_s:.1f} s CPU)",
            f"{BACK_BAR_S:g} s",
        ),
        (f"gaps in the {sockets.cut_events} events of the cut", str(sockets.cut_gaps), "0"),
        ("back after Postgres restarted", f"{sockets.restart_back_s:.1f} s", f"{BACK_BAR_S:g} s"),
        (f"gaps in the {sockets.restart_events} events around it", str(sockets.restart_gaps), "0"),
        ("announcements told to who lost the right", str(sockets.told_after), "0"),
    ):
        table.add_row(name, found, bar)
    console.print(table)
