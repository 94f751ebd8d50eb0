"""state.json: what the supervisor says about its services, for every other process to read."""

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from tentalis.platform.errors import HomeError, NotRunningError, StartError, UnknownServiceError
from tentalis.platform.home import Home, write_private_file
from tentalis.platform.processes import is_same_process

POLL_INTERVAL_S = 0.05
OUTDATED = 0
"""The time of the last change that a file of old news has."""


@dataclass(frozen=True, kw_only=True)
class ServiceState:
    """One row of `tentalis status`.

    Args:
        identity: see `processes.process_identity`; empty while no process runs.
        restarts: since the supervisor started.
        ready_at: seconds since 1970 when it last became ready; None while it is not.
    """

    name: str
    state: str
    pid: int | None = None
    identity: str = ""
    restarts: int = 0
    port: int | None = None
    ready_at: float | None = None
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True)
class StackState:
    """The whole of state.json.

    Args:
        phase: "starting", "ready" or "stopping".
        addresses: what others connect to, by name: console_url, gateway_url, engine_url, database_url, redis_url.
        is_current: False for old news: the supervisor could not write what came after, as on a full disk.
    """

    supervisor_pid: int
    supervisor_identity: str
    phase: str
    started_at: float
    services: tuple[ServiceState, ...] = ()
    addresses: dict[str, str] = field(default_factory=dict)
    is_current: bool = True

    def of(self, name: str) -> ServiceState:
        """One service's row.

        Raises:
            UnknownServiceError: the stack has no such service.
        """
        for service in self.services:
            if service.name == name:
                return service
        raise UnknownServiceError(f"no service {name!r}; there are {', '.join(row.name for row in self.services)}")

    def is_alive(self) -> bool:
        """True while the supervisor that wrote this runs."""
        return is_same_process(self.supervisor_identity)

    def write(self, home: Home) -> None:
        document = asdict(self)
        del document["is_current"]
        write_private_file(home.state_file, json.dumps(document, indent=1) + "\n", is_durable=False)


def mark_outdated(home: Home) -> None:
    """Say that what state.json says is old; a full disk takes this too, because nothing is written but a time."""
    with contextlib.suppress(OSError):
        os.utime(home.state_file, (OUTDATED, OUTDATED))


def read_state(home: Home) -> StackState | None:
    """The last word of the last supervisor of this home, dead or alive; None when there was none.

    Raises:
        HomeError: the file cannot be read.
    """
    try:
        with home.state_file.open(encoding="utf-8") as file:
            is_current = os.fstat(file.fileno()).st_mtime != OUTDATED
            document: dict[str, Any] = json.load(file)
        services = tuple(ServiceState(**row) for row in document.pop("services"))
        return StackState(services=services, is_current=is_current, **document)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HomeError(f"{home.state_file} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise HomeError(f"{home.state_file} must be what a supervisor wrote, found: {error}") from None


def read_last_state(home: Home) -> StackState | None:
    """As `read_state`, where its supervisor may be long gone; None too for what cannot be read, as a power cut or
    another version leaves it: whether one runs, the home's lock says.
    """
    with contextlib.suppress(HomeError):
        return read_state(home)
    return None


def read_running_state(home: Home) -> StackState:
    """The state of the supervisor that runs now.

    Raises:
        NotRunningError: none runs.
    """
    state = read_state(home)
    if state is None or not state.is_alive():
        raise NotRunningError(f"nothing runs on {home.root}; `tentalis up` starts it")
    return state


def wait_for_state(
    home: Home, wanted: Callable[[StackState], bool], *, timeout_s: float, still_starting: Callable[[], bool]
) -> StackState:
    """Wait until the running supervisor's state is what is wanted.

    Args:
        still_starting: False once the process that should write the state is gone.
    Raises:
        StartError: it is gone, or the time is over.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        is_going = still_starting()
        state = read_last_state(home)
        if state is not None and state.is_alive() and wanted(state):
            return state
        if not is_going:
            raise StartError(f"the supervisor left before it was ready; see {home.log_file('supervisor')}")
        if time.monotonic() > deadline:
            raise StartError(f"not ready within {timeout_s:g} s; see {home.log_file('supervisor')}")
        time.sleep(POLL_INTERVAL_S)
