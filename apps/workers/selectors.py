"""Reads about workers that more than one place needs."""

from apps.workers.kinds import find_kind
from apps.workers.models import Worker


def find_base_model(worker: Worker) -> str:
    """Name the worker's model server knows its base model by; "" for a worker without a model."""
    kind = find_kind(worker.kind)
    if not kind.asks_model:
        return ""
    return worker.base_model or kind.base_model or (worker.provider.default_model if worker.provider else "")
