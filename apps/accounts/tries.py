"""How often a password may be tried: by name and by address, counted for all processes before anything is hashed."""

import hashlib
import time

from apps.base.counting import WINDOW_S, counter
from apps.base.errors import TentalisError

MOST_BY_NAME = 10
"""Tries a minute that may fail, for one name, from wherever."""
MOST_BY_ADDRESS = 30
"""Tries a minute from one address, for whatever names: an office has one."""


class TooManySignInsError(TentalisError):
    """So many tries that the next must wait."""

    status = 429
    code = "too_many_sign_ins"
    is_final = True
    retry_after_s = WINDOW_S


def note_try(*, username: str, address: str = "") -> None:
    """Count a try before it is made: of any number at once, only so many as are allowed get through.

    Raises:
        TooManySignInsError: the name or the address has had its tries of this minute.
    """
    now = time.time()
    if address and not counter.take(_name("address", address), MOST_BY_ADDRESS, now):
        raise TooManySignInsError("Too many sign-ins from your address. Wait a minute and try again.")
    if not counter.take(_name("name", username), MOST_BY_NAME, now):
        raise TooManySignInsError("Too many failed sign-ins for this user name. Wait a minute and try again.")


def forgive_try(*, username: str) -> None:
    """The try was right: it does not count against the name."""
    counter.give_back(_name("name", username), time.time())


def _name(kind: str, value: str) -> str:
    return f"try-{kind}:{hashlib.sha256(value.encode()).hexdigest()[:32]}"
