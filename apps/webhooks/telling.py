"""What the timetable does for webhooks: write the messages that are due, and begin to send them."""

from functools import lru_cache

from apps.webhooks.enqueueing import enqueue_all
from apps.webhooks.posting import Poster
from apps.webhooks.sending import Sender


def tell() -> None:
    """Write the messages due and begin sending; waits for no address."""
    enqueue_all()
    _shared_sender().send_due()


@lru_cache(maxsize=1)
def _shared_sender() -> Sender:
    return Sender(Poster())
