"""Several web processes behind one address: one that cannot run takes nobody with it, all end with their parent."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from django.conf import settings

from tentalis.platform.config import load_or_make_config
from tentalis.platform.home import Home
from tentalis.platform.processes import process_identity, wait_until_gone
from tentalis.platform.service import Service
from tentalis.platform.stack import PROJECT_DIRECTORY, WEB_PATIENCE_S, WORKER_PATIENCE_S, plan_stack

START_S = 180.0
pytestmark = pytest.mark.slow


@pytest.fixture
def service(home: Home, environ: dict[str, str]) -> Service:
    home.prepare()
    outside = environ | {"TENTALIS_DATABASE_URL": settings.DATABASE_URL, "TENTALIS_REDIS_URL": settings.REDIS_URL}
    planned = plan_stack(home, load_or_make_config(home)[0], outside).services
    return next(service for service in planned if service.name == "web")


@pytest.fixture
def web(service: Service) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        service.argv, env=dict(service.environment), cwd=PROJECT_DIRECTORY, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        until = time.monotonic() + START_S
        while len(children_that_serve(process.pid)) < 2 or not answers(service):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def children_that_serve(pid: int) -> list[int]:
    """Its web processes; one more child only keeps count of what they share."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def answers(service: Service, path: str = "/healthz", timeout_s: float = 30.0) -> bool:
    connection = HTTPConnection("127.0.0.1", service.port or 0, timeout=timeout_s)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def test_one_that_is_stopped_dead_takes_nobody_with_it_and_all_end_with_their_parent(
    service: Service, web: "subprocess.Popen[bytes]"
) -> None:
    children = children_that_serve(web.pid)
    assert len(children) == 2
    os.kill(children[0], signal.SIGSTOP)
    assert all(answers(service) for _ in range(20))
    os.kill(children[0], signal.SIGCONT)
    identities = [process_identity(child) for child in children]
    web.kill()
    web.wait()
    assert [wait_until_gone(identity, timeout_s=120) for identity in identities] == [True, True]
    assert not answers(service)


def test_silence_is_long_before_it_kills_and_the_parent_asks_first(service: Service) -> None:
    said = " ".join(service.argv)
    assert f"--workers 2 --timeout-worker-healthcheck {WORKER_PATIENCE_S}" in said
    assert service.patience_s == WEB_PATIENCE_S
    assert WORKER_PATIENCE_S < WEB_PATIENCE_S
