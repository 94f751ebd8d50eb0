"""Jobs of queue `scorers`."""

from apps.outbox.links import link
from apps.scoring import labelling, services, shadows


@link("scoring.score")
def score(task_id: int) -> None:
    services.score_task(task_id)


@link("scoring.mirror")
def mirror(task_id: int) -> None:
    shadows.mirror_task(task_id)


@link("scoring.label_steps")
def label_steps(worker_id: int) -> None:
    labelling.label_steps(worker_id, by="scorer")
