"""Limits of memory and processes for a whole sandbox, where they can be set: cgroups of version 1, 2, or both."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tentalis.sandbox.errors import SandboxUnavailableError
from tentalis.sandbox.limits import Limits

CONTROLLERS: Final = ("memory", "pids")
EMPTY_WITHIN_S: Final = 5.0
_LIMIT_FILES: Final = {
    (1, "memory"): ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
    (1, "pids"): ("pids.max",),
    (2, "memory"): ("memory.max",),
    (2, "pids"): ("pids.max",),
}
_USE_FILES: Final = {
    (1, "memory"): {"memory_bytes": "memory.usage_in_bytes", "memory_peak_bytes": "memory.max_usage_in_bytes"},
    (1, "pids"): {"processes": "pids.current"},
    (2, "memory"): {"memory_bytes": "memory.current", "memory_peak_bytes": "memory.peak"},
    (2, "pids"): {"processes": "pids.current"},
}
_KILL_FILES: Final = {1: "memory.oom_control", 2: "memory.events"}


@dataclass(frozen=True)
class Hierarchy:
    """One tree of groups: all of our own are under `root`."""

    version: int
    controllers: tuple[str, ...]
    root: Path


def find_hierarchies(
    name: str, *, mounts: Path = Path("/proc/self/mountinfo"), own: Path = Path("/proc/self/cgroup")
) -> list[Hierarchy]:
    """Make a group of this name beneath our own wherever a controller we want is and lets us; those trees."""
    found = []
    places = {
        parts[0]: parts[2].lstrip("/") for line in _lines(own) if len(parts := line.split(":", 2)) == 3
    }  # number: path
    by_controllers = {line.split(":", 2)[1]: path for line, path in zip(_lines(own), places.values(), strict=False)}
    for line in _lines(mounts):
        fields, _, tail = line.partition(" - ")
        kind, _, options = [*tail.split(" ", 2), "", ""][:3]
        point = Path(fields.split()[4])
        if kind == "cgroup":
            names = tuple(name for name in CONTROLLERS if name in options.split(","))
            path = next((path for key, path in by_controllers.items() if set(names) & set(key.split(","))), "")
        elif kind == "cgroup2":
            path = by_controllers.get("", "")
            names = ()
            with contextlib.suppress(OSError):
                there = (point / path / "cgroup.controllers").read_text(encoding="utf-8").split()
                names = tuple(name for name in CONTROLLERS if name in there)
        else:
            continue
        if not names:
            continue
        hierarchy = Hierarchy(1 if kind == "cgroup" else 2, names, point / path / name)
        if _prepare(hierarchy):
            found.append(hierarchy)
    return found


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _prepare(hierarchy: Hierarchy) -> bool:
    """Whether groups with limits can be made in it. In version 2 our own group must hand its controllers down, which it
    may only when no process is in it: we go into a group beside them."""
    root = hierarchy.root
    try:
        if hierarchy.version == 2:
            wanted = " ".join(f"+{name}" for name in hierarchy.controllers)
            try:
                (root.parent / "cgroup.subtree_control").write_text(wanted, encoding="utf-8")
            except OSError:
                host = root.parent / f"{root.name}-host"
                host.mkdir(exist_ok=True)
                (host / "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")
                (root.parent / "cgroup.subtree_control").write_text(wanted, encoding="utf-8")
            root.mkdir(exist_ok=True)
            (root / "cgroup.subtree_control").write_text(wanted, encoding="utf-8")
        root.mkdir(exist_ok=True)
        probe = root / "probe"
        probe.mkdir(exist_ok=True)
        is_good = all(
            os.access(probe / _LIMIT_FILES[hierarchy.version, name][0], os.W_OK) for name in hierarchy.controllers
        )
        probe.rmdir()
    except OSError:
        return False
    return is_good


def set_limits(hierarchies: Sequence[Hierarchy], name: str, limits: Limits) -> None:
    """Of a sandbox's group in each tree."""
    most = {"memory": limits.memory_bytes, "pids": limits.processes}
    for hierarchy in hierarchies:
        group = hierarchy.root / name
        try:
            for controller in hierarchy.controllers:
                for file in _LIMIT_FILES[hierarchy.version, controller]:
                    if (group / file).exists():  # swap is not counted everywhere
                        (group / file).write_text(str(most[controller]), encoding="utf-8")
            if hierarchy.version == 2 and (group / "memory.swap.max").exists():
                (group / "memory.swap.max").write_text("0", encoding="utf-8")
        except OSError as error:
            raise SandboxUnavailableError(f"{group}: no limit can be set: {error.strerror}") from None


def read_use(hierarchies: Sequence[Hierarchy], name: str) -> Mapping[str, int]:
    """What a sandbox uses, as far as its groups count it, and how many of its processes ended for want of memory."""
    use = {}
    for hierarchy in hierarchies:
        group = hierarchy.root / name
        for controller in hierarchy.controllers:
            for key, file in _USE_FILES[hierarchy.version, controller].items():
                with contextlib.suppress(OSError, ValueError):
                    use[key] = int((group / file).read_text(encoding="utf-8"))
        if "memory" in hierarchy.controllers:
            for line in _lines(group / _KILL_FILES[hierarchy.version]):
                if line.startswith("oom_kill "):
                    use["memory_kills"] = int(line.split()[1])
    return use


def remove_group(group: Path) -> None:
    """End whatever is in a group, and remove it.

    Raises:
        SandboxUnavailableError: something in it did not end.
    """
    deadline = time.monotonic() + EMPTY_WITHIN_S
    while group.exists():
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        for pid in _lines(group / "cgroup.procs"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(pid), signal.SIGKILL)
        if time.monotonic() > deadline:
            raise SandboxUnavailableError(f"{group}: a process in it does not end")
        time.sleep(0.002)


def sweep(roots: Sequence[Path]) -> int:
    """Remove every group under these, and themselves. Returns how many sandboxes' were left."""
    swept = 0
    for root in roots:
        for group in list(_groups(root)):
            remove_group(group)
            swept += 1
        remove_group(root)
    return swept


def _groups(root: Path) -> Iterator[Path]:
    if root.exists():
        yield from (entry for entry in root.iterdir() if entry.is_dir())
