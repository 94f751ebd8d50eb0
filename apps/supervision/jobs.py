"""Jobs of queue `episodes`: the platform's own agents at work, who ask before they act."""

from apps.outbox.links import link
from apps.supervision.approving import ProposedCalls
from apps.tasks import playing


@link("tasks.play", time_s=playing.find_time_s)  # as stored in rows of segments
def play(task_id: int) -> None:
    playing.play_task(task_id, by="worker", approvals=ProposedCalls())
