"""What every test of the console starts from."""

from collections.abc import Iterator
from copy import deepcopy

import pytest
from pytest_django import DjangoDbBlocker

from apps.base.counting import forget_callers
from tests.e2e.scenery import Scene, build_scene
from tests.support.standing import standing


@pytest.fixture(autouse=True)
def fresh_counts() -> None:
    """Passwords tried by another test do not count."""
    forget_callers()


@pytest.fixture(scope="module")
def standing_scene(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Scene]:
    with standing(lambda: build_scene(updates=3), django_db_blocker) as built:
        yield built


@pytest.fixture
def scene(standing_scene: Scene, db: None) -> Scene:
    """Rows of its own; what a test does to them is gone with its transaction."""
    return deepcopy(standing_scene)
