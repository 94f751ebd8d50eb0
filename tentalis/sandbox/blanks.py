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
import subprocess
import sys
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
from tentalis.sandbox.zygote import JOIN, MAX_ORDER_BYTES, START

_SOURCES: Final = Path(__file__).parents[2]
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

    async def join(self, groups: Sequence[Path]) -> None:
        """Let it go into groups of version 1 by itself, and wait until it is there."""
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context((group / "tasks").open("wb", buffering=0)).fileno() for group in groups]
            if opened:
                socket.send_fds(self.answer, [JOIN], opened)
                await self._hear()

    async def become(self, order: Mapping[str, Any], handed: Sequence[int]) -> tuple[int | None, int | None]:
        """Tell it what it is to be, and wait until all its walls are up. Returns the directory of what it writes, and
        the socket where its programs ask to be let out.

        Args:
            handed: descriptors of its control socket and, perhaps, of what it starts with.
        """
        try:
            socket.send_fds(self.answer, [json.dumps(order).encode()], list(handed))
            written, way_out = await self._hear(), await self._hear()
        except OSError as error:
            raise SandboxUnavailableError(f"no sandbox can be made: {error}") from None
        self.answer.close()
        return written, way_out

    async def _hear(self) -> int | None:
        await _wait_until_readable(self.answer.fileno(), READY_WITHIN_S)
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
        try:
            await _wait_until_readable(self.pidfd, END_WITHIN_S)
        except TimeoutError:
            raise SandboxUnavailableError(f"sandbox {self.name}: its first process does not end") from None
        self.is_ended = True
        os.close(self.pidfd)
        self.answer.close()
        for group in self.groups:
            cgroups.remove_group(group)


async def _wait_until_readable(descriptor: int, within_s: float) -> None:
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(descriptor, is_readable.set)
    try:
        async with asyncio.timeout(within_s):
            await is_readable.wait()
    finally:
        loop.remove_reader(descriptor)


class Blanks:
    """Makes them and keeps some."""

    def __init__(
        self, store: Path, outer_id: int, filters: Sequence[bytes], hierarchies: Sequence[cgroups.Hierarchy], count: int
    ) -> None:
        self._outer_id = outer_id
        self._hierarchies = hierarchies
        self._count = count
        self._ready: deque[Blank] = deque()
        self._names = itertools.count()
        self._orders, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.set_inheritable(its.fileno(), True)
        told = [str(its.fileno()), str(outer_id), str(os.getpid())]
        self._zygote = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, str(_SOURCES), *told], cwd=store, stdin=subprocess.DEVNULL,
            close_fds=False,  # all of ours close themselves
            start_new_session=True,  # where nobody's terminal tells it to end: it goes when we do
        )  # fmt: skip
        its.close()
        for program in filters:
            self._orders.send(program)
        self._ordering = asyncio.Lock()
        self._filling: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> int:
        return len(self._ready)

    def fill(self) -> None:
        """Make as many as there should be, in the background."""
        while len(self._ready) + sum(not task.done() for task in self._filling) < self._count:
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
            blank = await self._order(json.dumps(sorted(walls)).encode())
        try:
            await asyncio.to_thread(self._place, blank, walls)
            await blank.join([tree.root / blank.name for tree in self._hierarchies if tree.version == 1])
        except OSError as error:
            await blank.end()
            raise SandboxUnavailableError(f"no sandbox can be made: {error}") from None
        return blank

    async def _order(self, order: bytes) -> Blank:
        try:
            self._orders.send(order)
            await _wait_until_readable(self._orders.fileno(), READY_WITHIN_S)
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
        """Give it its user, and groups where it may not go by itself."""
        if Wall.USER in walls:
            place = Path("/proc") / str(blank.pid)
            outer_group = self._outer_id if os.geteuid() == 0 else os.getegid()
            (place / "setgroups").write_text("deny", encoding="utf-8")
            (place / "gid_map").write_text(f"{INNER_ID} {outer_group} 1", encoding="utf-8")
            (place / "uid_map").write_text(f"{INNER_ID} {self._outer_id} 1", encoding="utf-8")
        for hierarchy in self._hierarchies:
            group = hierarchy.root / blank.name
            group.mkdir()
            blank.groups.append(group)
            if hierarchy.version == 2:
                (group / "cgroup.procs").write_text(str(blank.pid), encoding="utf-8")

    async def close(self) -> None:
        """End those that wait, and the zygote with all that it has forked."""
        for task in list(self._filling):
            await asyncio.wait([task])
        await asyncio.gather(*(blank.end() for blank in self._ready))
        self._orders.shutdown(socket.SHUT_RDWR)  # whoever else holds an end of it
        self._orders.close()
        self._zygote.wait()
