"""The training box's one job: train a spec, show signs of life, send the result home."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from celery.signals import worker_init
from kombu.exceptions import OperationalError

from gpu_workers.backends import find_backend
from gpu_workers.celery import CONTROL_QUEUE, GPU_QUEUE, app
from gpu_workers.heartbeat import Heartbeat
from gpu_workers.runner import run
from tentalis.core.contracts import ContractError, TrainResult, TrainSpec

HEARTBEAT_JOB = "training.heartbeat"
RECORD_JOB = "training.record"
SEND_FOR_S = 60.0

logger = logging.getLogger(__name__)


@worker_init.connect
def load_early(**_: Any) -> None:
    """Load what every training needs while the queue process starts, and keep the other cores for serving."""
    from gpu_workers.process import prepare_process

    prepare_process()
    find_backend("standalone")


@app.task(name="gpu.train", queue=GPU_QUEUE)
def train(spec_json: Mapping[str, Any]) -> None:
    """Train a `TrainSpec`; the result goes to the control queue, and lies in the output directory either way.

    Raises:
        ContractError: the argument is no spec and does not even say whose it was to be.
    """
    try:
        spec = TrainSpec.from_json(spec_json)
    except ContractError as error:
        run_id, attempt = spec_json.get("run_id"), spec_json.get("attempt")
        if not isinstance(run_id, int) or not isinstance(attempt, int):
            raise
        name, message = type(error).__name__, str(error)
        send_result(TrainResult(run_id=run_id, attempt=attempt, ok=False, error_type=name, error_message=message))
        return

    def send_heartbeat(metrics: Mapping[str, float]) -> None:
        app.send_task(HEARTBEAT_JOB, args=[spec.run_id, spec.attempt, dict(metrics)], queue=CONTROL_QUEUE, retry=False)

    with Heartbeat(send_heartbeat) as heartbeat:
        result = run(spec, heartbeat.note)
    send_result(result)


def send_result(
    result: TrainResult,
    *,
    for_s: float = SEND_FOR_S,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Publish a result, trying again for a while when the broker is away.

    Returns:
        Whether it went out. If not, it still lies in the run's output directory, where the sweep finds it.
    """
    deadline = now() + for_s
    pause_s = 0.5
    while True:
        try:
            app.send_task(RECORD_JOB, args=[result.to_json()], queue=CONTROL_QUEUE, retry=False)
        except (OperationalError, OSError) as error:
            if now() + pause_s > deadline:
                logger.error("the result of run %d could not be sent: %s", result.run_id, error)
                return False
            sleep(pause_s)
            pause_s = min(2 * pause_s, 5.0)
        else:
            return True
