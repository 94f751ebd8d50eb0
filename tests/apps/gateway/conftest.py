"""A worker behind a model server that misbehaves on demand, and an agent who may ask it."""

import socket
import subprocess
import sys
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


@pytest.fixture(scope="package")
def engine() -> Iterator[str]:
    """An engine process that lives as long as this package's tests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, "-m", "gpu_workers.engine", "--model", "desk", "--port", str(port)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if "serving desk" in line:
                    break
            else:
                pytest.fail(f"the engine did not start: {''.join(said)}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.communicate(timeout=30)
