"""Passwords: hashed without a connection in hand, a few at a time, and tried only so often."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.db import connections
from django.test import override_settings

from apps.accounts import hashing
from apps.accounts.hashing import HashingBusyError, PatientArgon2Hasher, place_to_hash
from apps.accounts.models import User
from apps.accounts.tries import MOST_BY_ADDRESS, MOST_BY_BOTH, MOST_BY_NAME, TooManySignInsError, forgive_try, note_try
from apps.base.counting import forget_callers
from tests.factories import make_user

held: list[bool] = []
niceness: list[int] = []
askers = connections["default"]
"""The connection of the thread that the tests run in, seen from those that hash too."""


def note() -> None:
    held.append(askers.connection is not None)
    niceness.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))


class NotingHasher(Argon2PasswordHasher):
    """Notes whether who asks holds a connection while it hashes, and how far its thread stands back; cheap."""

    time_cost = 1
    memory_cost = 8
    parallelism = 1

    def encode(self, password: str, salt: str) -> str:
        note()
        return super().encode(password, salt)

    def verify(self, password: str, encoded: str) -> bool:
        note()
        return super().verify(password, encoded)


class WatchedHasher(PatientArgon2Hasher, NotingHasher):
    """Ours, watched inside."""


@pytest.mark.django_db(transaction=True)
@override_settings(PASSWORD_HASHERS=[f"{__name__}.WatchedHasher"])
def test_no_connection_is_held_while_a_password_is_hashed() -> None:
    make_user("alice")
    User.objects.count()
    held.clear()
    assert authenticate(username="alice", password="alice-has-a-password") is not None
    assert authenticate(username="nobody", password="guessed") is None
    assert held
    assert not any(held)


@pytest.mark.django_db
@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own elsewhere")
@override_settings(PASSWORD_HASHERS=[f"{__name__}.WatchedHasher"])
def test_threads_that_hash_stand_back_behind_those_that_answer() -> None:
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    niceness.clear()
    make_user("alice")
    assert niceness == [max(own, hashing.NICENESS)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own


def test_only_a_few_hash_at_once_and_who_waits_too_long_is_told_to_come_back() -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def hash_one(_: int) -> None:
        nonlocal inside, most
        with place_to_hash():
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(hash_one, range(60)))
    assert most <= hashing.MOST_AT_ONCE
    assert HashingBusyError.status == 503


@pytest.fixture
def fresh_counts() -> None:
    forget_callers()


@pytest.mark.usefixtures("fresh_counts")
def test_of_any_number_of_tries_at_once_only_the_allowed_get_through() -> None:
    def try_one(_: int) -> bool:
        try:
            note_try(username="alice")
        except TooManySignInsError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(try_one, range(90))) == MOST_BY_NAME


@pytest.mark.usefixtures("fresh_counts")
def test_a_right_password_does_not_count_and_an_address_is_counted_over_all_names() -> None:
    for _ in range(2 * MOST_BY_BOTH):
        note_try(username="bob", address="203.0.113.8")
        forgive_try(username="bob", address="203.0.113.8")
    for number in range(MOST_BY_ADDRESS):
        note_try(username=f"name-{number}", address="203.0.113.7")
    with pytest.raises(TooManySignInsError, match="address"):
        note_try(username="one-more", address="203.0.113.7")
