"""How often a password may be tried: by name and by address, counted for all processes before anything is hashed."""

import hashlib
import time

from apps.base.counting import WINDOW_S, counter
from apps.base.errors import TentalisError

MOST_BY_BOTH = 10
"""Tries a minute that may fail, for one name from one address."""
MOST_BY_NAME = 60
"""For one name from wherever: many more, or whoever knows a name could keep its person out."""
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
    is_free = counter.take(_name("name", username), MOST_BY_NAME, now)
    if not is_free or (address and not counter.take(_name("both", username, address), MOST_BY_BOTH, now)):
        raise TooManySignInsError("Too many failed sign-ins for this user name. Wait a minute and try again.")


def note_passkey_try(*, address: str) -> None:
    """Count an address that asks for, or comes with, a passkey. Raises TooManySignInsError: it had its tries."""
    if not counter.take(_name("passkey", address), 2 * MOST_BY_ADDRESS, time.time()):
        raise TooManySignInsError("Too many sign-ins from your address. Wait a minute and try again.")


def forgive_try(*, username: str, address: str = "") -> None:
    """The try was right: it does not count against the name."""
    counter.give_back(_name("name", username), time.time())
    if address:
        counter.give_back(_name("both", username, address), time.time())


def _name(kind: str, *values: str) -> str:
    return f"try-{kind}:{hashlib.sha256(repr(values).encode()).hexdigest()[:32]}"
