"""Jobs: a review is opened on queue `control`, hints are drawn on queue `hints`."""

from apps.feedback import services
from apps.outbox.links import link


@link("feedback.open_review")
def open_review(task_id: int) -> None:
    services.open_review(task_id)


@link("feedback.extract_hint")
def extract_hint(task_id: int) -> None:
    services.extract_hint(task_id)
