"""Sandboxes by this machine's own kernel: steered through their agents, ended from outside."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

from tentalis.sandbox import cgroups, kernel
from tentalis.sandbox.blanks import Blank, Blanks
from tentalis.sandbox.errors import SandboxRefusedError
from tentalis.sandbox.limits import ALL_WALLS, Limits, Wall
from tentalis.sandbox.prepared import Prepared
from tentalis.sandbox.sandbox import Sandbox
from tentalis.sandbox.store import SKELETON, Image, Store
from tentalis.sandbox.system_calls import compile_filters, compile_outliving_filter
from tentalis.sandbox.ways_out import WaysOut

OUTER_ID: Final = 60_910
"""The user and group that sandboxes are when the host is root: in nobody's range (systemd.io/UIDS-GIDS)."""


class EmbeddedSandbox(Sandbox):
    """One whose files the host sees too: what it has written is an open directory."""

    def __init__(
        self,
        backend: "Embedded",
        image: Image,
        limits: Limits,
        blank: Blank,
        *,
        written: int | None,
        lifeline: socket.socket | None,
    ) -> None:
        """Args:
        written: the directory of what it has written.
        lifeline: while it is open, the proxy lets it out.
        """
        super().__init__(image, limits, blank)
        self._backend = backend
        self._blank_name = blank.name
        self._written = written
        self._lifeline = lifeline

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[int]:
        """While nothing in it moves: the directory of what it has written over its image."""
        if self._written is None:
            raise SandboxRefusedError("wanted a sandbox with a root of its own, found one without")
        async with self.stopped():
            held = os.dup(self._written)  # who copies it may be at it longer than the sandbox lives
            try:
                yield held
            finally:
                os.close(held)

    async def fork(self, name: str) -> "EmbeddedSandbox":
        async with self.paused() as written:
            return await self._backend.make(self.image, self.limits, name, written=written)

    async def keep(self, image_id: str) -> None:
        async with self.paused() as written:
            await asyncio.to_thread(
                self._backend.store.keep, image_id, written, self.image,
                most_bytes=self.limits.disk_bytes, most_entries=self.limits.files,
            )  # fmt: skip

    async def read_use(self) -> dict[str, int]:
        use = dict(cgroups.read_use(self._backend.hierarchies, self._blank_name))
        if self._written is not None:
            found = os.fstatvfs(self._written)
            use["disk_bytes"] = (found.f_blocks - found.f_bfree) * found.f_frsize
            use["files"] = found.f_files - found.f_ffree
        return use

    async def _destroy(self) -> None:
        if self._lifeline:
            self._lifeline.close()
        await super()._destroy()
        if self._written is not None:
            os.close(self._written)


class Embedded:
    """What makes them."""

    name = "embedded"

    def __init__(self, store: Store, *, warm: int = 0, counts: bool = True) -> None:
        """Args:
        warm: how many processes are kept ready to become sandboxes.
        counts: by cgroups, where they can be had.
        """
        filters = [*compile_filters(), compile_outliving_filter()]
        self.store = store
        self.outer_id = self.outer_user()
        self._swept_file = store.root.parent / f"{store.root.name}.cgroups"
        self.swept = self._sweep()
        place = store.root.stat()  # two disks may give two hosts' stores one number
        groups_name = f"tentalis-sandboxes-{place.st_dev:x}-{place.st_ino}"
        self.hierarchies = cgroups.find_hierarchies(groups_name) if counts else []
        self._swept_file.write_text("\n".join(str(tree.root) for tree in self.hierarchies), encoding="utf-8")
        if os.geteuid() == 0:
            os.setgroups([])
        self._ways_out = WaysOut(store.root.parent)
        self._blanks = Blanks(store.root, self.outer_id, filters, self.hierarchies, warm)
        self._prepared = Prepared(self._make, warm)

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
        landlock = kernel.landlock_version()
        return {
            "backend": self.name, "lacks": {}, "landlock": landlock, "cgroups": counted, "user": self.outer_id,
            "prepared": self._prepared.ready,
        }  # fmt: skip

    async def make(
        self,
        image: Image,
        limits: Limits,
        name: str = "",
        *,
        shell: str = "",
        walls: frozenset[Wall] = ALL_WALLS,
        written: int | None = None,
    ) -> EmbeddedSandbox:
        """A new one, with nothing running in it but, where one is named, a shell.

        Args:
            written: the directory of what another of this image has written: it starts with a copy.

        Raises:
            SandboxUnavailableError: the kernel, or who we are here, does not allow it.
        """
        is_usual = walls == ALL_WALLS and written is None and not limits.allow
        found = self._prepared.take(image, limits, shell) if is_usual else None
        return found or await self._make(image, limits, shell, name, walls=walls, written=written)

    async def _make(
        self,
        image: Image,
        limits: Limits,
        shell: str,
        name: str = "",
        *,
        walls: frozenset[Wall] = ALL_WALLS,
        written: int | None = None,
    ) -> EmbeddedSandbox:
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
            its_written, way_out = await blank.become(order, handed)
            lifeline = await self._ways_out.open(name, limits, way_out) if way_out is not None else None
        except BaseException:
            ours.close()
            await blank.end()
            raise
        finally:
            its.close()
        sandbox = EmbeddedSandbox(self, image, limits, blank, written=its_written, lifeline=lifeline)
        await sandbox.connect(ours)
        if shell:
            await sandbox.open_shell(shell)
        return sandbox

    async def drop_layers(self, names: Sequence[str]) -> None:
        await self._prepared.drop(names)

    async def close(self) -> None:
        """When the last sandbox is gone: end what waits, and leave no group."""
        await self._prepared.drop()
        await self._ways_out.close()
        await self._blanks.close()
        cgroups.sweep([tree.root for tree in self.hierarchies])
        self._swept_file.unlink(missing_ok=True)
