"""Jobs of the ledger, queue `control`."""

from collections.abc import Sequence

from apps.outbox.links import set_link
from apps.rollouts import services


@set_link("rollouts.build")
def build(task_ids: Sequence[int]) -> None:
    services.build_rollouts(task_ids, by="ledger")
