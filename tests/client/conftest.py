"""Clients that speak to the real application."""

from collections.abc import Iterator

import pytest
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import Project
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.workers.models import Worker
from tentalis.client import Client
from tests.factories import make_project, make_user, make_worker


@pytest.fixture
def token(transactional_db: None) -> str:
    """Of alice, who manages the project `shop` with the worker `echo`."""
    project: Project = make_project()
    _: Worker = make_worker(project)
    alice = make_user("alice")
    return create_token(user=alice, name="t", scopes=Right.values, by=alice)[1]


@pytest.fixture
def client_of_alice(token: str, live_server: LiveServer) -> Iterator[Client]:
    with Client(live_server.url, token, sleep=lambda _: None) as client:
        yield client
