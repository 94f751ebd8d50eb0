"""What one sandbox may take of the machine, and what holds it in."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from tentalis.sandbox.errors import SandboxRefusedError

_RANGES: Final = {
    "memory_bytes": (16 * 2**20, 2**40),
    "processes": (4, 10_000),
    "disk_bytes": (2**20, 2**40),
    "files": (256, 10_000_000),
    "output_bytes": (0, 8 * 2**20),
    "lifetime_s": (1, 7 * 86_400),
    "network_bytes": (0, 2**40),
    "connections": (1, 256),
}
LEFT_BEHIND: Final = {"shm_rmid_forced": "1", "msgmni": "16", "sem": "250 32000 32 128"}
"""Of a sandbox's own IPC namespace, by the names in /proc/sys/kernel: memory that nobody is attached to is free; 16
queues; 128 sets of 250 semaphores."""
MAX_ALLOWED: Final = 64
MAX_PLACE_CHARS: Final = 260


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one sandbox may take.

    Args:
        memory_bytes: of all its processes and files together where a memory cgroup can be had; else of each process.
        processes: at the same time, the agent in it included.
        disk_bytes, files: that it may write beside its image.
        output_bytes: of each stream of one command that are kept; what is beyond is read and dropped.
        lifetime_s: from its making to its end, whatever runs.
        allow: host:port that a proxy lets it out to; without one there is no network. Of a name only public addresses
            are connected to; a private one is listed by its address.
        network_bytes: in both directions together.
        connections: to the proxy, at the same time.
    """

    memory_bytes: int = 512 * 2**20
    processes: int = 64
    disk_bytes: int = 64 * 2**20
    files: int = 20_000
    output_bytes: int = 2**20
    lifetime_s: float = 1_800.0
    allow: tuple[str, ...] = ()
    network_bytes: int = 256 * 2**20
    connections: int = 16

    def __post_init__(self) -> None:
        places: Any = self.allow
        is_good = isinstance(places, tuple) and len(places) <= MAX_ALLOWED
        if not is_good or not all(isinstance(place, str) and 0 < len(place) <= MAX_PLACE_CHARS for place in places):
            raise SandboxRefusedError(f"allow: wanted at most {MAX_ALLOWED} of host:port, found {str(places)[:80]}")
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
                raise SandboxRefusedError(f"{name}: wanted a number from {least:,} to {most:,}, found {value!r}")

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Limits":
        names = [field.name for field in fields(cls)]
        if unknown := sorted(set(given) - set(names)):
            raise SandboxRefusedError(f"wanted limits of {', '.join(names)}, found {', '.join(unknown)}")
        listed = given.get("allow")
        return cls(**{**given, "allow": tuple(listed)} if isinstance(listed, list) else given)


class Wall(StrEnum):
    """Everything that holds a sandbox in. A host always puts up all of them; only who tries to break out leaves one
    away, to see that it would be possible then."""

    USER = "user namespace"
    ROOT = "root of its own"
    PROCESSES = "process namespace"
    NETWORK = "network namespace"
    IPC = "ipc namespace"
    NAME = "uts namespace"
    CGROUP = "cgroup namespace"
    NO_NESTING = "no nested user namespace"
    CAPABILITIES = "no capabilities"
    NO_NEW_PRIVILEGES = "no new privileges"
    NO_SETUID = "no setuid files"
    FILTER = "system call filter"
    LANDLOCK = "Landlock"
    SEALED_AGENT = "sealed agent"
    DESCRIPTORS = "closed descriptors"
    ENVIRONMENT = "environment of its own"
    RESOURCES = "rlimits"
    REAPING = "reaping"


ALL_WALLS: Final = frozenset(Wall)
