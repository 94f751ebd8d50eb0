"""Jobs on evaluations, queue `gates`."""

from apps.evals import asking
from apps.outbox.links import link
from apps.worlds.playing import find_measuring_time_s


@link("evals.measure", time_s=find_measuring_time_s)
def measure(evaluation_id: int) -> None:
    asking.measure_asked(evaluation_id, by="evals")
