"""Jobs of queue `scorers`."""

from apps.outbox.links import link
from apps.scoring import labelling, services


@link("scoring.score")
def score(task_id: int) -> None:
    services.score_task(task_id)


@link("scoring.label_steps")
def label_steps(worker_id: int) -> None:
    labelling.label_steps(worker_id, by="scorer")
