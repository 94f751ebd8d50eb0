"""A worker behind a model server that misbehaves on demand, and an agent who may ask it."""

from collections.abc import Iterator

import pytest

from apps.accounts.models import Project
from apps.workers.models import Worker
from tests.apps.gateway.running import GatewayThread, make_agent_token, make_chat_worker, make_provider
from tests.apps.gateway.upstream import StubUpstream


@pytest.fixture(scope="module")
def shared_upstream() -> Iterator[StubUpstream]:
    with StubUpstream() as upstream:
        yield upstream


@pytest.fixture
def upstream(shared_upstream: StubUpstream) -> StubUpstream:
    """Behaves well until told otherwise."""
    shared_upstream.reset()
    return shared_upstream


@pytest.fixture
def helper(transactional_db: None, project: Project, upstream: StubUpstream) -> Worker:
    """A worker named `helper`, whose server is `upstream`."""
    return make_chat_worker(project, make_provider(project, upstream.url))


@pytest.fixture
def token(transactional_db: None, project: Project) -> str:
    """Of an agent of the project."""
    return make_agent_token(project)


@pytest.fixture
def gateway(helper: Worker, token: str) -> Iterator[GatewayThread]:
    with GatewayThread() as running:
        yield running
