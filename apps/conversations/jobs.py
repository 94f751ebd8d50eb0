"""Jobs: sessions are cut and turns settled on queue `control`; a model may be asked about a turn on queue `hints`."""

from apps.conversations.segmentation import cut_session
from apps.conversations.signal_extraction import hear_turn
from apps.conversations.task_building import settle_turn
from apps.outbox.links import link


@link("conversations.cut")
def cut(session_id: int) -> None:
    cut_session(session_id, by="conversations")


@link("conversations.hear")
def hear(turn_id: int) -> None:
    hear_turn(turn_id)


@link("conversations.settle")
def settle(turn_id: int) -> None:
    settle_turn(turn_id)
