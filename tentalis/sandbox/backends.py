"""What a host makes its sandboxes by, and how that is chosen."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tentalis.sandbox.embedded import Embedded
from tentalis.sandbox.errors import SandboxRefusedError, SandboxUnavailableError
from tentalis.sandbox.sandbox import Backend
from tentalis.sandbox.store import Store

WARM: Final = 4
BACKENDS: Final = ("embedded", "docker", "podman", "subprocess")
_SOCKETS: Final = {
    "docker": ("/var/run/docker.sock", "docker.sock"),
    "podman": ("/run/podman/podman.sock", "podman/podman.sock"),
}
"""Of a daemon: root's, and beneath /run/user/UID everybody else's own."""
TRUSTED_ONLY: Final = (
    "subprocess: holds nothing in, and is for trusted code only: wanted that said with --trusted-code "
    "(TENTALIS_SANDBOX_TRUSTED_CODE=true), found it unsaid"
)


@dataclass(frozen=True)
class Choice:
    """What a host is told of its backend.

    Args:
        warm: processes that are kept ready, where any can be.
        engine: the socket of the daemon of Docker or Podman; None: its usual place.
        is_code_trusted: somebody said so; without it nothing runs as a plain subprocess.
    """

    backend: str = "embedded"
    warm: int = WARM
    engine: Path | None = None
    is_code_trusted: bool = False

    def layers_owner(self) -> int | None:
        """Who must own what lies in the store, where that is not the host itself."""
        return Embedded.outer_user() if self.backend == "embedded" and os.geteuid() == 0 else None


def open_backend(choice: Choice, store: Store) -> Backend:
    """Raises:
    SandboxUnavailableError: it can hold nothing in here, or must not be used before somebody says so.
    SandboxRefusedError: there is none of that name.
    """
    if choice.backend == "embedded":
        return Embedded(store, warm=choice.warm)
    if choice.backend in _SOCKETS:
        from tentalis.sandbox.containers import Containers
        from tentalis.sandbox.engine import Engine

        return Containers(Engine(choice.engine or find_socket(choice.backend), choice.backend), store)
    if choice.backend == "subprocess":
        if not choice.is_code_trusted:
            raise SandboxUnavailableError(TRUSTED_ONLY)
        from tentalis.sandbox.plain import Plain

        return Plain(store)
    raise SandboxRefusedError(f"backend: wanted one of {', '.join(BACKENDS)}, found {choice.backend!r}")


def find_socket(backend: str) -> Path:
    """Where the daemon usually answers: root's for root and where there is no other, else our user's own."""
    roots, own = _SOCKETS[backend]
    mine = Path(f"/run/user/{os.geteuid()}") / own
    return mine if os.geteuid() and mine.exists() else Path(roots)
