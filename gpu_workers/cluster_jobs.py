"""Poll a run that trains on a cluster, on queue `cluster`: start its job or look how far it is, and be done.

It may come any number of times, at any time: the run's job on the cluster has one name, and its result is written once.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import redis

from gpu_workers.artifacts import ArtifactError, path_from_uri
from gpu_workers.backends.errors import CancelledError, TrainingError
from gpu_workers.backends.openrlhf.backend import advance, find_cluster
from gpu_workers.backends.openrlhf.ray_jobs import ClusterAwayError
from gpu_workers.celery import app
from gpu_workers.posting import leave_letter, send_heartbeat, send_result
from gpu_workers.runner import CANCEL_FILE, PAUSE_FILE, RESULT_FILE, describe_failure, run
from tentalis.core.contracts import ContractError, TrainSpec

CLUSTER_QUEUE = "cluster"
SEND_FOR_S = 5.0

logger = logging.getLogger(__name__)


@app.task(name="gpu.tend", queue=CLUSTER_QUEUE)
def poll_job(spec_json: Mapping[str, Any], reward_url: str, key: str = "") -> None:
    """Start or look at the cluster's job of a `TrainSpec`; its result goes home once it ended or cannot begin.

    A cluster that does not answer is no failure of the run: no sign of life goes home, and the sweep decides.

    Args:
        key: of this attempt, which its letters home are signed with.
    Raises:
        ContractError: the argument is no spec.
    """
    spec = TrainSpec.from_json(spec_json)
    latest: dict[str, float] = {}
    try:
        is_over = _is_over(spec, reward_url, latest)
    except ClusterAwayError as error:
        logger.warning("run %d attempt %d: %s", spec.run_id, spec.attempt, error)
        return
    except (TrainingError, ContractError, ArtifactError) as error:
        failure = describe_failure(error, run_id=spec.run_id, attempt=spec.attempt)
        send_result(failure, key=key, for_s=SEND_FOR_S)
        return
    if is_over:
        result = run(spec, latest.update, partial(leave_letter, spec, key=key))
        send_result(result, key=key, for_s=SEND_FOR_S)
        return
    try:
        send_heartbeat(latest, key=key, run_id=spec.run_id, attempt=spec.attempt)
    except (redis.RedisError, OSError) as error:
        logger.warning("a heartbeat could not be sent: %s", error)


def _is_over(spec: TrainSpec, reward_url: str, latest: dict[str, float]) -> bool:
    """Whether there is a result to make or to send: `run` then finds the ended job, or that nobody wants it.

    Raises:
        TrainingError, ContractError, ArtifactError: it cannot begin. ClusterAwayError: the cluster did not answer.
    """
    try:
        output = path_from_uri(spec.output_uri)
        cancel, pause = output / CANCEL_FILE, output / PAUSE_FILE
        if (output / RESULT_FILE).exists():
            return True
        job = advance(
            spec,
            find_cluster(),
            output=output,
            report=latest.update,
            is_cancelled=lambda: cancel.exists() or pause.exists(),
            reward_url=reward_url,
        )
    except CancelledError:
        return True
    return job is not None
