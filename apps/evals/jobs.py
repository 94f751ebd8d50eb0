"""Jobs on evaluations, queue `gates`."""

from apps.evals import asking
from apps.outbox.links import link


@link("evals.measure")
def measure(evaluation_id: int) -> None:
    asking.measure_asked(evaluation_id, by="evals")
