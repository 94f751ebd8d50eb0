"""The sandbox host: serves sandboxes over a socket that only its own user may open.

It knows no database, no secret, no token. A request is one frame, its answer any number of `output` frames and one that
is `done` or `error`. What changes something is asked under a name of the asker's: a sandbox, an image or a key. Asked
again under it, it is not done again.
"""

import asyncio
import os
import shutil
import signal
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tentalis.sandbox.backends import Choice, open_backend
from tentalis.sandbox.errors import SandboxError, SandboxLostError, SandboxRefusedError
from tentalis.sandbox.frames import (
    DEFAULT_TIMEOUT_S,
    HOME,
    MAIN_SHELL,
    MAX_KEYS_BYTES,
    MAX_PAYLOAD_BYTES,
    PIECE_BYTES,
    SOCKET,
    STAGED,
    FrameError,
    pack,
    read_frames,
)
from tentalis.sandbox.limits import Limits
from tentalis.sandbox.sandbox import Ended, Hear, Output, Sandbox
from tentalis.sandbox.store import Image, Store

STORE: Final = "store"
MAX_SANDBOXES: Final = 1_024
MAX_SANDBOX_NAME_CHARS: Final = 200
KEPT_ANSWERS: Final = 64
KEPT_BYTES: Final = 4 * 2**20
PIECE_COSTS_BYTES: Final = 200
MAX_REMEMBERED: Final = 10_000
MAX_COMMAND_S: Final = 3_600.0
MAX_TREE_BYTES: Final = 4 * 2**20
"""Of names, as JSON spells them, and contents together."""

Reply = Callable[..., Awaitable[None]]


@dataclass
class _Run:
    """A command that runs or ran, and what it has said: whoever asks for it again hears all of it."""

    asked: tuple[Any, ...]
    pieces: list[tuple[str, bytearray]] = field(default_factory=list)
    ended: Ended | None = None
    error: SandboxError | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def size_bytes(self) -> int:
        return sum(len(data) + PIECE_COSTS_BYTES for _, data in self.pieces)

    def hear(self, told: Output | Ended) -> None:
        """A program may write byte by byte: what follows in a stream is joined, up to a point."""
        if isinstance(told, Ended):
            self.ended = told
        elif self.pieces and self.pieces[-1][0] == told.stream and len(self.pieces[-1][1]) < PIECE_BYTES:
            self.pieces[-1][1].extend(told.data)
        else:
            self.pieces.append((told.stream, bytearray(told.data)))
        self.announce()

    def announce(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


@dataclass
class _Held:
    """A sandbox under the name that its asker gave it."""

    sandbox: Sandbox
    made_from: tuple[Any, ...]
    expires: asyncio.TimerHandle
    runs: "OrderedDict[str, _Run]" = field(default_factory=OrderedDict)
    forgotten: set[str] = field(default_factory=set)


class _Kind(NamedTuple):
    """Of a request: its fields with their types and, where they may be left out, what they are then."""

    fields: Mapping[str, type | tuple[type, ...]]
    otherwise: Mapping[str, Any] = {}


_COMMAND: Final[dict[str, type | tuple[type, ...]]] = {
    "sandbox": str,
    "key": str,
    "environment": dict,
    "timeout_s": (int, float),
}
_COMMAND_OTHERWISE: Final = {"key": "", "environment": {}, "timeout_s": DEFAULT_TIMEOUT_S}
_KINDS: Final = {
    "describe": _Kind({}),
    "add_image": _Kind({"directory": str}),
    "drop_image": _Kind({"image": str}),
    "create": _Kind(
        {"sandbox": str, "image": str, "limits": dict, "opens_shell": bool}, {"limits": {}, "opens_shell": False}
    ),
    "exec": _Kind({**_COMMAND, "argv": list, "cwd": str}, {**_COMMAND_OTHERWISE, "cwd": HOME}),
    "shell": _Kind({**_COMMAND, "shell": str}, {**_COMMAND_OTHERWISE, "shell": MAIN_SHELL}),
    "screen": _Kind({"sandbox": str, "command": str, "environment": dict}, {"command": "", "environment": {}}),
    "read": _Kind(
        {"sandbox": str, "path": str, "offset": int, "bytes": int}, {"offset": 0, "bytes": MAX_PAYLOAD_BYTES}
    ),
    "read_tree": _Kind(
        {"sandbox": str, "path": str, "without": list, "bytes": int}, {"without": [], "bytes": MAX_TREE_BYTES}
    ),
    "read_processes": _Kind({"sandbox": str}),
    "write": _Kind(
        {"sandbox": str, "path": str, "mode": int, "makes_parents": bool}, {"mode": 0o644, "makes_parents": False}
    ),
    "snapshot": _Kind({"sandbox": str, "image": str}),
    "fork": _Kind({"sandbox": str, "to": str}),
    "stats": _Kind({"sandbox": str}),
    "destroy": _Kind({"sandbox": str}),
}


def read_request(head: Mapping[str, Any]) -> dict[str, Any]:
    """A request with every field it may have, each of its type.

    Raises:
        SandboxRefusedError: it names something we do not do, or a field is missing, unknown or of another type.
    """
    kind = _KINDS.get(str(head.get("do")))
    if kind is None:
        raise SandboxRefusedError(f"do: wanted one of {', '.join(_KINDS)}, found {head.get('do')!r}")
    given = {name: value for name, value in head.items() if name != "do"}
    if unknown := sorted(set(given) - set(kind.fields)):
        raise SandboxRefusedError(
            f"{head['do']}: wanted {', '.join(kind.fields) or 'nothing'}, found {', '.join(unknown)}"
        )
    request = {**kind.otherwise, **given}
    for name, wanted in kind.fields.items():
        if name not in request:
            raise SandboxRefusedError(f"{head['do']}: wanted {name}, found none")
        value = request[name]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            types = wanted if isinstance(wanted, tuple) else (wanted,)
            raise SandboxRefusedError(f"{name}: wanted {types[-1].__name__}, found {type(value).__name__}")
    _check_values(request)
    return {"do": head["do"], **request}


def _check_values(request: Mapping[str, Any]) -> None:
    for name in ("sandbox", "to", "image", "shell", "key", "path", "cwd", "directory"):
        value = request.get(name)
        if isinstance(value, str) and (len(value) > 4_096 or "\0" in value):
            raise SandboxRefusedError(f"{name}: wanted at most 4,096 characters and no NUL, found {value[:40]!r}…")
    for name in ("sandbox", "to", "image", "shell"):
        if name in request and not 0 < len(request[name]) <= MAX_SANDBOX_NAME_CHARS:
            found = f"{len(request[name])}"
            raise SandboxRefusedError(
                f"{name}: wanted a name of 1 to {MAX_SANDBOX_NAME_CHARS} characters, found {found}"
            )
    for name in ("path", "cwd"):
        if name in request and not request[name]:
            raise SandboxRefusedError(f"{name}: wanted a path, found none")
    environment = request.get("environment", {})
    if not all(isinstance(value, str) and "\0" not in value and name and "=" not in name and "\0" not in name
               for name, value in environment.items()):  # fmt: skip
        raise SandboxRefusedError("environment: wanted names with texts, found something else")
    argv = request.get("argv")
    if argv is not None and not (argv and all(isinstance(word, str) and "\0" not in word for word in argv)):
        raise SandboxRefusedError("argv: wanted a program and its arguments, found something else")
    if not 0 < request.get("timeout_s", 1) <= MAX_COMMAND_S:
        raise SandboxRefusedError(
            f"timeout_s: wanted more than 0 and at most {MAX_COMMAND_S:,.0f}, found {request['timeout_s']}"
        )
    if not 0 <= request.get("mode", 0) <= 0o777:
        raise SandboxRefusedError(f"mode: wanted 0 to 0o777, found {request['mode']:o}")
    if request.get("offset", 0) < 0 or not 0 <= request.get("bytes", 0) <= MAX_PAYLOAD_BYTES:
        raise SandboxRefusedError(f"wanted a piece of at most {MAX_PAYLOAD_BYTES:,} bytes, found another")


async def serve_refusals(directory: Path, error: SandboxError, on_ready: Callable[[], None]) -> None:
    """Answer whatever is asked with why nothing can be confined here, until somebody sends SIGTERM or SIGINT."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async for _ in read_frames(reader):
                writer.write(pack({"event": "error", "code": error.code, "words": str(error)}))
                await writer.drain()
        except (ConnectionError, FrameError, asyncio.CancelledError):
            pass  # it is gone, or does not speak as we do
        finally:
            writer.close()

    await _listen(directory, talk, on_ready, asyncio.Event())


async def _listen(
    directory: Path,
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]],
    on_ready: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Until `stop`, which SIGTERM, SIGINT and SIGHUP set."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    os.chdir(directory)  # a path to a socket may be no longer than 107 bytes
    Path(SOCKET).unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    old = os.umask(0o177)
    listening.bind(SOCKET)
    os.umask(old)
    server = await asyncio.start_unix_server(talk, sock=listening)
    try:
        async with server:
            on_ready()
            await stop.wait()
    finally:
        Path(SOCKET).unlink(missing_ok=True)


class Host:
    """One of them, in a directory of its own."""

    def __init__(self, directory: Path, choice: Choice) -> None:
        self._directory = directory
        self._store = Store(directory / STORE, choice.layers_owner())
        left_layers = self._store.open()
        shutil.rmtree(directory / STAGED, ignore_errors=True)
        self._backend = open_backend(choice, self._store)
        self._left = {"layers": left_layers, "sandboxes": self._backend.swept}
        self._held: dict[str, _Held] = {}
        self._making: dict[str, asyncio.Future[None]] = {}
        self._causes: OrderedDict[str, str] = OrderedDict()
        self._made_of: list[Image] = []
        self._store_lock = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._does: dict[str, Callable[[dict[str, Any], bytes, Reply], Coroutine[Any, Any, None]]] = {
            name: getattr(self, f"_{name}") for name in _KINDS
        }

    async def serve(self, on_ready: Callable[[], None]) -> None:
        """Until somebody sends SIGTERM or SIGINT. Then every sandbox is ended, and nothing is left."""
        self._backend.keep_warm()
        try:
            await _listen(self._directory, self._talk, on_ready, self._stop)
        finally:
            await self._end_everything()

    async def _end_everything(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for held in self._held.values():
            held.expires.cancel()
        try:
            await asyncio.gather(*(held.sandbox.destroy() for held in self._held.values()))
        finally:
            await self._backend.close()
            self._store.clear()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept = bytearray()

        async def reply(event: str, payload: bytes = b"", *, is_followed: bool = False, **rest: Any) -> None:
            """Args:
            is_followed: another one comes at once, and both go out together.
            """
            kept.extend(pack({"event": event, **rest}, payload))
            if not is_followed:
                writer.write(bytes(kept))
                kept.clear()
                await writer.drain()

        try:
            async for head, payload in read_frames(reader):
                try:
                    request = read_request(head)
                    await self._does[request["do"]](request, payload, reply)
                except SandboxError as error:
                    await reply("error", code=error.code, words=str(error))
        except (ConnectionError, FrameError, asyncio.CancelledError):
            pass  # it is gone, or does not speak as we do
        finally:
            writer.close()

    # images

    async def _describe(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        now = {"sandboxes": len(self._held), "warm": self._backend.warm, "left": self._left}
        await reply("done", **self._backend.describe(), **now)

    async def _add_image(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        async with self._store_lock:
            image = await asyncio.to_thread(self._store.add_image, Path(request["directory"]))
        await reply("done", image=image.id)

    async def _drop_image(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        self._store.drop(request["image"])
        await self._collect_layers()
        await reply("done")

    async def _snapshot(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        sandbox = self._find(request["sandbox"]).sandbox
        if not self._store.get(request["image"]):
            async with self._store_lock:
                await sandbox.keep(request["image"])
        await reply("done", image=request["image"])

    async def _collect_layers(self) -> None:
        async with self._store_lock:
            in_use = [held.sandbox.image for held in self._held.values()]
            in_use += self._made_of
            await self._backend.drop_layers(await asyncio.to_thread(self._store.collect, in_use))

    # sandboxes

    def _find(self, name: str) -> _Held:
        held = self._held.get(name)
        if held is None and name in self._causes:
            raise SandboxLostError(f"sandbox {name}: {self._causes[name]}")
        if held is None:
            raise SandboxRefusedError(
                f"wanted a sandbox, found none called {name!r}: a host that was started again has none of before"
            )
        if held.sandbox.is_over:
            raise SandboxLostError(f"sandbox {name}: it ended")
        return held

    async def _create(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        limits = Limits.from_json(request["limits"])
        image_id = request["image"]

        async def make() -> Sandbox:
            image = self._store.find(image_id)
            shell = MAIN_SHELL if request["opens_shell"] else ""
            return await self._make(image, lambda: self._backend.make(image, limits, request["sandbox"], shell=shell))

        await self._hold(request["sandbox"], ("create", image_id, limits), make)
        await reply("done")

    async def _fork(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        async def make() -> Sandbox:
            sandbox = self._find(request["sandbox"]).sandbox
            return await self._make(sandbox.image, lambda: sandbox.fork(request["to"]))

        await self._hold(request["to"], ("fork", request["sandbox"]), make)
        await reply("done")

    async def _make(self, image: Image, make: Callable[[], Awaitable[Sandbox]]) -> Sandbox:
        self._made_of.append(image)
        try:
            return await make()
        finally:
            self._made_of.remove(image)

    async def _hold(self, name: str, made_from: tuple[Any, ...], make: Callable[[], Awaitable[Sandbox]]) -> None:
        """A sandbox under a name, made unless it is there."""
        while name in self._making:
            await asyncio.wait([self._making[name]])
        if name in self._causes:
            raise SandboxLostError(f"sandbox {name}: {self._causes[name]}")
        if held := self._held.get(name):
            if held.made_from != made_from:
                raise SandboxRefusedError(f"sandbox {name}: it was made of something else")
            return
        if len(self._held) + len(self._making) >= MAX_SANDBOXES:
            raise SandboxRefusedError(f"wanted at most {MAX_SANDBOXES} sandboxes, found one more")
        loop = asyncio.get_running_loop()
        made = self._making[name] = loop.create_future()
        try:
            sandbox = await make()
            expires = loop.call_later(
                sandbox.limits.lifetime_s, self._lose, name, f"its {sandbox.limits.lifetime_s:g} s were over"
            )  # fmt: skip
            self._held[name] = _Held(sandbox, made_from, expires)
            sandbox.on_end = lambda: self._lose(name, "it ended")
        finally:
            del self._making[name]
            made.set_result(None)

    def _lose(self, name: str, cause: str) -> None:
        """It ended, or is ended, and nobody asked for that: the next one who asks is told why."""
        if held := self._held.pop(name, None):
            self._causes[name] = cause
            while len(self._causes) > MAX_REMEMBERED:
                self._causes.popitem(last=False)
            self._in_background(self._end(held))

    async def _destroy(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        name = request["sandbox"]
        while name in self._making:
            await asyncio.wait([self._making[name]])
        self._causes.pop(name, None)
        if held := self._held.pop(name, None):
            await self._end(held)
        await reply("done")

    async def _end(self, held: _Held) -> None:
        held.expires.cancel()
        await held.sandbox.destroy()
        if not self._store.get(held.sandbox.image.id):
            await self._collect_layers()

    async def _stats(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        sandbox = self._find(request["sandbox"]).sandbox
        age_s = round(time.monotonic() - sandbox.made_at, 3)
        await reply("done", **await sandbox.read_use(), commands=sandbox.commands, age_s=age_s)

    # what is done in them

    async def _read(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        sandbox = self._find(request["sandbox"]).sandbox
        data, size = await sandbox.read(request["path"], offset=request["offset"], most_bytes=request["bytes"])
        await reply("done", data, size=size)

    async def _read_tree(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        sandbox = self._find(request["sandbox"]).sandbox
        most_bytes = min(request["bytes"], MAX_TREE_BYTES)
        data, dropped = await sandbox.read_tree(request["path"], without=request["without"], most_bytes=most_bytes)
        await reply("done", data, dropped=dropped)

    async def _read_processes(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        sandbox = self._find(request["sandbox"]).sandbox
        await reply("done", await sandbox.read_processes(most_bytes=MAX_TREE_BYTES))

    async def _write(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        sandbox = self._find(request["sandbox"]).sandbox
        await sandbox.write(
            request["path"], payload, mode=request["mode"], makes_parents=request["makes_parents"]
        )  # fmt: skip
        await reply("done")

    async def _exec(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        def start(sandbox: Sandbox, hear: Hear) -> Awaitable[None]:
            return sandbox.run(
                request["argv"], cwd=request["cwd"], environment=request["environment"], stdin=payload,
                timeout_s=request["timeout_s"], hear=hear,
            )  # fmt: skip

        await self._command(request, (*request["argv"], request["cwd"], payload), start, reply)

    async def _shell(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        def start(sandbox: Sandbox, hear: Hear) -> Awaitable[None]:
            return sandbox.ask_shell(
                request["shell"], payload, environment=request["environment"], timeout_s=request["timeout_s"],
                hear=hear,
            )  # fmt: skip

        await self._command(request, (request["shell"], payload), start, reply)

    async def _screen(self, request: dict[str, Any], payload: bytes, reply: Reply) -> None:
        sandbox = self._find(request["sandbox"]).sandbox
        if "\0" in request["command"] or len(payload) > MAX_KEYS_BYTES:
            raise SandboxRefusedError(f"wanted a command without a NUL, and at most {MAX_KEYS_BYTES:,} bytes of keys")
        drawn, code, has_ended = await sandbox.ask_screen(
            request["command"], payload, environment=request["environment"]
        )  # fmt: skip
        await reply("done", drawn, code=code, has_ended=has_ended)

    async def _command(
        self,
        request: dict[str, Any],
        asked: tuple[Any, ...],
        start: Callable[[Sandbox, Hear], Awaitable[None]],
        reply: Reply,
    ) -> None:
        """Run it unless its key was here, and tell all of it as it comes."""
        held = self._find(request["sandbox"])
        key = request["key"]
        run = held.runs.get(key) if key else None
        if run is None:
            if key in held.forgotten:
                raise SandboxRefusedError(f"key {key}: it was asked before, and its answer is not kept any more")
            run = _Run(asked)
            if key:
                held.runs[key] = run
                self._forget_some(held)
            self._in_background(self._follow(run, start(held.sandbox, run.hear)))
        elif run.asked != asked:
            raise SandboxRefusedError(f"key {key}: another command was asked under it")
        place, told = 0, 0  # the piece that is being told, and how much of it was
        while True:
            changed = run.changed
            if place < len(run.pieces):
                stream, data = run.pieces[place]
                new = bytes(data[told:])
                if new:
                    told += len(new)
                    await reply("output", new, is_followed=bool(run.ended), stream=stream)
                    continue
                if place + 1 < len(run.pieces):
                    place, told = place + 1, 0
                    continue
            if run.error:
                raise run.error
            if run.ended:
                await reply("done", **vars(run.ended))
                return
            await changed.wait()

    async def _follow(self, run: _Run, doing: Awaitable[None]) -> None:
        try:
            await doing
        except SandboxError as error:
            run.error = error
        finally:
            if not run.ended:
                run.error = run.error or SandboxLostError("the host stopped")
                run.announce()

    def _forget_some(self, held: _Held) -> None:
        """The oldest answers of those that are over, beyond what is kept."""
        size = sum(run.size_bytes for run in held.runs.values())
        for key, run in list(held.runs.items()):
            if len(held.runs) <= KEPT_ANSWERS and size <= KEPT_BYTES:
                return
            if run.ended or run.error:
                size -= run.size_bytes
                del held.runs[key]
                held.forgotten.add(key)

    def _in_background(self, doing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(doing)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
