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
        prepare: called before each start, in a thread; may take its time and raise a PlatformError.
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
    """How long to wait before the n-th restart in a row: doubles from `first_s` up to `cap_s`.

    Args:
        forgive_after_s: a service that stayed ready so long starts again from `first_s`.
    """

    first_s: float = 0.25
    cap_s: float = 30.0
    forgive_after_s: float = 60.0

    def delay_s(self, restarts_in_a_row: int) -> float:
        """Wait before restart number `restarts_in_a_row` (the first is 0)."""
        return grow_wait(restarts_in_a_row, first_s=self.first_s, cap_s=self.cap_s)
