"""Reads about workers that more than one place needs."""

from apps.workers.agents.desk import BASE_MODEL
from apps.workers.models import Worker


def find_base_model(worker: Worker) -> str:
    """Name the worker's model server knows its base model by; "" for a worker without a model."""
    if worker.kind == Worker.Kind.ECHO:
        return ""
    if worker.base_model:
        return worker.base_model
    if worker.kind == Worker.Kind.DESK:
        return BASE_MODEL
    return worker.provider.default_model if worker.provider else ""
