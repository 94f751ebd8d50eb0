"""Jobs of queues `workers` and `gates`."""

from collections.abc import Sequence

from apps.outbox.links import link, set_link
from apps.tasks import handing_in, offering, services
from apps.worlds.playing import find_measuring_time_s


@set_link("tasks.work")
def work(task_ids: Sequence[int]) -> None:
    if not services.work_tasks(task_ids, by="worker"):
        handing_in.bind_calls(task_ids)


@link("evals.measure", time_s=find_measuring_time_s)  # as stored in rows of segments
def measure(evaluation_id: int) -> None:
    offering.measure(evaluation_id, by="evals")
