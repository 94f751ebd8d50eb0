"""Jobs: a review is opened on queue `gates`, hints are drawn on queue `hints`."""

from collections.abc import Sequence

from apps.feedback import create_reviews, hints
from apps.outbox.links import set_link


@set_link("feedback.open_review")
def open_review(task_ids: Sequence[int]) -> None:
    create_reviews.open_reviews(task_ids)


@set_link("feedback.extract_hint")
def extract_hint(task_ids: Sequence[int]) -> None:
    hints.extract_hints(task_ids)
