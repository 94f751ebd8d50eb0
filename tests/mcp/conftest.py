"""The MCP server as its users start it, in front of the real application, asked with the SDK's own client."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import Member, Project, Role
from apps.accounts.rights import ROLE_RIGHTS
from apps.accounts.tokens import create_token
from apps.workers.models import Worker
from tests.factories import make_project, make_user, make_worker

Open = Callable[[str], AbstractAsyncContextManager[Client]]


@pytest.fixture(autouse=True)
async def close_connections() -> AsyncIterator[None]:
    """Of the thread in which the tests ask the database."""
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def shop(transactional_db: None) -> Project:
    """A project with the workers echo and claw, an outside agent, and the member `agent`, who is one."""
    project = make_project()
    make_worker(project)
    make_worker(project, "claw", Worker.Kind.OUTSIDE)
    Member.objects.create(project=project, user=make_user("agent", is_agent=True), role=Role.AGENT)
    return project


@pytest.fixture
def agents_token(shop: Project) -> str:
    """With the rights of the role `agent` in `shop`, and no other."""
    agent, alice = make_user("agent"), make_user("alice")
    alice.is_superuser = True
    alice.save()
    return create_token(user=agent, name="t", scopes=ROLE_RIGHTS[Role.AGENT], by=alice, project=shop)[1]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, live_server: LiveServer) -> dict[str, str]:
    """Of one who starts it: a home with nothing in it, and where the application is."""
    return {"TENTALIS_HOME": str(tmp_path_factory.mktemp("mcp") / "home"), "TENTALIS_URL": live_server.url}


@pytest.fixture(scope="module")
def http_url(environment: dict[str, str]) -> Iterator[str]:
    """Where `tentalis mcp --http` listens."""
    argv = [sys.executable, "-m", "tentalis", "mcp", "--http", "--port", "0"]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


each_transport = pytest.mark.parametrize("open_client", ["stdio", "http"], indirect=True)
"""For tests of what goes to and fro; what the tools do is the same behind either."""


@pytest.fixture
def open_client(request: pytest.FixtureRequest, environment: dict[str, str], live_server: LiveServer) -> Open:
    """A client with a token, over HTTP if its test does not name another transport."""
    transport = getattr(request, "param", "http")
    url = request.getfixturevalue("http_url") if transport == "http" else ""

    @asynccontextmanager
    async def connect(token: str) -> AsyncIterator[Client]:
        server: Any
        if transport == "stdio":
            env = environment | {"TENTALIS_TOKEN": token}
            server = StdioServerParameters(command=sys.executable, args=["-m", "tentalis", "mcp"], env=env)
            async with Client(server) as client:
                yield client
            return
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False, timeout=30) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            yield client

    return connect
