"""Passwords are hashed a few at a time, and without a database connection in hand.

One hash takes 100 MB and a tenth of a second on purpose: so many at once as there are requests would take the memory
of the machine and every connection of the pool. Each hash takes eight threads as well: they stand back behind those of
other requests, so that a crowd that signs in slows itself.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from django.contrib.auth.hashers import Argon2PasswordHasher

from apps.base.connections import give_back_connections
from apps.base.errors import TentalisError

MOST_AT_ONCE = 2
MOST_WAIT_S = 5.0
NICENESS = 10
"""Of the threads that hash: beside a busy thread of another request they get a tenth of a core."""
Answer = TypeVar("Answer")
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


def _stand_back() -> None:
    """Linux gives each thread a priority of its own, and those that Argon2 begins inherit it."""
    if sys.platform == "linux":
        own = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, own, max(os.getpriority(os.PRIO_PROCESS, own), NICENESS))


_hashers = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="hashing", initializer=_stand_back)


def hash_aside(work: Callable[[], Answer]) -> Answer:
    """Do it when there is a place, in a thread that stands back.

    Raises:
        HashingBusyError: none became free in time.
    """
    with place_to_hash():
        return _hashers.submit(work).result()


class PatientArgon2Hasher(Argon2PasswordHasher):
    """Django's Argon2, a few at a time."""

    def encode(self, password: str, salt: str) -> str:
        return hash_aside(partial(super().encode, password, salt))

    def verify(self, password: str, encoded: str) -> bool:
        return hash_aside(partial(super().verify, password, encoded))
