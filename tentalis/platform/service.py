"""One process under the supervisor: how it is started, known to be ready, and stopped."""

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tentalis.core.backoff import grow_wait
from tentalis.platform.probes import Probe


class State(StrEnum):
    """Where a service is; `done` is a one-shot that succeeded."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    BACKING_OFF = "backing off"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Service:
    """A process the supervisor keeps alive, or runs once.

    Args:
        after: names of services that must be ready (or done) first; they are stopped after this one.
        environment: all of it; the supervisor adds nothing.
        probe: tells when it is ready; None: as soon as it runs.
        prepare: called before each start, in a thread; may take its time and raise a PlatformError or an OSError.
        is_oneshot: runs to its end; another exit code than 0 fails the start.
        stop_signal: asks it to leave.
        death_signal: what the kernel sends when the supervisor itself dies.
        patience_s: a ready service whose probe fails for so long is killed and started again; None: never.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    probe: Probe | None = None
    prepare: Callable[[], None] | None = None
    is_oneshot: bool = False
    port: int | None = None
    user: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    death_signal: signal.Signals = signal.SIGKILL
    start_timeout_s: float = 180.0
    stop_timeout_s: float = 15.0
    patience_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """How long to wait before a restart: `first_s`, and twice as long each time up to `cap_s` in a crash loop.

    Args:
        forgive_after_s: who was ready for so long is in no crash loop, however often it ends.
    Source:
        Supervisor's `startsecs`, 1 s as here, https://supervisord.org/subprocess.html#process-states.
    """

    first_s: float = 0.25
    cap_s: float = 30.0
    forgive_after_s: float = 1.0


class Restarts:
    """Those of one process, counted as far as they are a crash loop."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff, self._in_a_row = backoff, 0

    def next_wait_s(self, ready_s: float) -> float:
        """Wait before the next one. Args: ready_s: how long the process was ready that just ended; 0: never."""
        if ready_s >= self._backoff.forgive_after_s:
            self._in_a_row = 0
        self._in_a_row += 1
        return grow_wait(self._in_a_row - 1, first_s=self._backoff.first_s, cap_s=self._backoff.cap_s)
