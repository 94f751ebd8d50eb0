"""One supervisor for one home: the lock, and what a supervisor that died left behind."""

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator

from tentalis.platform.errors import AlreadyRunningError, HomeError
from tentalis.platform.home import Home
from tentalis.platform.processes import signal_group, wait_until_gone
from tentalis.platform.state import read_last_state

LEFTOVER_TIMEOUT_S = 10.0


@contextlib.contextmanager
def hold_home(home: Home) -> Iterator[None]:
    """Be the only supervisor of a home. The kernel gives the lock back when we die, however we die.

    Raises:
        AlreadyRunningError: another one holds it.
    """
    try:
        descriptor = os.open(home.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HomeError(f"{home.lock_file} cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunningError(f"already running on {home.root}; `tentalis status` shows it") from None
        yield
    finally:
        os.close(descriptor)


def stop_leftovers(home: Home) -> list[str]:
    """End what a dead supervisor left behind and return its names. Call it while holding the home.

    On Linux the kernel has done it already, at most moments ago; elsewhere this is who does it.
    """
    state = read_last_state(home)
    names = []
    for row in reversed(state.services if state else ()):
        if row.pid is None or wait_until_gone(row.identity, timeout_s=0):
            continue
        names.append(row.name)
        signal_group(row.pid, signal.SIGINT if row.name == "postgres" else signal.SIGTERM)
        if not wait_until_gone(row.identity, timeout_s=LEFTOVER_TIMEOUT_S):
            signal_group(row.pid, signal.SIGKILL)
            wait_until_gone(row.identity, timeout_s=LEFTOVER_TIMEOUT_S)
    home.state_file.unlink(missing_ok=True)
    return names
