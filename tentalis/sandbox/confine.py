"""How a process that was just forked becomes the first one of a sandbox. Called once, and never undone."""

import os
import resource
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tentalis.sandbox import kernel
from tentalis.sandbox.copying import copy_tree
from tentalis.sandbox.limits import LEFT_BEHIND, Limits, Wall

INNER_ID: Final = 1000
"""Everybody's user and group in a sandbox."""
DONE: Final = b"done"
HOSTNAME: Final = "sandbox"
PROXY_PORT: Final = 3128
"""Of a sandbox's own loopback, where it has an allow list."""
PROXY_ENVIRONMENT: Final = dict.fromkeys(("https_proxy", "HTTPS_PROXY"), f"http://127.0.0.1:{PROXY_PORT}")
MOUNT_POINT: Final = "mnt"
"""In the store: where every sandbox mounts its own tmpfs, seen by nobody else."""
MAX_DESCRIPTORS: Final = 1024
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_HIDDEN: Final = ("kcore", "keys", "timer_list", "sysrq-trigger", "kallsyms", "kmsg", "latency_stats", "sched_debug")
_BOUND: Final = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_NOSUID | kernel.MS_NODEV


@dataclass(frozen=True)
class Confinement:
    """What a sandbox is to be.

    Args:
        layers: directories of the store, the topmost first, that its root is laid over.
        has_system: the layers hold a /usr of their own; else the machine's is seen, read-only.
        counts_memory: a memory cgroup holds it; else each process is limited by itself.
        outer_id: the user and group it is outside.
        filters: BPF programs of `system_calls`; the last one only where the kernel takes no limits of what outlives its
            maker.
        filled_from: an open directory of what another sandbox has written, which it starts with.
    """

    layers: Sequence[str]
    has_system: bool
    limits: Limits
    walls: frozenset[Wall]
    counts_memory: bool
    outer_id: int
    filters: Sequence[bytes]
    filled_from: int | None


def namespaces(walls: frozenset[Wall]) -> int:
    """The flags of clone(2), without those that come later."""
    flags = {
        Wall.USER: kernel.CLONE_NEWUSER,
        Wall.ROOT: kernel.CLONE_NEWNS,
        Wall.PROCESSES: kernel.CLONE_NEWPID,
        Wall.NETWORK: kernel.CLONE_NEWNET,
        Wall.IPC: kernel.CLONE_NEWIPC,
        Wall.NAME: kernel.CLONE_NEWUTS,
    }
    return sum(flag for wall, flag in flags.items() if wall in walls)


def confine(asked: Confinement, answer: socket.socket, kept: Sequence[int]) -> socket.socket | None:
    """Put up the walls around this process; the directory of what it writes goes to whoever waits for `answer`.

    Args:
        kept: descriptors that stay open.

    Returns:
        Where its programs ask to be let out, for whoever may let them: it listens, and nobody answers yet.
    """
    walls = asked.walls
    if Wall.DESCRIPTORS in walls:
        close_others(kept)
    own_id = INNER_ID if Wall.USER in walls else asked.outer_id
    way_out = None
    leaves_little = Wall.IPC not in walls or _limit_what_stays()
    if Wall.USER in walls:
        _become(own_id)
    kernel.end_with_parent(signal.SIGKILL)
    if Wall.CGROUP in walls:
        kernel.unshare(kernel.CLONE_NEWCGROUP)  # only now: its root is the group we are in
    if Wall.ROOT in walls:
        _build_root(asked, own_id, answer)
    else:
        answer.send(DONE)
    if Wall.NAME in walls:
        kernel.set_hostname(HOSTNAME)
    if Wall.NETWORK in walls:
        kernel.raise_loopback()
        if asked.limits.allow:
            way_out = socket.create_server(("127.0.0.1", PROXY_PORT))
    if {Wall.NO_NESTING, Wall.USER, Wall.ROOT} <= walls:
        nesting = os.open("/proc/sys/user/max_user_namespaces", os.O_WRONLY | os.O_CLOEXEC)
        os.write(nesting, b"0")
        os.close(nesting)
    if Wall.RESOURCES in walls:
        limit_resources(asked.limits, counts_memory=asked.counts_memory)
    if Wall.NO_NEW_PRIVILEGES in walls:
        kernel.forbid_new_privileges()
    if Wall.LANDLOCK in walls and (version := kernel.landlock_version()):
        kernel.keep_beneath("/", version)
    if Wall.FILTER in walls:
        for program in asked.filters[:-1] if leaves_little else asked.filters:
            kernel.install_filter(program)
    if Wall.CAPABILITIES in walls:
        if Wall.USER not in walls:
            _become(own_id)
            kernel.end_with_parent(signal.SIGKILL)
        kernel.drop_capabilities()
    kernel.set_open_to_own_user(Wall.SEALED_AGENT not in walls)
    return way_out


def _limit_what_stays() -> bool:
    """Of System V's memory, queues and semaphores, which outlive who made them, little: memory that nobody is attached
    to goes with the last one, so that whoever is ended for want of memory leaves none full. False where the kernel lets
    nobody but root say so."""
    try:
        for name, value in LEFT_BEHIND.items():
            descriptor = os.open(f"/proc/sys/kernel/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, value.encode())
            finally:
                os.close(descriptor)
    except OSError:
        return False
    return True


def close_others(kept: Sequence[int]) -> None:
    """Close every descriptor but these; the standard ones lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    start = 3
    for number in sorted(kept):
        os.closerange(start, number)
        start = number + 1
    os.closerange(start, MAX_DESCRIPTORS * 64)


def _become(own_id: int) -> None:
    os.setresgid(own_id, own_id, own_id)
    os.setresuid(own_id, own_id, own_id)


def _build_root(asked: Confinement, own_id: int, answer: socket.socket) -> None:
    """Lay a root over the layers, on a tmpfs of its own, and enter it."""
    never = kernel.MS_NODEV | (kernel.MS_NOSUID if Wall.NO_SETUID in asked.walls else 0)
    kernel.mount("", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    size = f"size={asked.limits.disk_bytes},nr_inodes={asked.limits.files}"
    kernel.mount("tmpfs", MOUNT_POINT, "tmpfs", never, f"{size},mode=700,uid={own_id},gid={own_id}")
    upper, work, root = (f"{MOUNT_POINT}/{name}" for name in ("upper", "work", "root"))
    for directory in (upper, work, root):
        Path(directory).mkdir(mode=0o755)
        os.chown(directory, own_id, own_id)
    written = os.open(upper, os.O_RDONLY | os.O_DIRECTORY)
    socket.send_fds(answer, [DONE], [written])
    if asked.filled_from is not None:  # by who has every right to the sandbox's files, and to no others
        copy_tree(
            asked.filled_from, written, owner=None,
            most_bytes=asked.limits.disk_bytes, most_entries=asked.limits.files,
        )  # fmt: skip
        os.close(asked.filled_from)
    os.close(written)
    layers = ":".join(asked.layers)
    kernel.mount("overlay", root, "overlay", never, f"lowerdir={layers},upperdir={upper},workdir={work},userxattr")
    if not asked.has_system:
        kernel.mount("/usr", f"{root}/usr", flags=kernel.MS_BIND | kernel.MS_REC)
        kernel.mount("", f"{root}/usr", flags=_BOUND | kernel.MS_RDONLY)
    if Wall.PROCESSES in asked.walls:
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        kernel.mount("proc", f"{root}/proc", "proc", flags)
        for name in _HIDDEN:
            if Path(f"{root}/proc/{name}").exists():
                kernel.mount("/dev/null", f"{root}/proc/{name}", flags=kernel.MS_BIND)
    else:
        kernel.mount("/proc", f"{root}/proc", flags=kernel.MS_BIND | kernel.MS_REC)
    kernel.mount(
        "devpts",
        f"{root}/dev/pts",
        "devpts",
        kernel.MS_NOSUID | kernel.MS_NOEXEC,
        "newinstance,ptmxmode=0666,mode=0620",
    )
    for name in _DEVICES:
        kernel.mount(f"/dev/{name}", f"{root}/dev/{name}", flags=kernel.MS_BIND)
    kernel.enter_root(root)


def limit_resources(limits: Limits, *, counts_memory: bool, has_own_user: bool = True) -> None:
    """Of this process and of each that it starts.

    Args:
        has_own_user: the kernel counts the processes of its user here apart from all others.
    """
    hard = {
        resource.RLIMIT_NOFILE: MAX_DESCRIPTORS,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 2**16,
        resource.RLIMIT_MSGQUEUE: 2**18,
    }
    if has_own_user:
        hard[resource.RLIMIT_NPROC] = limits.processes
    if not counts_memory:
        hard[resource.RLIMIT_AS] = limits.memory_bytes
    for which, most in hard.items():
        resource.setrlimit(which, (most, most))
