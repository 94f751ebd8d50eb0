"""Sandboxes by this machine's own kernel: steered through their agents, ended from outside."""

import asyncio
import contextlib
import itertools
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tentalis.sandbox import cgroups, kernel
from tentalis.sandbox.blanks import Blank, Blanks
from tentalis.sandbox.errors import SandboxLostError, SandboxRefusedError
from tentalis.sandbox.frames import Frame, FrameError, pack, read_frame
from tentalis.sandbox.limits import ALL_WALLS, Limits, Wall
from tentalis.sandbox.store import SKELETON, Image
from tentalis.sandbox.system_calls import compile_filters

OUTER_ID: Final = 60_910
"""The user and group that sandboxes are when the host is root: in nobody's range (systemd.io/UIDS-GIDS)."""
ANSWER_WITHIN_S: Final = 10.0
KILL_WITHIN_S: Final = 1.0
TREE_OVERHEAD: Final = 4
"""What is written of names and contents may be so many times as long: JSON spells a byte of a name with six."""


class Output(NamedTuple):
    """A piece of what a program writes: `stream` is out or err, of a shell always out."""

    stream: str
    data: bytes


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Args:
        code: as shells count: 128 and the signal where one ended it.
        dropped: bytes of output beyond the limit.
        timed_out: it was killed from outside for its time was over.
        has_ended: of a shell: it is gone with its variables, and the next command gets a new one.
    """

    code: int
    dropped: int = 0
    timed_out: bool = False
    has_ended: bool = False


@dataclass
class _Awaited:
    answers: "asyncio.Queue[Frame | None]" = field(default_factory=asyncio.Queue)
    left: int = 0


class Sandbox:
    """One of them, from its making to its end."""

    def __init__(self, image: Image, limits: Limits, blank: Blank, written: int | None) -> None:
        self.image = image
        self.limits = limits
        self.name = blank.name
        self.made_at = time.monotonic()
        self.commands = 0
        self._blank = blank
        self._written = written
        self._numbers = itertools.count(1)
        self._awaited: dict[int, _Awaited] = {}
        self._is_over = False
        self._destroying: asyncio.Task[None] | None = None
        self.on_end: Callable[[], None] = lambda: None
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self, control: socket.socket) -> None:
        reader, self._writer = await asyncio.open_unix_connection(sock=control)
        self._listening = asyncio.create_task(self._listen(reader))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Hand answers to whoever waits for them. What does not keep to the protocol was tampered with: it is ended."""
        try:
            while frame := await read_frame(reader):
                awaited = self._awaited.get(frame[0].get("n", 0))
                if awaited:
                    awaited.left -= len(frame[1])
                    if awaited.left < 0:
                        raise FrameError("wanted no more output than the limit, found more")
                    awaited.answers.put_nowait(frame)
        except (FrameError, TypeError):
            self.kill()
        finally:
            self._is_over = True
            for awaited in self._awaited.values():
                awaited.answers.put_nowait(None)
            self.on_end()

    @property
    def is_over(self) -> bool:
        return self._is_over

    async def run(
        self, argv: Sequence[str], *, cwd: str, environment: Mapping[str, str], stdin: bytes, timeout_s: float
    ) -> AsyncIterator[Output | Ended]:
        """A program: what it writes as it comes, then how it ended."""
        head = {"do": "exec", "argv": list(argv), "cwd": cwd, "environment": dict(environment)}
        async for told in self._command(head, stdin, timeout_s, streams=2):
            yield told

    async def ask_shell(
        self, name: str, command: bytes, *, environment: Mapping[str, str], timeout_s: float
    ) -> AsyncIterator[Output | Ended]:
        """A command in the shell of this name, which is started for its first one."""
        head = {"do": "shell", "name": name, "environment": dict(environment)}
        async for told in self._command(head, command, timeout_s, streams=1):
            yield told

    async def _command(
        self, head: dict[str, Any], payload: bytes, timeout_s: float, streams: int
    ) -> AsyncIterator[Output | Ended]:
        self.commands += 1
        deadline = time.monotonic() + timeout_s
        orders = [(deadline, False), (deadline + KILL_WITHIN_S, True), (deadline + 2 * KILL_WITHIN_S, None)]
        timed_out = False
        limit = self.limits.output_bytes
        with self._expect(limit * streams) as (n, awaited):
            await self._send({**head, "n": n, "output_bytes": limit}, payload)
            while True:
                try:
                    answer = await asyncio.wait_for(awaited.answers.get(), max(orders[0][0] - time.monotonic(), 0))
                except TimeoutError:
                    timed_out = True
                    _, whole = orders.pop(0)
                    if whole is None:
                        self.kill()
                        raise SandboxLostError("a command could not be ended, so its sandbox was") from None
                    await self._send({"do": "kill", "n": 0, "target": n, "whole": whole})
                    continue
                told, data = self._read(answer)
                if told["event"] == "output":
                    yield Output("err" if told.get("stream") == "err" else "out", data)
                else:
                    yield Ended(told.get("code", 0), told.get("dropped", 0), timed_out, bool(told.get("has_ended")))
                    return

    async def read(self, path: str, *, offset: int, most_bytes: int) -> tuple[bytes, int]:
        """A piece of a file, and how long all of it is."""
        head = {"do": "read", "path": path, "offset": offset, "bytes": most_bytes}
        told, data = await self._ask(head, most_bytes=most_bytes)
        return data, told.get("size", 0)

    async def read_tree(self, path: str, *, without: Sequence[str], most_bytes: int) -> tuple[bytes, int]:
        """Everything beneath a directory as its agent writes it, and how much was left out."""
        head = {"do": "tree", "path": path, "without": list(without), "bytes": most_bytes}
        told, data = await self._ask(head, most_bytes=TREE_OVERHEAD * most_bytes)
        return data, told.get("dropped", 0)

    async def read_processes(self, *, most_bytes: int) -> bytes:
        """The command lines of what runs in it, as its agent writes them."""
        return (await self._ask({"do": "processes", "bytes": most_bytes}, most_bytes=most_bytes))[1]

    async def write(self, path: str, content: bytes, *, mode: int, makes_parents: bool) -> None:
        await self._ask({"do": "write", "path": path, "mode": mode, "makes_parents": makes_parents}, content)

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[int]:
        """While nothing in it moves: the directory of what it has written over its image."""
        if self._written is None:
            raise SandboxRefusedError("wanted a sandbox with a root of its own, found one without")
        await self._ask({"do": "pause", "stops": True})
        held = os.dup(self._written)  # who copies it may be at it longer than the sandbox lives
        try:
            yield held
        finally:
            os.close(held)
            with contextlib.suppress(SandboxLostError):
                await self._ask({"do": "pause", "stops": False})

    async def _ask(self, head: dict[str, Any], payload: bytes = b"", most_bytes: int = 0) -> Frame:
        with self._expect(most_bytes) as (n, awaited):
            await self._send({**head, "n": n}, payload)
            try:
                return self._read(await asyncio.wait_for(awaited.answers.get(), ANSWER_WITHIN_S))
            except TimeoutError:
                self.kill()
                raise SandboxLostError(f"it did not answer within {ANSWER_WITHIN_S:g} s, and was ended") from None

    @contextlib.contextmanager
    def _expect(self, most_bytes: int) -> Any:
        if self._is_over:
            raise SandboxLostError("the sandbox is over")
        n = next(self._numbers)
        self._awaited[n] = awaited = _Awaited(left=most_bytes)
        try:
            yield n, awaited
        finally:
            del self._awaited[n]

    def _read(self, answer: Frame | None) -> Frame:
        """An answer as the agent gives it; any other was made by somebody else."""
        if answer is None:
            raise SandboxLostError("the sandbox ended")
        told = answer[0]
        if told.get("event") == "refused":
            raise SandboxRefusedError(str(told.get("words"))[:1000])
        numbers = [told.get(name, 0) for name in ("code", "dropped", "size")]
        if told.get("event") not in ("output", "done") or not all(isinstance(number, int) for number in numbers):
            self.kill()
            raise SandboxLostError("the sandbox does not answer as it should, and was ended")
        return answer

    async def _send(self, head: dict[str, Any], payload: bytes = b"") -> None:
        if self._writer is None:
            raise SandboxLostError("the sandbox is not connected")
        try:
            self._writer.write(pack(head, payload))
            await self._writer.drain()
        except ConnectionError:
            raise SandboxLostError("the sandbox ended") from None

    def written_use(self) -> tuple[int, int]:
        """Bytes and files of its disk that are taken."""
        if self._written is None:
            return 0, 0
        found = os.fstatvfs(self._written)
        return (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_files - found.f_ffree

    def kill(self) -> None:
        self._blank.kill()

    async def destroy(self) -> None:
        """End it and leave nothing. Returns when the last of its processes is gone, whoever asked for that first."""
        self.on_end = lambda: None
        if self._destroying is None:
            self._destroying = asyncio.create_task(self._destroy())
        await asyncio.shield(self._destroying)

    async def _destroy(self) -> None:
        if self._writer:
            self._writer.close()
        await self._blank.end()
        self._listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listening
        if self._written is not None:
            os.close(self._written)


class Embedded:
    """What makes them. Make it while this process has one thread."""

    name = "embedded"

    def __init__(self, store: Path, *, warm: int = 0, counts: bool = True) -> None:
        """Args:
        warm: how many processes are kept ready to become sandboxes.
        counts: by cgroups, where they can be had.
        """
        filters = compile_filters()
        self.outer_id = self.outer_user()
        self._swept_file = store.parent / f"{store.name}.cgroups"
        self.swept = self._sweep()
        groups_name = f"tentalis-sandboxes-{store.stat().st_ino}"
        self.hierarchies = cgroups.find_hierarchies(groups_name) if counts else []
        self._swept_file.write_text("\n".join(str(tree.root) for tree in self.hierarchies), encoding="utf-8")
        if os.geteuid() == 0:
            os.setgroups([])
        self._blanks = Blanks(store, self.outer_id, filters, self.hierarchies, warm)

    @staticmethod
    def outer_user() -> int:
        """Who sandboxes are outside: nobody's user where we are root, else whoever we are."""
        return OUTER_ID if os.geteuid() == 0 else os.geteuid()

    def _sweep(self) -> int:
        """What a host before us left in the cgroups it wrote down."""
        if not self._swept_file.exists():
            return 0
        return cgroups.sweep([Path(line) for line in self._swept_file.read_text(encoding="utf-8").splitlines()])

    @property
    def counts_memory(self) -> bool:
        return any("memory" in hierarchy.controllers for hierarchy in self.hierarchies)

    @property
    def warm(self) -> int:
        return self._blanks.ready

    def keep_warm(self) -> None:
        self._blanks.fill()

    def describe(self) -> dict[str, Any]:
        """What holds sandboxes in here."""
        counted = {name: tree.version for tree in self.hierarchies for name in tree.controllers}
        return {"backend": self.name, "landlock": kernel.landlock_version(), "cgroups": counted, "user": self.outer_id}

    async def make(
        self, image: Image, limits: Limits, *, walls: frozenset[Wall] = ALL_WALLS, written: int | None = None
    ) -> Sandbox:
        """A new one, with nothing running in it.

        Args:
            written: the directory of what another of this image has written: it starts with a copy.

        Raises:
            SandboxUnavailableError: the kernel, or who we are here, does not allow it.
        """
        blank = await self._blanks.take(walls)
        order = {
            "layers": [*image.layers, SKELETON],
            "has_system": image.has_system,
            "limits": vars(limits),
            "counts_memory": self.counts_memory,
        }
        ours, its = socket.socketpair()
        try:
            cgroups.set_limits(self.hierarchies, blank.name, limits)
            handed = [its.fileno(), *([] if written is None else [written])]
            its_written = await asyncio.to_thread(blank.become, order, handed)
        except BaseException:
            ours.close()
            await blank.end()
            raise
        finally:
            its.close()
        sandbox = Sandbox(image, limits, blank, its_written)
        await sandbox.connect(ours)
        return sandbox

    def read_use(self, sandbox: Sandbox) -> dict[str, int]:
        return dict(cgroups.read_use(self.hierarchies, sandbox.name))

    async def close(self) -> None:
        """When the last sandbox is gone: end what waits, and leave no group."""
        await self._blanks.close()
        cgroups.sweep([tree.root for tree in self.hierarchies])
        self._swept_file.unlink(missing_ok=True)
