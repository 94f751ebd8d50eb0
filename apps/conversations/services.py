"""Conversations: what other apps may call."""

from apps.audit.services import move
from apps.conversations.forgetting import Found, find_person, forget_person
from apps.conversations.forgotten import drop_sealed, hash_subject
from apps.conversations.models import Turn
from apps.conversations.policy import read_policy
from apps.conversations.segmentation import close_idle_sessions, cut_session, find_due_sessions
from apps.conversations.signal_extraction import hear_turn
from apps.conversations.submitted import aim_at_attempt, find_attempt
from apps.conversations.task_building import find_turn, open_task, settle_turn
from tentalis.core.field_limits import MAX_REASON_CHARS

__all__ = [
    "Found",
    "aim_at_attempt",
    "close_idle_sessions",
    "cut_session",
    "drop_sealed",
    "fail_turn",
    "find_attempt",
    "find_due_sessions",
    "find_person",
    "find_turn",
    "forget_person",
    "hash_subject",
    "hear_turn",
    "open_task",
    "read_policy",
    "revive_turn",
    "settle_turn",
]


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
