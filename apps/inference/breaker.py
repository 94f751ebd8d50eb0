"""A model server that stays silent again and again is left alone for a while: a circuit breaker for each.

Kept in this process: a queue process learns for itself who is silent, and forgets it when it is started anew. One
project's calls never close the circuit of another's.
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from apps.inference.errors import ServerRestsError

SILENCES = 3
"""In a row, until the server is left alone."""
FIRST_REST_S = 30.0
LONGEST_REST_S = 900.0
_KEPT = 10_000

Clock = Callable[[], float]


@dataclass
class _Circuit:
    silences: int = 0
    rest_s: float = 0.0
    rests_until: float = 0.0
    tried_since: float | None = None
    is_busy: bool = False


class Breaker:
    """Who is left alone, by (project, origin of the server or, in the gateway, the model on it).

    After `SILENCES` calls without an answer nothing is asked for a rest; then one call tries it, and while that lasts
    the others still wait. An answer ends it; another silence doubles the rest.

    Args:
        clock: seconds, rising.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._circuits: dict[tuple[int | None, str], _Circuit] = {}
        self._lock = threading.Lock()

    def require(self, project_id: int | None, origin: str, *, timeout_s: float) -> None:
        """Say that a call begins.

        Args:
            timeout_s: how long it may take at most.
        Raises:
            ServerRestsError: it may not; says how long to wait.
        """
        with self._lock:
            circuit = self._circuits.get((project_id, origin))
            if circuit is None or circuit.silences < SILENCES:
                return
            now = self._clock()
            if circuit.tried_since is not None and now < circuit.tried_since + timeout_s:
                wait_s = min(FIRST_REST_S, circuit.tried_since + timeout_s - now)
            elif now < circuit.rests_until:
                wait_s = circuit.rests_until - now
            else:
                circuit.tried_since = now
                return
            why = "can take no more" if circuit.is_busy else f"gave no answer {circuit.silences} times in a row"
        raise ServerRestsError(
            f"{origin} {why} and is left alone for now; it is asked again in {max(1.0, wait_s):.0f} s",
            wait_s=max(1.0, wait_s),
        )

    def note_silence(self, project_id: int | None, origin: str) -> None:
        with self._lock:
            circuit = self._find(project_id, origin)
            was_tried = circuit.tried_since is not None
            circuit.silences += 1
            circuit.tried_since = None
            circuit.is_busy = False
            if circuit.silences == SILENCES or was_tried:
                circuit.rest_s = min(max(FIRST_REST_S, circuit.rest_s * 2), LONGEST_REST_S)
                circuit.rests_until = self._clock() + circuit.rest_s * random.uniform(0.8, 1.2)

    def note_busy(self, project_id: int | None, origin: str, *, rest_s: float) -> None:
        """It answered that it takes no more for so long: nobody asks until then, and then one."""
        with self._lock:
            circuit = self._find(project_id, origin)
            circuit.silences = max(SILENCES, circuit.silences)
            circuit.tried_since = None
            circuit.is_busy = True
            circuit.rests_until = self._clock() + min(rest_s, LONGEST_REST_S)

    def note_unknown(self, project_id: int | None, origin: str) -> None:
        """A call ended without showing anything: it was cancelled, or never reached the server."""
        with self._lock:
            if (circuit := self._circuits.get((project_id, origin))) is not None:
                circuit.tried_since = None

    def note_answer(self, project_id: int | None, origin: str) -> None:
        if self._circuits:
            with self._lock:
                self._circuits.pop((project_id, origin), None)

    def _find(self, project_id: int | None, origin: str) -> _Circuit:
        if len(self._circuits) >= _KEPT:
            self._circuits.clear()
        return self._circuits.setdefault((project_id, origin), _Circuit())


breaker = Breaker()
