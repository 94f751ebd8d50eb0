"""The job that probes a judge, queue `scorers`."""

from apps.calibration.selectors import find_words_beside_people
from apps.judges import services
from apps.outbox.links import link


@link("calibration.probe_judge")  # as stored in rows of segments
def probe_judge(probe_id: int) -> None:
    services.probe_judge(probe_id, people=find_words_beside_people, by="judges")
