"""Reads of adapters and deployments."""

from collections.abc import Mapping

from apps.adapters.models import Adapter, Deployment, Verdict
from apps.workers.models import Worker
from tentalis.core.learning.canary_routing import is_canary

BASE = "the base model"
"""What serves before any adapter, in words."""


def find_deployed(worker: Worker, *, end_user: str = "") -> Adapter | None:
    """The adapter that serves a person who asks a worker now: their own, else the worker's; None for the base model.

    Args:
        worker: whose line it is: `Worker.line` of who is asked.
        end_user: "" for somebody who has none of their own.
    """
    at_work = Deployment.objects.select_related("adapter").filter(
        worker=worker, end_user__in={end_user, ""}, adapter__isnull=False
    )
    deployment = at_work.order_by("-end_user").first()
    return deployment.adapter if deployment else None


def find_anchor(adapter: Adapter) -> Adapter | None:
    """The adapter last proved better in an adapter's line; None while that is the base model.

    A person's line has none before its first proof: then it is the worker's last one from before the two parted.
    """
    line = Adapter.objects.filter(worker=adapter.worker_id, end_user=adapter.end_user)
    anchor = line.filter(is_anchor=True).first()
    if anchor is not None or not adapter.end_user:
        return anchor
    first = line.filter(parent__end_user="").order_by("-line_version").select_related("parent").first()
    if first is None or first.parent is None:
        return None
    proofs = Verdict.objects.filter(question=Verdict.Question.PROVED, outcome=Verdict.Outcome.YES)
    before = Adapter.objects.filter(
        worker=adapter.worker_id, end_user="", line_version__lte=first.parent.line_version, verdicts__in=proofs
    )
    return before.order_by("-line_version").first()


def find_fallback(adapter: Adapter | None) -> Adapter | None:
    """What served an adapter's line before it and may serve again; None: the base model, or what serves everybody."""
    before = adapter.parent if adapter else None
    while before is not None and (before.barred or before.state != Adapter.State.RETIRED):
        before = before.parent
    return before if before is not None and adapter is not None and before.end_user == adapter.end_user else None


def find_returning(deployment: Deployment) -> Adapter | None:
    """What a roll back puts into service: what served before, or where that may not serve again, what served before
    that; None: the base model, or what serves everybody."""
    previous = deployment.previous
    if previous is None or (
        not previous.barred and Adapter.State.DEPLOYED in Adapter.MOVES[Adapter.State(previous.state)]
    ):
        return previous
    return find_fallback(previous)


def find_deployment(worker: Worker, *, end_user: str = "") -> Deployment | None:
    """The deployment of a worker's line, or that of exactly one person; None where nothing was ever deployed for them.

    Args:
        worker: whose line it is: `Worker.line` of who is asked.
    """
    deployments = Deployment.objects.select_related("adapter", "previous", "canary")
    return deployments.filter(worker=worker, end_user=end_user).first()


def choose_adapters(worker: Worker, tasks: Mapping[int, bool]) -> dict[int, Adapter | None]:
    """Task id -> the adapter that does it: what serves the worker's line or, for its share of new tasks, the canary.

    Asked again it answers the same, as long as the deployment does not move.

    Args:
        tasks: id -> whether it is new; one that was tried before goes to what serves.
    """
    at_work = Deployment.objects.filter(worker=worker.line, end_user="").select_related("adapter")
    deployment = at_work.first()  # few have a canary: it is read where it is chosen
    if deployment is None:
        return dict.fromkeys(tasks)
    return {
        task_id: deployment.canary if is_new and goes_to_canary(deployment, task_id) else deployment.adapter
        for task_id, is_new in tasks.items()
    }


def goes_to_canary(deployment: Deployment, task_id: int) -> bool:
    """Whether a new task is one of the canary's."""
    if deployment.canary_id is None or task_id <= deployment.canary_after_task:
        return False
    return is_canary(f"{deployment.epoch}:{deployment.canary_id}:{task_id}", percent=deployment.canary_percent)


def find_trouble(worker_id: int, *, end_user: str = "") -> str:
    """Why what serves a line is not what should, in words; "" while it is, and where nothing serves."""
    found = Deployment.objects.filter(worker=worker_id, end_user=end_user).values_list("trouble", flat=True).first()
    return found or ""
