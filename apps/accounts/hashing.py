"""Passwords are hashed a few at a time, and without a database connection in hand.

One hash takes 100 MB and a tenth of a second on purpose: so many at once as there are requests would take the memory
of the machine and every connection of the pool.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.hashers import Argon2PasswordHasher

from apps.base.connections import give_back_connections
from apps.base.errors import TentalisError

MOST_AT_ONCE = 2
MOST_WAIT_S = 5.0
_places = threading.BoundedSemaphore(MOST_AT_ONCE)


class HashingBusyError(TentalisError):
    """So many passwords are being checked that this one would wait too long."""

    status = 503
    code = "sign_in_busy"
    is_away = True
    retry_after_s = 3


@contextmanager
def place_to_hash() -> Iterator[None]:
    """Wait for a place with no connection in hand.

    Raises:
        HashingBusyError: none became free in time.
    """
    give_back_connections()
    if not _places.acquire(timeout=MOST_WAIT_S):
        raise HashingBusyError("too many people are signing in; wanted a free place, found none; try again")
    try:
        yield
    finally:
        _places.release()


class PatientArgon2Hasher(Argon2PasswordHasher):
    """Django's Argon2, a few at a time."""

    def encode(self, password: str, salt: str) -> str:
        with place_to_hash():
            return super().encode(password, salt)

    def verify(self, password: str, encoded: str) -> bool:
        with place_to_hash():
            return super().verify(password, encoded)
