"""A project with a row of everything, which stands for all tests of a module: a transaction takes back what each did.

Not for a module that has a test which commits: `project` is another fixture, and both make `shop`.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from tests.edges.lived_in import make_lived_in
from tests.factories import make_project
from tests.support.standing import standing


@pytest.fixture(scope="module")
def standing_ids(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, Any]]:
    with standing(lambda: make_lived_in(make_project()), django_db_blocker) as ids:
        yield ids


@pytest.fixture
def ids(standing_ids: dict[str, Any], db: None) -> dict[str, Any]:
    """What the placeholders of paths stand for."""
    return dict(standing_ids)
