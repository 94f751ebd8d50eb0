import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
import redis
from django.conf import settings

from gpu_workers.celery import GPU_QUEUE, KEY_PREFIX, make_app
from tentalis.core.contracts import TrainResult
from tentalis.core.letters import LETTER_BOX, Letter
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
        process.wait(120)


def receive_until(broker: str, kind: str, *, within_s: float = 120) -> list[Letter]:
    """The letters that arrive, up to and with the first of this kind."""
    deadline = time.monotonic() + within_s
    received: list[Letter] = []
    with redis.Redis.from_url(broker, socket_timeout=None) as client:
        while not received or received[-1].kind != kind:
            found: Any = client.brpop([f"{KEY_PREFIX}{LETTER_BOX}"], timeout=max(0.1, deadline - time.monotonic()))
            if found is None:
                pytest.fail(f"no {kind} within {within_s} s; received {received}")
            received.append(Letter.from_json(json.loads(found[1])))
    return received


@pytest.mark.slow
def test_the_box_trains_shows_signs_of_life_and_sends_its_result_home(tmp_path: Path) -> None:
    broker = own_broker()
    app = make_app(broker)
    spec = make_spec(tmp_path, make_rollouts(), run_id=41, attempt=2)
    odd = {"run_id": 40, "attempt": 1, "schema": "tentalis.train-spec/0"}
    app.send_task("gpu.train", args=[odd, "key-of-40"], queue=GPU_QUEUE)
    app.send_task("gpu.train", args=[spec.to_json(), "key-of-41"], queue=GPU_QUEUE)
    with running_box(broker):
        refused = receive_until(broker, "result")[-1]
        received = receive_until(broker, "result")
    assert refused.is_signed_with("key-of-40")
    told = TrainResult.from_json(refused.body)
    assert (told.run_id, told.ok, told.error_type) == (40, False, "ContractError")
    assert all(letter.is_signed_with("key-of-41") for letter in received)
    assert {(letter.run_id, letter.attempt) for letter in received} == {(41, 2)}
    numbers = [letter.number for letter in received]
    assert numbers == sorted(set(numbers))
    assert (received[0].kind, received[0].body) == ("heartbeat", {})
    result = TrainResult.from_json(received[-1].body)
    assert (result.run_id, result.attempt, result.ok) == (41, 2, True), result.error_message
    assert TrainResult.from_json(json.loads((tmp_path / "out" / "result.json").read_bytes())) == result
    left = Letter.from_json(json.loads((tmp_path / "out" / "letter.json").read_bytes()))
    assert left.is_signed_with("key-of-41")
    assert TrainResult.from_json(left.body) == result


def test_the_box_and_the_web_use_the_same_prefix_in_the_broker() -> None:
    assert settings.CELERY_BROKER_TRANSPORT_OPTIONS["global_keyprefix"] == KEY_PREFIX


def test_a_broker_that_is_away_at_the_end_is_tried_for_a_bounded_time(tmp_path: Path) -> None:
    program = """
from gpu_workers.posting import send_result
from tentalis.core.contracts import Outcome, TrainResult
clock, pauses = [0.0], []
def sleep(seconds):
    pauses.append(seconds)
    clock[0] += seconds
result = TrainResult(run_id=1, attempt=1, outcome=Outcome.FAILED)
sent = send_result(result, key='k', for_s=10.0, now=lambda: clock[0], sleep=sleep)
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
