"""Letters home: signed, and put where the web side fetches them. The box may write there, and read nothing."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import redis

from gpu_workers.artifacts import path_from_uri, write_file
from gpu_workers.celery import KEY_PREFIX, app
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import TrainResult, TrainSpec
from tentalis.core.letters import HEARTBEAT, LETTER_BOX, RESULT, Kind, Letter

LETTER_FILE = "letter.json"
"""Beside a result, so that it is known as the box's where the letter itself was lost."""
SEND_FOR_S = 60.0
TIMEOUT_S = 5.0

logger = logging.getLogger(__name__)


def write_letter(kind: Kind, body: Mapping[str, Any], *, key: str, run_id: int, attempt: int) -> Letter:
    """Sign; its number is the time, so that it grows over all processes that work on an attempt."""
    return Letter.write(kind, body, key=key, run_id=run_id, attempt=attempt, number=time.time_ns())


def send_heartbeat(metrics: Mapping[str, float], *, key: str, run_id: int, attempt: int) -> None:
    """One sign of life. Raises redis.RedisError where the broker is away."""
    _post(write_letter(HEARTBEAT, dict(metrics), key=key, run_id=run_id, attempt=attempt))


def leave_letter(spec: TrainSpec, result: TrainResult, *, key: str) -> None:
    """Put a result's letter beside where the result will lie. Raises ArtifactError where the disk refuses."""
    letter = write_letter(RESULT, result.to_json(), key=key, run_id=spec.run_id, attempt=spec.attempt)
    write_file(Path(path_from_uri(spec.output_uri)) / LETTER_FILE, canonical_json(letter.to_json()))


def send_result(
    result: TrainResult,
    *,
    key: str,
    for_s: float = SEND_FOR_S,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Send a result, trying again for a while when the broker is away.

    Returns:
        Whether it went out. If not, it still lies in the run's output directory, where the sweep finds it.
    """
    letter = write_letter(RESULT, result.to_json(), key=key, run_id=result.run_id, attempt=result.attempt)
    deadline = now() + for_s
    pause_s = 0.5
    while True:
        try:
            _post(letter)
        except (redis.RedisError, OSError) as error:
            if now() + pause_s > deadline:
                logger.error("the result of run %d could not be sent: %s", result.run_id, error)
                return False
            sleep(pause_s)
            pause_s = min(2 * pause_s, 5.0)
        else:
            return True


def _post(letter: Letter) -> None:
    _connect().lpush(f"{KEY_PREFIX}{LETTER_BOX}", json.dumps(letter.to_json()))


@lru_cache(maxsize=1)
def _connect() -> "redis.Redis":
    return redis.Redis.from_url(app.conf.broker_url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
