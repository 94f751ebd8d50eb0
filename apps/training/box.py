"""Sending specs to the training box: a broker message by name, nothing of it is imported."""

import redis
from kombu.exceptions import OperationalError as BrokerError

from apps.outbox.errors import BrokerAwayError
from tentalis.celery import app
from tentalis.core.contracts import TrainSpec

TRAIN = "gpu.train"
QUEUE = "gpu"


def send_spec(spec: TrainSpec) -> None:
    """Put a training job on queue `gpu`.

    Raises:
        BrokerAwayError: it could not be sent.
    """
    try:
        app.signature(TRAIN, args=[spec.to_json()], queue=QUEUE, immutable=True).apply_async(retry=False)
    except (BrokerError, redis.RedisError, OSError) as error:
        raise BrokerAwayError(f"the broker cannot be reached: {error}") from error
