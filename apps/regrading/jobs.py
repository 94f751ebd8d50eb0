"""The job that grades anew, queue `scorers`."""

from apps.outbox.links import link
from apps.regrading import services


@link("regrading.regrade")  # as stored in rows of segments
def regrade(regrading_id: int) -> None:
    services.regrade(regrading_id, by="regrading")
