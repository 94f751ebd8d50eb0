import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from celery import Celery
from django.conf import settings

from gpu_workers.celery import CONTROL_QUEUE, GPU_QUEUE, KEY_PREFIX, make_app
from tentalis.core.contracts import TrainResult
from tests.gpu_workers.learning.training_factory import make_rollouts, make_spec

pytestmark = [pytest.mark.torch, pytest.mark.broker]
ROOT = Path(__file__).parents[2]


def own_broker() -> str:
    """A Redis database that no other test listens to."""
    return urlunsplit(urlsplit(os.environ["TENTALIS_REDIS_URL"])._replace(path="/9"))


@contextmanager
def running_box(broker: str) -> Iterator[None]:
    command = [sys.executable, "-m", "celery", "-A", "gpu_workers.celery:app", "worker", "-Q", GPU_QUEUE, "-P", "solo"]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"TENTALIS_REDIS_URL": broker})
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def receive_until(app: Celery, job: str, *, within_s: float = 120) -> list[tuple[str, list[Any]]]:
    """(job name, arguments) of what arrives in the control queue, up to and with the first of this name."""
    deadline = time.monotonic() + within_s
    received: list[tuple[str, list[Any]]] = []
    with app.connection() as connection, connection.SimpleQueue(CONTROL_QUEUE) as queue:
        while not received or received[-1][0] != job:
            try:
                message = queue.get(timeout=max(0.1, deadline - time.monotonic()))
            except Empty:
                pytest.fail(f"no {job} within {within_s} s; received {received}")
            message.ack()
            received.append((message.headers["task"], message.payload[0]))
    return received


@pytest.mark.slow
def test_the_box_trains_shows_signs_of_life_and_sends_its_result_home(tmp_path: Path) -> None:
    broker = own_broker()
    app = make_app(broker)
    spec = make_spec(tmp_path, make_rollouts(), run_id=41, attempt=2)
    app.send_task("gpu.train", args=[{"run_id": 40, "attempt": 1, "schema": "tentalis.train-spec/0"}], queue=GPU_QUEUE)
    app.send_task("gpu.train", args=[spec.to_json()], queue=GPU_QUEUE)
    with running_box(broker):
        refused = TrainResult.from_json(receive_until(app, "training.record")[-1][1][0])
        received = receive_until(app, "training.record")
    assert (refused.run_id, refused.ok, refused.error_type) == (40, False, "ContractError")
    assert ("training.heartbeat", [41, 2, {}]) in received
    assert {job for job, _ in received} == {"training.heartbeat", "training.record"}
    result = TrainResult.from_json(received[-1][1][0])
    assert (result.run_id, result.attempt, result.ok) == (41, 2, True), result.error_message
    assert TrainResult.from_json(json.loads((tmp_path / "out" / "result.json").read_bytes())) == result


def test_the_box_and_the_web_use_the_same_prefix_in_the_broker() -> None:
    assert settings.CELERY_BROKER_TRANSPORT_OPTIONS["global_keyprefix"] == KEY_PREFIX


def test_a_broker_that_is_away_at_the_end_is_tried_for_a_bounded_time(tmp_path: Path) -> None:
    program = """
from gpu_workers.jobs import send_result
from tentalis.core.contracts import TrainResult
clock, pauses = [0.0], []
def sleep(seconds):
    pauses.append(seconds)
    clock[0] += seconds
sent = send_result(TrainResult(run_id=1, attempt=1, ok=False), for_s=10.0, now=lambda: clock[0], sleep=sleep)
print(sent, pauses)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"TENTALIS_REDIS_URL": "redis://127.0.0.1:1/0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "False [0.5, 1.0, 2.0, 4.0]"
