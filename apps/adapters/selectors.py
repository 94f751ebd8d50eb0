"""Reads of adapters and deployments."""

from apps.adapters.models import Adapter, Deployment
from apps.workers.models import Worker


def find_deployed(worker: Worker) -> Adapter | None:
    """The adapter that serves a worker now; None for the base model."""
    deployment = Deployment.objects.select_related("adapter").filter(worker=worker).first()
    return deployment.adapter if deployment else None


def find_anchor(worker: Worker) -> Adapter | None:
    """The adapter last proved better; None while that is the base model."""
    return Adapter.objects.filter(worker=worker, is_anchor=True).first()
