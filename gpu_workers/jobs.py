"""The training box's one job: train a spec, show signs of life, send the result home."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from celery.signals import worker_init

from gpu_workers.backends import find_backend
from gpu_workers.celery import GPU_QUEUE, app
from gpu_workers.heartbeat import Heartbeat
from gpu_workers.posting import leave_letter, send_heartbeat, send_result
from gpu_workers.runner import describe_failure, run
from tentalis.core.contracts import ContractError, TrainSpec

logger = logging.getLogger(__name__)


@worker_init.connect
def load_early(**_: Any) -> None:
    """Load what every training needs while the queue process starts, and keep the other cores for serving."""
    from gpu_workers.process import prepare_process

    prepare_process()
    find_backend("standalone")


@app.task(name="gpu.train", queue=GPU_QUEUE)
def train(spec_json: Mapping[str, Any], key: str = "") -> None:
    """Train a `TrainSpec`; the result is sent home, and lies in the output directory either way.

    Args:
        key: of this attempt, which its letters home are signed with.
    Raises:
        ContractError: the argument is no spec and does not even say whose it was to be.
    """
    from gpu_workers.process import give_back_memory

    try:
        spec = TrainSpec.from_json(spec_json)
    except ContractError as error:
        run_id, attempt = spec_json.get("run_id"), spec_json.get("attempt")
        if type(run_id) is not int or type(attempt) is not int:
            raise
        send_result(describe_failure(error, run_id=run_id, attempt=attempt), key=key)
        return

    beat = partial(send_heartbeat, key=key, run_id=spec.run_id, attempt=spec.attempt)
    with Heartbeat(beat) as heartbeat:
        result = run(spec, heartbeat.note, partial(leave_letter, spec, key=key))
    send_result(result, key=key)
    give_back_memory()
