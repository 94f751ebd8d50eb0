"""Two processes' worth of transactions in one test: each side is a thread with a connection of its own."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import connection

PATIENCE_S = 120.0


class Side(threading.Thread):
    """A function that runs beside the test, in real transactions; what it raised comes out of `end`."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._function, self._found = function, None
        self._raised: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._found = self._function()
        except BaseException as error:
            self._raised = error
        finally:
            connection.close()

    def end(self) -> Any:
        """What the function returned. Raises what it raised."""
        self.join(timeout=PATIENCE_S)
        assert not self.is_alive(), "it still runs: two wait for each other, or for nobody"
        if self._raised is not None:
            raise self._raised
        return self._found


def until_waiting(sides: int) -> None:
    """Return when so many connections wait for a lock that somebody else holds."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if cursor.fetchone()[0] >= sides:
                return
    raise AssertionError(f"{sides} should have come to wait for a lock")


def at_once(functions: list[Callable[[], Any]]) -> list[Any]:
    """What each returned, or raised, when all began together."""
    start = threading.Barrier(len(functions))

    def begin(function: Callable[[], Any]) -> Any:
        connection.ensure_connection()
        start.wait(timeout=PATIENCE_S)
        try:
            return function()
        except Exception as error:  # told, not raised: the others' results count too
            return error

    sides = [Side(partial(begin, function)) for function in functions]
    return [side.end() for side in sides]
