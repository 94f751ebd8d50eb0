"""Jobs of queue `scorers`."""

from collections.abc import Sequence

from apps.outbox.links import link, set_link
from apps.scoring import labelling, services, shadows


@set_link("scoring.score")
def score(task_ids: Sequence[int]) -> None:
    services.score_tasks(task_ids)


@link("scoring.mirror")
def mirror(task_id: int) -> None:
    shadows.mirror_task(task_id)


@link("scoring.label_steps")
def label_steps(worker_id: int) -> None:
    labelling.label_steps(worker_id, by="scorer")
