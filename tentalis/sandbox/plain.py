"""Sandboxes that hold nothing in: directories and processes of this machine, for trusted code only.

What a sandbox promises and these do not: `LACKS`. What hangs on it is refused in words.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NoReturn

from tentalis.sandbox import kernel
from tentalis.sandbox.agent import ENVIRONMENT, OWN_DIRECTORIES, Agent
from tentalis.sandbox.confine import limit_resources
from tentalis.sandbox.copying import copy_tree
from tentalis.sandbox.errors import SandboxRefusedError
from tentalis.sandbox.limits import Limits
from tentalis.sandbox.sandbox import Sandbox
from tentalis.sandbox.store import Image, Store, remove_tree

LACKS: Final = {
    "isolation": "programs see and may change all that our user may: files, processes, sockets and the network",
    "paths": "/work and /tmp are directories of the sandbox for who asks the host; a program finds them by its "
    "working directory and TMPDIR",
    "processes": "are not limited",
    "disk_bytes": "is not limited",
    "files": "are not limited",
    "memory_bytes": "is limited for each process, not for all of a sandbox together",
    "allow": "has no proxy: its programs have all of the machine's network",
    "system": "an image with a /usr of its own cannot be run",
}
END_WITHIN_S: Final = 5.0
_UNLIMITED: Final = ("processes", "disk_bytes", "files")


class PlainAgent(Agent):
    """One among the processes of the machine: its sandbox's are those that come from it."""

    def __init__(self, control: socket.socket, root: Path, environment: Mapping[str, str]) -> None:
        super().__init__(control, environment)
        self._root = root

    def place(self, path: str) -> Path:
        found = super().place(path)
        for own in map(Path, OWN_DIRECTORIES):
            if found == own or own in found.parents:
                return self._root / found.relative_to("/")
        return found

    def others(self) -> Iterator[int]:
        parents: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError, IndexError, ValueError):
                    text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                    parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry.name))
        todo = [os.getpid()]
        while todo:
            for child in parents.get(todo.pop(), []):
                todo.append(child)
                yield child

    def signal_others(self, number: int) -> None:
        for pid in list(self.others()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def leave(self) -> NoReturn:
        """What loses its parent becomes our child: until there is none."""
        while found := list(self.others()):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        os._exit(0)


class _Process:
    """All processes of a sandbox: its agent, which takes the others along."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def kill(self) -> None:
        self._process.terminate()

    async def end(self) -> None:
        self.kill()
        try:
            await asyncio.to_thread(self._process.wait, END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)


class PlainSandbox(Sandbox):
    """One in a directory."""

    def __init__(self, backend: "Plain", image: Image, limits: Limits, process: _Process, root: Path) -> None:
        super().__init__(image, limits, process)
        self._backend = backend
        self._root = root

    @contextlib.asynccontextmanager
    async def _copied(self) -> AsyncIterator[Path]:
        """All that it has now, in a directory that is removed unless somebody moves it away."""
        place = self._backend.place()
        place.mkdir()
        try:
            async with self.stopped():
                await asyncio.to_thread(_copy, self._root, place)
            yield place
        finally:
            remove_tree(place)

    async def fork(self, name: str) -> Sandbox:
        async with self._copied() as place:
            return await self._backend.make(self.image, self.limits, name, files=place)

    async def keep(self, image_id: str) -> None:
        async with self._copied() as place:
            self._backend.store.keep_whole(image_id, place, self.image)

    async def read_use(self) -> dict[str, int]:
        return await asyncio.to_thread(self._count)

    def _count(self) -> dict[str, int]:
        found = [os.lstat(Path(top, name)) for top, below, files in os.walk(self._root) for name in (*below, *files)]
        return {"disk_bytes": sum(one.st_blocks * 512 for one in found), "files": len(found)}

    async def _destroy(self) -> None:
        await super()._destroy()
        await asyncio.to_thread(remove_tree, self._root)


class Plain:
    """What makes them."""

    name = "subprocess"
    warm = 0

    def __init__(self, store: Store) -> None:
        self.store = store
        self.swept = 0  # what a host before us left ended with it, and the store was cleared

    def keep_warm(self) -> None:
        """None waits: one is made in a moment."""

    def describe(self) -> dict[str, Any]:
        return {"backend": self.name, "lacks": LACKS, "cgroups": {}, "landlock": 0, "user": os.geteuid()}

    def place(self) -> Path:
        """A path in the store where nothing is yet."""
        return self.store.root / f"plain-{uuid.uuid4().hex}"

    async def make(
        self, image: Image, limits: Limits, name: str = "", *, shell: str = "", files: Path | None = None
    ) -> PlainSandbox:
        """A new one.

        Args:
            files: what it starts with; None: what its image has.
        """
        if image.has_system:
            raise SandboxRefusedError(f"{self.name}: {LACKS['system']}")
        if limits.allow:
            raise SandboxRefusedError(f"allow: {self.name} {LACKS['allow']}")
        usual = {field.name: field.default for field in fields(Limits)}
        for limit in _UNLIMITED:
            if getattr(limits, limit) != usual[limit]:
                raise SandboxRefusedError(
                    f"{limit}: wanted a limit, found the backend {self.name}: {limit} {LACKS[limit]}"
                )
        root = self.place()
        try:
            await asyncio.to_thread(self._fill, root, files or self.store.root / image.layers[0])
            ours, its = socket.socketpair()
            told = [str(its.fileno()), str(root), str(limits.memory_bytes)]
            process = subprocess.Popen(
                [sys.executable, "-I", "-m", "tentalis.sandbox.plain", *told],
                env={**ENVIRONMENT, "HOME": str(root / "work"), "TMPDIR": str(root / "tmp")}, pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            its.close()
        except BaseException:
            remove_tree(root)
            raise
        sandbox = PlainSandbox(self, image, limits, _Process(process), root)
        await sandbox.connect(ours)
        if shell:
            await sandbox.open_shell(shell)
        return sandbox

    def _fill(self, root: Path, files: Path) -> None:
        root.mkdir(mode=0o700)
        _copy(files, root)
        for own in OWN_DIRECTORIES:
            (root / own.lstrip("/")).mkdir(exist_ok=True)

    async def drop_layers(self, names: Sequence[str]) -> None:
        """Nothing but the store has anything of them."""

    async def close(self) -> None:
        """Each took its own along."""


def _copy(source: Path, target: Path) -> None:
    opened = [os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for place in (source, target)]
    try:
        copy_tree(opened[0], opened[1], owner=None, most_bytes=2**62, most_entries=2**31)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def main() -> None:
    """`python -m tentalis.sandbox.plain DESCRIPTOR ROOT MEMORY_BYTES`: the agent of one."""
    descriptor, root, memory_bytes = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    kernel.end_with_parent(signal.SIGTERM)
    kernel.adopt_orphans()
    limit_resources(Limits(memory_bytes=memory_bytes), counts_memory=False, has_own_user=False)
    os.set_inheritable(descriptor, False)
    agent = PlainAgent(socket.socket(fileno=descriptor), root, dict(os.environ))
    signal.signal(signal.SIGTERM, lambda *_: agent.leave())
    agent.run()


if __name__ == "__main__":
    main()
