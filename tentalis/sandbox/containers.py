"""Sandboxes by Docker or Podman: containers without a network, a right or a root to write to, our agent in each.

A container's root is read-only: an image is laid over it where the daemon keeps its images. What a sandbox may write is
two sized file systems in memory, /work and /tmp; a snapshot is what lies in them.
"""

import asyncio
import contextlib
import hashlib
import io
import json
import os
import tarfile
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

from tentalis.sandbox.agent import ENVIRONMENT, OWN_DIRECTORIES
from tentalis.sandbox.confine import HOSTNAME, INNER_ID
from tentalis.sandbox.contained import ROOT, START
from tentalis.sandbox.embedded import OUTER_ID
from tentalis.sandbox.engine import MAX_WORDS_CHARS, Engine, EngineError
from tentalis.sandbox.errors import SandboxError, SandboxLostError, SandboxRefusedError, SandboxUnavailableError
from tentalis.sandbox.limits import LEFT_BEHIND, Limits
from tentalis.sandbox.packing import ENTRY_COSTS_BYTES, PIECE_BYTES
from tentalis.sandbox.sandbox import Sandbox
from tentalis.sandbox.store import SKELETON, Image, Store
from tentalis.sandbox.system_calls import compile_filters, compile_outliving_filter

LABEL: Final = "tentalis.sandbox.host"
_NO_WAY_OUT: Final = "has no proxy: its sandboxes have no network at all"
LACKS: Final = {
    "docker": {
        "disk_bytes": "and files are limited in /work and in /tmp, each by itself; nothing else is written",
        "allow": _NO_WAY_OUT,
    },
    "podman": {
        "allow": _NO_WAY_OUT,
        "disk_bytes": "is limited in /work and in /tmp, each by itself; /var/tmp only by the memory",
        "files": "are limited by the memory that they take alone: it gives a tmpfs no such limit",
    },
}
"""Of what `Limits` promises."""
OWN_ROOTS: Final = frozenset({"name=rootless", "name=userns"})
"""What a daemon says of itself whose containers' root is not the machine's: kernels may refuse it limits of what stays
behind (`LEFT_BEHIND`), and a container that is to have them would not start."""
BEGIN_WITHIN_S: Final = 60.0
GONE_WITHIN_S: Final = 30.0
_NOT_IN_IMAGES: Final = ("dev", "proc")
"""Of a root: the daemon brings its own."""


class Container:
    """All processes of a sandbox: the container that they are in."""

    def __init__(self, engine: Engine, identity: str) -> None:
        self._engine = engine
        self.identity = identity
        self._killing: asyncio.Task[Any] | None = None

    def kill(self) -> None:
        async def kill() -> None:
            with contextlib.suppress(SandboxError):  # it is over, or its end will say why not
                await self._engine.ask_later("POST", f"/containers/{self.identity}/kill")

        self._killing = asyncio.create_task(kill())

    async def end(self) -> None:
        deadline = asyncio.get_running_loop().time() + GONE_WITHIN_S
        while True:
            try:
                await self._engine.ask_later(
                    "DELETE", f"/containers/{self.identity}", query={"force": "true", "v": "true"}
                )
            except EngineError as error:
                if error.status == 404:
                    return
                if asyncio.get_running_loop().time() > deadline:
                    raise SandboxUnavailableError(f"{self.identity[:12]} is not removed: {error}") from None
                await asyncio.sleep(0.05)  # somebody else removes it


class ContainedSandbox(Sandbox):
    """One in a container."""

    def __init__(self, backend: "Containers", image: Image, limits: Limits, container: Container) -> None:
        super().__init__(image, limits, container)
        self._backend = backend
        self._container = container

    async def begin(self, filters: Sequence[bytes], packed: IO[bytes] | None) -> None:
        """Let its agent put up its walls, and fill what is its own.

        Args:
            packed: what it is filled with; None: what the image has there.
        """
        order = {"do": "begin", "limits": vars(self.limits), "filters": [len(one) for one in filters]}
        await self.ask({**order, "is_filled": packed is not None}, b"".join(filters), answer_within_s=BEGIN_WITHIN_S)
        while packed and (piece := packed.read(PIECE_BYTES)):
            await self.ask({"do": "load"}, piece)

    async def fork(self, name: str) -> Sandbox:
        with tempfile.TemporaryFile(dir=self._backend.store.root) as packed:
            await self._save(packed)
            packed.seek(0)
            return await self._backend.make(self.image, self.limits, name, packed=packed)

    async def keep(self, image_id: str) -> None:
        place = self._backend.store.root / f"packed-{uuid.uuid4().hex}"
        try:
            with place.open("wb") as packed:
                await self._save(packed)
            self._backend.store.keep_whole(image_id, place, self.image)
        finally:
            place.unlink(missing_ok=True)

    async def _save(self, packed: IO[bytes]) -> None:
        limits = self.limits
        most_bytes = len(OWN_DIRECTORIES) * (limits.disk_bytes + limits.files * ENTRY_COSTS_BYTES)
        async with self.stopped():
            async for piece in self.ask_for_much({"do": "save"}, most_bytes=most_bytes):
                packed.write(piece)

    async def read_use(self) -> dict[str, int]:
        told, _ = await self.ask({"do": "use"})
        use = {name: told[name] for name in ("disk_bytes", "files") if isinstance(told.get(name), int)}
        query = {"stream": "false", "one-shot": "true"}
        found = await self._backend.engine.ask_later(
            "GET", f"/containers/{self._container.identity}/stats", query=query
        )
        memory = found.get("memory_stats") or {}
        counted = {
            "processes": (found.get("pids_stats") or {}).get("current"),
            "memory_bytes": memory.get("usage"),
            "memory_peak_bytes": memory.get("max_usage"),
        }
        return use | {name: value for name, value in counted.items() if isinstance(value, int)}


class Containers:
    """What makes them, by the daemon at a socket."""

    warm = 0

    def __init__(self, engine: Engine, store: Store) -> None:
        self.engine = engine
        self.name = engine.name
        self.store = store
        self._host = hashlib.sha256(str(store.root).encode()).hexdigest()[:16]
        self._info = engine.ask("GET", "/info")
        if not (self._info.get("MemoryLimit") and self._info.get("PidsLimit")):
            raise SandboxUnavailableError(
                f"wanted a {self.name} that limits memory and processes, found one that does not"
            )
        self._may_limit = OWN_ROOTS.isdisjoint(self._info.get("SecurityOptions") or ())
        self._filters: Sequence[bytes] = ()
        with contextlib.suppress(SandboxUnavailableError):  # the daemon's own filter is there without us
            self._filters = [*compile_filters(), *(() if self._may_limit else (compile_outliving_filter(),))]
        self.swept = self._sweep()
        self._importing: dict[str, asyncio.Task[str]] = {}

    def _sweep(self) -> int:
        """Remove the containers and images that a host before us left. Returns how many containers that were."""
        query = {"all": "true", "filters": json.dumps({"label": [f"{LABEL}={self._host}"]})}
        left = self.engine.ask("GET", "/containers/json", query=query) or []
        for container in left:
            with contextlib.suppress(EngineError):  # it removes itself at the same time
                self.engine.ask("DELETE", f"/containers/{container['Id']}", query={"force": "true", "v": "true"})
        for image in self.engine.ask("GET", "/images/json", query=query) or []:
            with contextlib.suppress(EngineError):
                self.engine.ask("DELETE", f"/images/{image['Id']}", query={"force": "true"})
        return len(left)

    def keep_warm(self) -> None:
        """A container is of one image and of limits that it was made with: none waits."""

    def describe(self) -> dict[str, Any]:
        return {
            "backend": self.name,
            "version": str(self._info.get("ServerVersion")),
            "lacks": LACKS[self.name],
            "cgroups": dict.fromkeys(("memory", "pids"), str(self._info.get("CgroupVersion", "")).lstrip("v")),
            "landlock": 0,
            "user": OUTER_ID,
        }

    async def make(
        self, image: Image, limits: Limits, name: str = "", *, shell: str = "", packed: IO[bytes] | None = None
    ) -> ContainedSandbox:
        """A new one.

        Args:
            packed: what is laid into its own directories instead of what the image has there.
        """
        if limits.allow:
            raise SandboxRefusedError(f"allow: {self.name} {LACKS[self.name]['allow']}")
        reference = await self._import(image)
        order = self._order(reference, limits, has_system=image.has_system)
        unique = f"tentalis-{self._host}-{uuid.uuid4().hex[:12]}"
        try:
            made = await self.engine.ask_later("POST", "/containers/create", query={"name": unique}, body=order)
            container = Container(self.engine, made["Id"])
            try:
                await self.engine.ask_later("POST", f"/containers/{container.identity}/start")
                sandbox = ContainedSandbox(self, image, limits, container)
                sandbox.talk(*await self.engine.attach(container.identity))  # its agent says nothing before it is asked
                with contextlib.ExitStack() as stack:
                    if packed is None and len(image.layers) > 1:
                        packed = stack.enter_context((self.store.root / image.layers[0]).open("rb"))
                    await sandbox.begin(self._filters, packed)
                if shell:
                    await sandbox.open_shell(shell)
            except BaseException:
                await container.end()
                raise
        except EngineError as error:
            raise SandboxUnavailableError(f"no sandbox can be made: {error}") from None
        except SandboxLostError as error:
            raise SandboxUnavailableError(
                f"no sandbox can be made: {error} (wanted python3 of 3.11 or later in it)"
            ) from None
        return sandbox

    def _order(self, reference: str, limits: Limits, *, has_system: bool) -> dict[str, Any]:
        """What the daemon is asked for. Docker Engine API, ContainerCreate."""
        return {
            "Image": reference,
            "Entrypoint": list(START),
            "Cmd": [],
            "User": f"{OUTER_ID}:{OUTER_ID}",
            "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
            "WorkingDir": "/",
            "Hostname": HOSTNAME,
            "Labels": {LABEL: self._host},
            "OpenStdin": True,
            "StdinOnce": True,  # who is gone takes its containers along
            "AttachStdin": True,
            "AttachStdout": True,
            "Tty": False,
            "NetworkDisabled": True,
            "HostConfig": {
                "AutoRemove": True,
                "NetworkMode": "none",
                "IpcMode": "private",
                "CgroupnsMode": "private",
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "Privileged": False,
                "Init": False,
                "Memory": limits.memory_bytes,
                "MemorySwap": limits.memory_bytes,
                "PidsLimit": limits.processes,
                "ShmSize": limits.disk_bytes,
                "Sysctls": {f"kernel.{name}": value for name, value in LEFT_BEHIND.items() if self._may_limit},
                "Tmpfs": dict.fromkeys(OWN_DIRECTORIES, self._file_system(limits)),
                "LogConfig": {"Type": "none"},  # what its agent answers is nobody else's
                "Binds": [] if has_system else ["/usr:/usr:ro"],
            },
        }

    def _file_system(self, limits: Limits) -> str:
        """Podman knows fewer options of a tmpfs, and copies into it what it covers unless told not to."""
        size = f"rw,exec,nosuid,nodev,size={limits.disk_bytes}"
        if self.name == "podman":
            return f"{size},mode=1777,notmpcopyup"
        return f"{size},nr_inodes={limits.files},mode=1777"

    async def _import(self, image: Image) -> str:
        """The daemon's name for an image's directory, which it is handed once."""
        layer = image.layers[-1]
        if layer not in self._importing:
            self._importing[layer] = asyncio.create_task(asyncio.to_thread(self._hand_over, layer))
        try:
            return await asyncio.shield(self._importing[layer])
        except SandboxError:
            self._importing.pop(layer, None)
            raise

    def _hand_over(self, layer: str) -> str:
        with tempfile.TemporaryFile(dir=self.store.root) as archive:
            write_root(archive, self.store.root / SKELETON, self.store.root / layer)
            archive.seek(0)
            query = {"fromSrc": "-", "changes": f"LABEL {LABEL}={self._host}"}
            told = self.engine.ask("POST", "/images/create", query=query, body=archive)
        last = told[-1] if isinstance(told, list) and told else told
        if not isinstance(last, dict) or not str(last.get("status", "")).startswith("sha256:"):
            raise SandboxRefusedError(f"{self.name} does not take the image: {last}"[:MAX_WORDS_CHARS])
        return str(last["status"])

    async def drop_layers(self, names: Sequence[str]) -> None:
        for layer in names:
            if importing := self._importing.pop(layer, None):
                with contextlib.suppress(EngineError):  # what is gone is fine
                    await self.engine.ask_later("DELETE", f"/images/{await importing}", query={"force": "true"})

    async def close(self) -> None:
        await asyncio.to_thread(self._sweep)


def write_root(archive: IO[bytes], skeleton: Path, layer: Path) -> None:
    """A container's root as an archive: a system's skeleton, our sources, and the image, whose own directories lie
    aside to be copied from. What the image has counts, wherever the skeleton has it too."""
    found: dict[str, Path | bytes | None] = {}
    for path in _walk(skeleton):
        below = path.relative_to(skeleton)
        if len(below.parts) == 1 or below.parts[0] not in _NOT_IN_IMAGES:
            found[below.as_posix()] = path
    for name in ("etc/passwd", "etc/group"):
        text = (skeleton / name).read_text(encoding="utf-8")
        found[name] = text.replace(f":{INNER_ID}:", f":{OUTER_ID}:").encode()
    found[ROOT.lstrip("/")] = None
    for source in sorted(Path(__file__).parent.glob("*.py")):
        found[f"{ROOT}/tentalis/sandbox/{source.name}".lstrip("/")] = source.read_bytes()
    own = {Path(directory).name for directory in OWN_DIRECTORIES}
    for path in _walk(layer):
        below = path.relative_to(layer)
        if below.parts[0] in own:
            found[f"{ROOT}/{below.as_posix()}".lstrip("/")] = path
        elif len(below.parts) == 1 or below.parts[0] not in _NOT_IN_IMAGES:
            found[below.as_posix()] = path
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in found.items():
            _add(tar, name, content)


def _walk(top: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(top):
        names.sort()
        yield from (Path(directory) / name for name in sorted([*names, *files]))


def _add(tar: tarfile.TarFile, name: str, content: Path | bytes | None) -> None:
    """A file of the machine, a text, or a directory."""
    if isinstance(content, Path):
        told = tar.gettarinfo(str(content), arcname=name)
        if told is None:  # a socket
            return
    else:
        told = tarfile.TarInfo(name)
        told.type, told.mode = (tarfile.DIRTYPE, 0o755) if content is None else (tarfile.REGTYPE, 0o644)
        told.size = len(content or b"")
    if f"/{name}" in OWN_DIRECTORIES:
        told.mode = 0o1777  # what is mounted there is given the mode of what it covers, and is root's
    told.uid = told.gid = OUTER_ID
    told.uname = told.gname = ""
    if isinstance(content, Path) and told.isreg():
        with content.open("rb") as stream:
            tar.addfile(told, stream)
    else:
        tar.addfile(told, io.BytesIO(content) if isinstance(content, bytes) else None)
