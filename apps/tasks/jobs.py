"""Jobs of queue `workers`."""

from apps.outbox.links import link
from apps.tasks import services


@link("tasks.work")
def work(task_id: int) -> None:
    services.work_task(task_id, by="worker")
