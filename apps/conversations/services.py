"""What becomes of a turn that could not be read."""

from apps.audit.services import move
from apps.conversations.models import Turn
from tentalis.core.field_limits import MAX_REASON_CHARS


def fail_turn(turn_id: int, *, link: str, reason: str, by: str) -> None:
    """Say that a turn could not be read. One that is settled is left alone."""
    turn = Turn.objects.get(pk=turn_id)
    if turn.state == Turn.State.CLOSED:
        move(turn, Turn.State.FAILED, by=by, payload={"link": link}, reason=f"{link}: {reason}"[:MAX_REASON_CHARS])


def revive_turn(turn_id: int, *, link: str, by: str) -> None:
    """Take a turn up again that could not be read."""
    turn = Turn.objects.get(pk=turn_id)
    if turn.state == Turn.State.FAILED:
        move(turn, Turn.State.CLOSED, by=by, payload={"link": link}, reason="")
