"""Sending specs to the training box: a broker message by name, nothing of it is imported."""

import redis
from django.conf import settings
from kombu.exceptions import OperationalError as BrokerError

from apps.outbox.errors import BrokerAwayError
from tentalis.celery import app
from tentalis.core.contracts import TrainSpec
from tentalis.core.letters import draw_key

TRAIN = "gpu.train"
QUEUE = "gpu"
TINKER_QUEUE = "tinker"
"""Of trainings that only wait for a service, so that the box stays free; its process is there when there is a key."""


def choose_queue(backend: str) -> str:
    """`gpu`, or the backend's own."""
    return TINKER_QUEUE if backend == "tinker" and settings.TENTALIS["TINKER_API_KEY"] else QUEUE


def send_spec(spec: TrainSpec) -> None:
    """Put a training job on its queue.

    Raises:
        BrokerAwayError: it could not be sent.
    """
    args = [spec.to_json(), key_of(spec)]
    try:
        app.signature(TRAIN, args=args, queue=choose_queue(spec.backend), immutable=True).apply_async(retry=False)
    except (BrokerError, redis.RedisError, OSError) as error:
        raise BrokerAwayError(f"the broker cannot be reached: {error}") from error


def key_of(spec: TrainSpec) -> str:
    """What this attempt's letters are signed with. Drawn anew each time it is needed, stored nowhere."""
    return draw_key(settings.SECRET_KEY, run_id=spec.run_id, attempt=spec.attempt, spec_hash=spec.content_hash)
