"""One running line for the tests of a module: starting it takes most of a minute, and it ends with them."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.chaos.clients import PatientClient, Tally
from tests.chaos.history import History
from tests.chaos.stage import chaos_stack, read_admin_token
from tests.fakes import FakeModelServer
from tests.local_server import find_free_port
from tests.pipeline.line import SERVICES, Broker, Line, Replies

QUEUES = "workers=threads:4;workers=threads:4;scorers,hints,gates,control=threads:8"


@pytest.fixture(scope="module")
def running_line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    directory: Path = tmp_path_factory.mktemp("line")
    port = find_free_port()
    broker, replies, tally = Broker(directory / "broker", port), Replies(), Tally()
    broker.start()
    history = History(directory / "history.jsonl")
    try:
        with (
            FakeModelServer(reply=replies, models=["chat"]) as model,
            FakeModelServer(models=["chat"], mode="garbage") as broken,
        ):
            settings = {
                "TENTALIS_REDIS_URL": broker.url,
                "TENTALIS_QUEUE_PROCESSES": QUEUES,
                "TENTALIS_LEASE_SECONDS": "2",
                "TENTALIS_WATCHDOG_SECONDS": "4",
                "TENTALIS_TASK_TIMEOUT_SECONDS": "30",
                "TENTALIS_RETRY_BASE_SECONDS": "0.05",
                "TENTALIS_MAX_ATTEMPTS": "4",
                "TENTALIS_WEB_PROCESSES": "1",
            }
            with (
                chaos_stack(settings=settings, keep_in=directory / "home", only=SERVICES) as stack,
                PatientClient(stack.state().addresses["console_url"], read_admin_token(stack), tally) as client,
                psycopg.connect(stack.state().addresses["database_url"], autocommit=True) as connection,
            ):
                body = {"slug": "line", "name": "Line", "review_policy": {"who": "none"}, "group_size": 2}
                client.create("projects", body, key="project")
                line = Line(stack, client, broker, replies, model, broken, history, connection)
                line.make_provider("model", model.url)
                line.make_provider("broken", broken.url)
                line.make_worker("chat", provider="model")
                line.make_worker("poisoned", provider="broken")
                yield line
                replies.release()
                assert line.find_faults() == []
    finally:
        history.close()
        broker.stop()


@pytest.fixture
def line(running_line: Line) -> Iterator[Line]:
    """The line, with nothing in anybody's hands, and one of its two model servers talking nonsense."""
    running_line.replies.hold()
    running_line.broken.mode = "garbage"
    yield running_line
    running_line.replies.release()
