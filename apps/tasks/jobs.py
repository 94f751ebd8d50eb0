"""Jobs of queue `workers`."""

from collections.abc import Sequence

from apps.outbox.links import set_link
from apps.tasks import handing_in, services


@set_link("tasks.work")
def work(task_ids: Sequence[int]) -> None:
    if not services.work_tasks(task_ids, by="worker"):
        handing_in.bind_calls(task_ids)
