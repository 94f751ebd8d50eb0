"""An image that many sandboxes start from, kept by whatever host is asked."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from tentalis.sandbox.client import SandboxClient
from tentalis.sandbox.errors import SandboxLostError, SandboxRefusedError


class KeptImage:
    """An image that is laid out when a host is first asked for a sandbox of it, and again for a host that was started
    anew and knows it no more. Threads may share it: one that is being laid out is waited for.

    Args:
        lay: lays its files out in an empty directory.
    """

    def __init__(self, lay: Callable[[Path], None]) -> None:
        self._lay = lay
        self._lock = Lock()
        self._id = ""

    @contextlib.contextmanager
    def open(self, client: SandboxClient, *, limits: Mapping[str, Any]) -> Iterator[str]:
        """A sandbox of it, by its name, destroyed at the end. One that is gone by then is fine: what came of it stays.

        Raises:
            SandboxError: it cannot be made. Whatever laying the image out raises.
        """
        name = self.create(client, limits=limits)
        try:
            yield name
        finally:
            with contextlib.suppress(SandboxLostError):
                client.destroy(name)

    def create(self, client: SandboxClient, *, limits: Mapping[str, Any]) -> str:
        """A sandbox of it that lasts until somebody destroys it. Raises as `open`."""
        image = self._add(client)
        try:
            return client.create(image, limits=limits)
        except SandboxRefusedError:  # of another host, which knows no image of ours yet
            return client.create(self._add(client, instead_of=image), limits=limits)

    def _add(self, client: SandboxClient, *, instead_of: str = "") -> str:
        with self._lock:
            if self._id == instead_of:
                with client.stage() as root:
                    self._lay(root)
                    self._id = client.add_image(root)
            return self._id
