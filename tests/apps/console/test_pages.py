"""Every page, as everybody: what they see, what they must not, and what it costs."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import User
from tests.e2e.pages import find_pages
from tests.e2e.scenery import Scene, add_task, build_scene
from tests.factories import make_project, make_user, make_worker

pytestmark = pytest.mark.django_db

MANAGERS_ONLY = {"audit"}
MOST_QUERIES = 24


@pytest.fixture
def scene(db: None) -> Scene:
    return build_scene(updates=3)


def sign_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def count_queries(client: Client, path: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(path)
    assert answer.status_code == 200, path
    return len(queries)


def test_a_manager_sees_every_page_in_a_bounded_number_of_queries(scene: Scene) -> None:
    client = sign_in(scene.alice)
    for name, path in find_pages(scene).items():
        client.get(path)
        assert count_queries(client, path) <= MOST_QUERIES, name
