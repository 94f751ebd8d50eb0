"""The job that looks at a task of an own repository, queue `scorers`."""

from apps.outbox.links import link
from apps.worlds.repos import admitting


@link("worlds.admit", time_s=admitting.find_time_s)  # as stored in rows of segments
def admit(admission_id: int) -> None:
    admitting.admit(admission_id, by="worlds")
