"""How long the database may take for each kind of process, so that nobody waits behind one statement for ever."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Timeouts(NamedTuple):
    """Seconds; 0: no limit.

    Attributes:
        statement_s: of one statement. lock_s: of waiting for a lock.
        idle_in_transaction_s: of doing something else with a transaction open.
    """

    statement_s: int
    lock_s: int
    idle_in_transaction_s: int


TIMEOUTS: Mapping[str, Timeouts] = {
    "web": Timeouts(30, 10, 60),
    "gateway": Timeouts(30, 10, 60),
    "relay": Timeouts(120, 30, 120),
    "queue": Timeouts(300, 60, 600),  # a link settles a long conversation with its row locked
    "migrate": Timeouts(0, 10, 0),  # a change of a table that waits for a lock holds up everybody behind it
    "command": Timeouts(0, 60, 0),  # exports, checks and repairs by hand
}


def find_process(named: str, argv: Sequence[str]) -> str:
    """Which kind of process this is: as it was told, else by the command it runs."""
    return named or ("migrate" if argv[1:2] in (["migrate"], ["prepare_database"]) else "command")


def choose_timeouts(process: str, given: Mapping[str, Any]) -> Timeouts:
    """Those of the kind of process; what somebody set takes their place, but for migrations and commands."""
    usual = TIMEOUTS[process]
    if process in {"migrate", "command"}:
        return usual
    return Timeouts(
        *(usual[place] if given.get(name) is None else int(given[name]) for place, name in enumerate(VARIABLES))
    )


VARIABLES = ("STATEMENT_TIMEOUT_S", "LOCK_TIMEOUT_S", "IDLE_IN_TRANSACTION_TIMEOUT_S")


def say_options(timeouts: Timeouts) -> str:
    """For libpq's `options`: what each connection starts with."""
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    return " ".join(f"-c {name}={1000 * seconds}" for name, seconds in zip(names, timeouts, strict=True))
