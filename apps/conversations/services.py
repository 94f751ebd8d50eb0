"""Conversations: what other apps may call."""

from apps.audit.services import move
from apps.conversations.cutting import close_idle_sessions, cut_session, find_due_sessions
from apps.conversations.hearing import hear_turn
from apps.conversations.models import Turn
from apps.conversations.policy import read_policy
from apps.conversations.settling import settle_turn

__all__ = [
    "close_idle_sessions",
    "cut_session",
    "fail_turn",
    "find_due_sessions",
    "hear_turn",
    "read_policy",
    "revive_turn",
    "settle_turn",
]

MAX_REASON_CHARS = 300


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
