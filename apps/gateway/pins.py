"""What answers the calls of one try at a task: one version from its first call to its last, and of an evaluation's try
the very model that is measured, sampled as the evaluation says."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db import connection
from django.utils import timezone

from apps.tasks.models import Task
from apps.workers.kinds import find_kind
from apps.workers.models import Worker
from tentalis.core.sampling import name_knobs

_PIN = """
UPDATE tasks_task SET pins = jsonb_build_object(%(attempt)s, %(adapter)s::text) || pins, updated_at = %(now)s
WHERE id = %(task)s RETURNING pins ->> %(attempt)s
"""
LONGEST = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class KnownTask(NamedTuple):
    """As much of a task as its calls are answered by.

    Args:
        worker: whose it is; "" where no version is kept for its tries: the platform makes them itself.
        pins: try's index -> name of the adapter that answers it, "" for the base model; grows as tries begin.
        sampling: how its worker, or the evaluation it is of, has answers sampled; {}: as each call asks.
        seed: of every call, where it is measured.
        is_measured: it is a try of an evaluation.
        group_size: how many tries it has.
        by_session: its tries say no index, and each is a session of its own.
    """

    pk: int
    worker: str
    pins: dict[str, str]
    sampling: Mapping[str, Any]
    seed: int | None
    is_measured: bool
    group_size: int
    by_session: bool = False


class Pin(NamedTuple):
    """What one call is answered by, whatever it asks for.

    Args:
        adapter: name; "" for the base model. The others as in `KnownTask`.
    """

    worker: str
    adapter: str
    sampling: Mapping[str, Any]
    seed: int | None
    is_measured: bool


def read_task(project: int, pk: int) -> KnownTask | None:
    """None where the project has no such task."""
    found = Task.objects.filter(pk=pk, project_id=project).select_related("worker", "evaluation")
    of_worker = ("worker__name", "worker__kind", "worker__sampling", "worker__base_model")
    task = found.only("pins", "seed", "evaluation", "group_size", *of_worker).first()
    if task is None:
        return None
    evaluation = task.evaluation
    if evaluation is None:
        is_outside = task.worker.kind == Worker.Kind.OUTSIDE
        kind = find_kind(task.worker.kind)
        by_session = kind.through_gateway and bool(task.worker.base_model)
        name = task.worker.name if is_outside or by_session else ""
        sampling = task.worker.sampling if is_outside or kind.flow else {}
        return KnownTask(pk, name, task.pins, sampling, None, False, task.group_size, by_session=by_session)
    sampling = {"temperature": 1.0, **evaluation.asked_with.get("sampling", {})}
    if evaluation.is_greedy:
        sampling["temperature"] = 0.0
    return KnownTask(pk, task.worker.name, task.pins, sampling, task.seed, True, task.group_size)


def keep_pin(task: int, attempt: str, adapter: str) -> str:
    """Note what a try's first call is answered by; what was noted before stays, and is given back."""
    values: dict[str, Any] = {"task": task, "attempt": attempt, "adapter": adapter, "now": timezone.now()}
    with connection.cursor() as cursor:
        cursor.execute(_PIN, values)
        row = cursor.fetchone()
    return adapter if row is None else str(row[0])


def impose(asked: dict[str, Any], pin: Pin, *, whole: Mapping[str, Any], takes_seed: bool) -> None:
    """Put a pin's sampling in the place of what a call asks for.

    Args:
        whole: what has the server draw from the model's whole distribution.
    """
    if "temperature" in pin.sampling:
        for name in name_knobs(asked):
            del asked[name]
        asked.update(whole)
    asked.update({name: value for name, value in pin.sampling.items() if name in {"temperature", "top_p"}})
    if (most := pin.sampling.get("max_tokens")) is not None:
        name = next((name for name in LONGEST if name in asked), "max_tokens")
        told = asked.get(name)
        asked[name] = min(told, most) if type(told) is int else most
    if pin.seed is not None and takes_seed:
        asked["seed"] = pin.seed
