"""Jobs of the ledger, queue `control`."""

from apps.outbox.links import link
from apps.rollouts import services


@link("rollouts.build")
def build(task_id: int) -> None:
    services.build_rollouts(task_id, by="ledger")
