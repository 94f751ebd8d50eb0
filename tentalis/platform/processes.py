"""Processes of this machine by number: which one is it, is it alive, wait until it is gone."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path

POLL_INTERVAL_S = 0.05
PR_SET_PDEATHSIG = 1


def process_name(pid: int) -> str:
    """The program's name, empty when no such process runs (one that ended and was not collected counts as gone)."""
    return _read_process(pid)[0]


def process_identity(pid: int) -> str:
    """A text that no later process with the same number has; empty when none runs."""
    name, started = _read_process(pid)
    return f"{pid}:{started}" if name else ""


def _read_process(pid: int) -> tuple[str, str]:
    """(program name, start time in the system's own unit), or two empty texts."""
    if sys.platform == "linux":
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "", ""
        name, _, rest = text.partition("(")[2].rpartition(")")
        columns = rest.split()
        return ("", "") if columns[0] in "ZX" else (name, columns[19])
    done = subprocess.run(
        ["ps", "-o", "stat=,lstart=,comm=", "-p", str(pid)], capture_output=True, text=True, check=False, timeout=10
    )
    columns = done.stdout.split()
    if len(columns) < 7 or columns[0].startswith("Z"):
        return "", ""
    return Path(columns[6]).name, "-".join(columns[1:6])


def is_same_process(identity: str) -> bool:
    """True when the process that had this identity still runs."""
    pid = identity.partition(":")[0]
    return pid.isdecimal() and process_identity(int(pid)) == identity


def wait_until_gone(identity: str, *, timeout_s: float) -> bool:
    """Wait for somebody else's process to end. False when it has not within that time."""
    deadline = time.monotonic() + timeout_s
    descriptor = None
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(int(identity.partition(":")[0]))
    try:
        while is_same_process(identity):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            if descriptor is not None:
                wait([descriptor], left_s)
            else:
                time.sleep(min(POLL_INTERVAL_S, left_s))
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return True


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a process and its group; nobody there is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel for this signal when what started us by `multiprocessing` dies, also by kill -9. Linux only; does
    nothing in a process that was not started so."""
    parent = multiprocessing.parent_process()
    if parent is None or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent.pid:  # it died before the kernel knew
        os._exit(1)


def die_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """What a child runs before its program starts so that it gets this signal when we die, also by kill -9.

    Linux only; elsewhere None, and the next start collects what was left.
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def ask_kernel() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # we died before the kernel knew
            os._exit(1)

    return ask_kernel
