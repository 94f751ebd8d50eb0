"""One sandbox, steered through the agent in it, whatever holds it in."""

import asyncio
import contextlib
import itertools
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from tentalis.sandbox.agent import SCREEN_BYTES
from tentalis.sandbox.errors import SandboxError, SandboxLostError, SandboxRefusedError
from tentalis.sandbox.frames import Frame, FrameError, pack, read_frames
from tentalis.sandbox.limits import Limits
from tentalis.sandbox.store import Image

ANSWER_WITHIN_S: Final = 10.0
KILL_WITHIN_S: Final = 1.0
EMPTY_TREE: Final = b"[]\n"


class Body(Protocol):
    """All processes of a sandbox, as whoever made them may end them."""

    def kill(self) -> None:
        """End it, without waiting for that."""

    async def end(self) -> None:
        """End it; when this returns the last of it is gone. Asked once."""


class Backend(Protocol):
    """What makes sandboxes for a host, in whose store their images are."""

    name: str
    swept: int

    @property
    def warm(self) -> int:
        """How many processes are ready to become sandboxes."""

    def keep_warm(self) -> None:
        """Begin to make as many ready as there should be."""

    def describe(self) -> dict[str, Any]:
        """Its name, and what holds sandboxes in here."""

    async def make(self, image: Image, limits: Limits, name: str = "", *, shell: str = "") -> "Sandbox":
        """A new one, with nothing running in it but, where one is named, a shell.

        Args:
            name: what it is called where something is written down of it.

        Raises:
            SandboxUnavailableError: what it stands on does not allow it.
            SandboxRefusedError: a limit or an image is none that it can keep.
        """

    async def drop_layers(self, names: Sequence[str]) -> None:
        """Forget what was made of layers that the store has no more."""

    async def close(self) -> None:
        """When the last sandbox is gone: leave nothing."""


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


Answers = asyncio.Queue[Frame | None]
Hear = Callable[[Output | Ended], None]


@dataclass
class _Awaited:
    """Who is told an answer's frames, None for the sandbox's end, and how many bytes may still come with them."""

    take: Callable[[Frame | None], None]
    left: int


class Sandbox(ABC):
    """One of them, from its making to its end."""

    def __init__(self, image: Image, limits: Limits, body: Body) -> None:
        self.image = image
        self.limits = limits
        self.made_at = time.monotonic()
        self.commands = 0
        self._body = body
        self._numbers = itertools.count(1)
        self._awaited: dict[int, _Awaited] = {}
        self._is_over = False
        self._destroying: asyncio.Task[None] | None = None
        self.on_end: Callable[[], None] = lambda: None
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self, control: socket.socket) -> None:
        self.talk(*await asyncio.open_unix_connection(sock=control))

    def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """From now on this is how its agent is asked and answers."""
        self._writer = writer
        self._listening = asyncio.create_task(self._listen(reader))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Hand answers to whoever waits for them. What does not keep to the protocol was tampered with: it is ended."""
        try:
            async for frame in read_frames(reader):
                if awaited := self._awaited.get(frame[0].get("n", 0)):
                    awaited.left -= len(frame[1])
                    if awaited.left < 0:
                        raise FrameError("wanted no more output than the limit, found more")
                    awaited.take(frame)
        except (FrameError, TypeError):
            self.kill()
        finally:
            self._is_over = True
            for awaited in self._awaited.values():
                awaited.take(None)
            self.on_end()

    @property
    def is_over(self) -> bool:
        return self._is_over

    async def run(
        self, argv: Sequence[str], *, cwd: str, environment: Mapping[str, str], stdin: bytes, timeout_s: float,
        hear: Hear,
    ) -> None:  # fmt: skip
        """A program: `hear` is told what it writes as it comes, then how it ended."""
        head = {"do": "exec", "argv": list(argv), "cwd": cwd, "environment": dict(environment)}
        await self._command(head, stdin, timeout_s, 2, hear)

    async def ask_shell(
        self, name: str, command: bytes, *, environment: Mapping[str, str], timeout_s: float, hear: Hear
    ) -> None:
        """The same of a command in the shell of this name, which is started for its first one."""
        head = {"do": "shell", "name": name, "environment": dict(environment)}
        await self._command(head, command, timeout_s, 1, hear)

    async def open_shell(self, name: str) -> None:
        """Have a shell started, without waiting for it: its first command finds it there."""
        await self._send({"do": "open_shell", "name": name, "n": 0})

    async def ask_screen(self, command: str, keys: bytes, *, environment: Mapping[str, str]) -> tuple[bytes, int, bool]:
        """Start a command on the screen, or press keys for the one that is there: what was drawn since, its code and
        whether it has ended."""
        self.commands += bool(command)
        head = {"do": "screen", "command": command, "environment": dict(environment)}
        told, drawn = await self.ask(head, keys, most_bytes=SCREEN_BYTES)
        return drawn, told.get("code", 0), bool(told.get("has_ended"))

    async def _command(self, head: dict[str, Any], payload: bytes, timeout_s: float, streams: int, hear: Hear) -> None:
        self.commands += 1
        timed_out = False
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def take(answer: Frame | None) -> None:
            if over.done():
                return
            try:
                told, data = self._read(answer)
            except SandboxError as error:
                over.set_exception(error)
                return
            if told["event"] == "output":
                hear(Output("err" if told.get("stream") == "err" else "out", data))
            else:
                hear(Ended(told.get("code", 0), told.get("dropped", 0), timed_out, bool(told.get("has_ended"))))
                over.set_result(None)

        limit = self.limits.output_bytes
        with self._expect(limit * streams, take) as n:
            await self._send({**head, "n": n, "output_bytes": limit}, payload)
            for within_s, whole in ((timeout_s, False), (KILL_WITHIN_S, True), (KILL_WITHIN_S, None)):
                await asyncio.wait([over], timeout=within_s)
                if over.done():
                    return over.result()
                timed_out = True
                if whole is not None:
                    await self._send({"do": "kill", "n": 0, "target": n, "whole": whole})
            self.kill()
            raise SandboxLostError("a command could not be ended, so its sandbox was")

    async def read(self, path: str, *, offset: int, most_bytes: int) -> tuple[bytes, int]:
        """A piece of a file, and how long all of it is."""
        head = {"do": "read", "path": path, "offset": offset, "bytes": most_bytes}
        told, data = await self.ask(head, most_bytes=most_bytes)
        return data, told.get("size", 0)

    async def read_tree(self, path: str, *, without: Sequence[str], most_bytes: int) -> tuple[bytes, int]:
        """Everything beneath a directory as its agent writes it, and how much was left out."""
        head = {"do": "tree", "path": path, "without": list(without), "bytes": most_bytes}
        told, data = await self.ask(head, most_bytes=most_bytes + len(EMPTY_TREE))
        return data, told.get("dropped", 0)

    async def read_processes(self, *, most_bytes: int) -> bytes:
        """The command lines of what runs in it, as its agent writes them."""
        return (await self.ask({"do": "processes", "bytes": most_bytes}, most_bytes=most_bytes))[1]

    async def write(self, path: str, content: bytes, *, mode: int, makes_parents: bool) -> None:
        await self.ask({"do": "write", "path": path, "mode": mode, "makes_parents": makes_parents}, content)

    @contextlib.asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        """While nothing in it moves but its agent."""
        await self.ask({"do": "pause", "stops": True})
        try:
            yield
        finally:
            with contextlib.suppress(SandboxLostError):
                await self.ask({"do": "pause", "stops": False})

    @abstractmethod
    async def fork(self, name: str) -> "Sandbox":
        """Another with its files as they are now."""

    @abstractmethod
    async def keep(self, image_id: str) -> None:
        """Put its files as they are now into the store, as an image of this id."""

    @abstractmethod
    async def read_use(self) -> dict[str, int]:
        """What it takes, as far as its backend counts it: disk_bytes, files, processes, memory_bytes, ..."""

    async def ask(
        self, head: dict[str, Any], payload: bytes = b"", most_bytes: int = 0, answer_within_s: float = ANSWER_WITHIN_S
    ) -> Frame:
        """Its agent's answer to an order.

        Args:
            most_bytes: that may come with it.
        """
        answers: Answers = asyncio.Queue()
        with self._expect(most_bytes, answers.put_nowait) as n:
            await self._send({**head, "n": n}, payload)
            return await self._hear(answers, answer_within_s)

    async def ask_for_much(self, head: dict[str, Any], *, most_bytes: int) -> AsyncIterator[bytes]:
        """An answer that comes in pieces."""
        answers: Answers = asyncio.Queue()
        with self._expect(most_bytes, answers.put_nowait) as n:
            await self._send({**head, "n": n})
            while True:
                told, piece = await self._hear(answers, ANSWER_WITHIN_S)
                if told["event"] == "done":
                    return
                yield piece

    async def _hear(self, answers: Answers, within_s: float) -> Frame:
        try:
            async with asyncio.timeout(within_s):
                return self._read(await answers.get())
        except TimeoutError:
            self.kill()
            raise SandboxLostError(f"it did not answer within {within_s:g} s, and was ended") from None

    @contextlib.contextmanager
    def _expect(self, most_bytes: int, take: Callable[[Frame | None], None]) -> Iterator[int]:
        if self._is_over:
            raise SandboxLostError("the sandbox is over")
        n = next(self._numbers)
        self._awaited[n] = _Awaited(take, most_bytes)
        try:
            yield n
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

    def kill(self) -> None:
        self._body.kill()

    async def destroy(self) -> None:
        """End it and leave nothing. Returns when the last of its processes is gone, whoever asked for that first."""
        self.on_end = lambda: None
        if self._destroying is None:
            self._destroying = asyncio.create_task(self._destroy())
        await asyncio.shield(self._destroying)

    async def _destroy(self) -> None:
        if self._writer:
            self._writer.close()
        await self._body.end()
        self._listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listening
