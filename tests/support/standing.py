"""Rows that stand for all tests of a module, as `TestCase.setUpTestData` makes them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from django.db import transaction
from pytest_django import DjangoDbBlocker

Rows = TypeVar("Rows")


@contextmanager
def standing(build: Callable[[], Rows], blocker: DjangoDbBlocker) -> Iterator[Rows]:
    """What `build` makes, in a transaction around those of the tests; gone with the block.

    For a fixture of a module all of whose tests want the rows: each takes a copy by `deepcopy`, and what it does to
    them is gone with its own transaction.
    """
    around = transaction.atomic()
    with blocker.unblock():
        around.__enter__()
        built = build()
    yield built
    with blocker.unblock():
        transaction.set_rollback(True)
        around.__exit__(None, None, None)
