"""Jobs of queues `workers` and `episodes`."""

from collections.abc import Sequence

from apps.outbox.links import link, set_link
from apps.tasks import handing_in, playing, services


@set_link("tasks.work")
def work(task_ids: Sequence[int]) -> None:
    if not services.work_tasks(task_ids, by="worker"):
        handing_in.bind_calls(task_ids)


@link("tasks.play", time_s=playing.find_time_s)
def play(task_id: int) -> None:
    playing.play_task(task_id, by="worker")
