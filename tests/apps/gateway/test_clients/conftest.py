from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import DjangoDbBlocker

from apps.accounts.models import Project
from tests.apps.gateway.running import GatewayProcess, make_agent_token, make_chat_worker, make_provider
from tests.apps.gateway.upstream import StubUpstream
from tests.factories import make_project

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


@dataclass
class Place:
    """Where a client is pointed at: the worker `helper` answers as the stub was told to."""

    gateway: GatewayProcess
    upstream: StubUpstream
    project: Project
    token: str

    @property
    def v1(self) -> str:
        return f"{self.gateway.url}/v1"


@pytest.fixture(scope="package")
def running(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Place]:
    """One gateway for all of them: what they ask of it does not depend on what others asked before."""
    with StubUpstream() as upstream, ExitStack() as stack:
        with django_db_blocker.unblock():
            project = make_project()
            make_chat_worker(project, make_provider(project, upstream.url))
            token = make_agent_token(project)
            gateway = stack.enter_context(GatewayProcess())
        yield Place(gateway, upstream, project, token)
        stack.close()
        with django_db_blocker.unblock():
            call_command("flush", verbosity=0, interactive=False)


@pytest.fixture
def place(running: Place) -> Place:
    running.upstream.plan(
        reply="It is sunny.", reasoning="", tool_calls=[], tools_once=False, status=200, truncate_after=None
    )
    return running
