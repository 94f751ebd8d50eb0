"""Jobs of queue `scorers`."""

from apps.outbox.links import link
from apps.scoring import services


@link("scoring.score")
def score(task_id: int) -> None:
    services.score_task(task_id)
