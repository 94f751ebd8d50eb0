"""Processes in namespaces and cgroups of their own that wait to become sandboxes, of whatever image.

To put a process into a cgroup takes the kernel longer than all else about a sandbox: some are kept ready.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final

from tentalis.sandbox import cgroups
from tentalis.sandbox.confine import DONE, INNER_ID
from tentalis.sandbox.errors import SandboxError, SandboxUnavailableError
from tentalis.sandbox.limits import ALL_WALLS, Wall
from tentalis.sandbox.zygote import JOIN, MAX_ORDER_BYTES, start_zygote

READY_WITHIN_S: Final = 20.0
END_WITHIN_S: Final = 10.0


@dataclass
class Blank:
    """A first process of a sandbox, from its fork to its end."""

    name: str
    pid: int
    pidfd: int
    answer: socket.socket
    groups: list[Path] = field(default_factory=list)
    is_ended: bool = False

    def join(self, groups: Sequence[int]) -> None:
        """Let it go into groups, by their open files, and wait until it is there."""
        self.answer.settimeout(READY_WITHIN_S)
        socket.send_fds(self.answer, [JOIN], list(groups))
        self._hear()

    def become(self, order: Mapping[str, Any], handed: Sequence[int]) -> tuple[int | None, int | None]:
        """Tell it what it is to be, and wait until all its walls are up. Returns the directory of what it writes, and
        the socket where its programs ask to be let out.

        Args:
            handed: descriptors of its control socket and, perhaps, of what it starts with.
        """
        self.answer.settimeout(READY_WITHIN_S)
        try:
            socket.send_fds(self.answer, [json.dumps(order).encode()], list(handed))
            written, way_out = self._hear(), self._hear()
        except OSError as error:
            raise SandboxUnavailableError(f"no sandbox can be made: {error}") from None
        self.answer.close()
        return written, way_out

    def _hear(self) -> int | None:
        text, descriptors, _, _ = socket.recv_fds(self.answer, MAX_ORDER_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        if text != DONE:
            raise OSError(text.decode(errors="replace") or "it ended while its walls went up")
        return descriptors[0] if descriptors else None

    def kill(self) -> None:
        """End all of it: the kernel ends what is in a process namespace with its first process."""
        if not self.is_ended:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    async def end(self) -> None:
        """End it, and return when the last of its processes and its groups are gone. Once."""
        self.kill()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self.pidfd, _settle, ended)
        try:
            await asyncio.wait_for(ended, END_WITHIN_S)
        except TimeoutError:
            raise SandboxUnavailableError(f"sandbox {self.name}: its first process does not end") from None
        finally:
            loop.remove_reader(self.pidfd)
        self.is_ended = True
        os.close(self.pidfd)
        self.answer.close()
        for group in self.groups:
            cgroups.remove_group(group)


def _settle(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)


class Blanks:
    """Makes them and keeps some. Make it while this process has one thread."""

    def __init__(
        self, store: Path, outer_id: int, filters: Sequence[bytes], hierarchies: Sequence[cgroups.Hierarchy], count: int
    ) -> None:
        self._outer_id = outer_id
        self._hierarchies = hierarchies
        self._count = count
        self._ready: deque[Blank] = deque()
        self._names = itertools.count()
        self._zygote, self._orders = start_zygote(store, outer_id, filters)
        self._ordering = asyncio.Lock()
        self._filling: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> int:
        return len(self._ready)

    def fill(self) -> None:
        """Make as many as there should be, in the background."""
        while len(self._ready) + len(self._filling) < self._count:
            task = asyncio.create_task(self._add())
            self._filling.add(task)
            task.add_done_callback(self._filling.discard)

    async def _add(self) -> None:
        with contextlib.suppress(SandboxError):  # whoever wants one is told
            self._ready.append(await self._make(ALL_WALLS))

    async def take(self, walls: frozenset[Wall]) -> Blank:
        """One of those that are ready, or a new one."""
        blank = None
        while blank is None and walls == ALL_WALLS and self._ready:
            blank = self._ready.popleft()
            if wait([blank.pidfd], 0):  # it died while it waited
                await blank.end()
                blank = None
        blank = blank or await self._make(walls)
        self.fill()
        return blank

    async def _make(self, walls: frozenset[Wall]) -> Blank:
        async with self._ordering:
            blank = await asyncio.to_thread(self._order, json.dumps(sorted(walls)).encode())
        try:
            await asyncio.to_thread(self._place, blank, walls)
        except OSError as error:
            await blank.end()
            raise SandboxUnavailableError(f"no sandbox can be made: {error}") from None
        return blank

    def _order(self, order: bytes) -> Blank:
        try:
            self._orders.send(order)
            text, descriptors, _, _ = socket.recv_fds(self._orders, MAX_ORDER_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise SandboxUnavailableError(f"the zygote is gone: {error.strerror}") from None
        if not text:
            raise SandboxUnavailableError("the zygote is gone")
        told = json.loads(text)
        if "error" in told:
            raise SandboxUnavailableError(f"no sandbox can be made: {told['error']}")
        return Blank(str(next(self._names)), told["pid"], descriptors[0], socket.socket(fileno=descriptors[1]))

    def _place(self, blank: Blank, walls: frozenset[Wall]) -> None:
        """Give it its user and its groups."""
        if Wall.USER in walls:
            place = Path("/proc") / str(blank.pid)
            outer_group = self._outer_id if os.geteuid() == 0 else os.getegid()
            (place / "setgroups").write_text("deny", encoding="utf-8")
            (place / "gid_map").write_text(f"{INNER_ID} {outer_group} 1", encoding="utf-8")
            (place / "uid_map").write_text(f"{INNER_ID} {self._outer_id} 1", encoding="utf-8")
        joined = []
        try:
            for hierarchy in self._hierarchies:
                group = hierarchy.root / blank.name
                group.mkdir()
                blank.groups.append(group)
                if hierarchy.version == 1:
                    joined.append(os.open(group / "tasks", os.O_WRONLY | os.O_CLOEXEC))
                else:  # where a thread may not go alone
                    (group / "cgroup.procs").write_text(str(blank.pid), encoding="utf-8")
            if joined:
                blank.join(joined)
        finally:
            for descriptor in joined:
                os.close(descriptor)

    async def close(self) -> None:
        """End those that wait, and the zygote with all that it has forked."""
        for task in list(self._filling):
            await asyncio.wait([task])
        await asyncio.gather(*(blank.end() for blank in self._ready))
        self._orders.shutdown(socket.SHUT_RDWR)  # whoever else holds an end of it
        self._orders.close()
        os.waitpid(self._zygote, 0)
