"""Cutting sessions into turns: each exchange gets its one place, each turn is closed once."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models.functions import Now

from apps.audit.services import move
from apps.conversations.models import Conversation, Turn, TurnExchange
from apps.inference.models import Exchange, Session
from apps.inference.selectors import read_conversations
from apps.outbox.services import final_write
from tentalis.core.canon import canonical_json
from tentalis.core.conversations.turns import Began, digest_words, find_change, find_own_words, find_words, goes_on

MOST_EXCHANGES = 500
"""Cut in one transaction; what is left is cut next time."""

_DUE = """
SELECT session.id, session.project_id
FROM inference_session session
LEFT JOIN conversations_conversation conversation ON conversation.session_id = session.id
WHERE session.project_id = ANY(%(projects)s)
  AND session.last_seen_at > now() - make_interval(secs => %(remembered_s)s)
  AND (conversation.seen_at IS NULL OR session.last_seen_at > conversation.seen_at
       OR (session.closed_at IS NOT NULL AND EXISTS (
           SELECT FROM conversations_turn turn WHERE turn.session_id = session.id AND turn.state = 'open')))
ORDER BY session.last_seen_at
LIMIT %(limit)s
"""
_CLOSE_IDLE = """
UPDATE inference_session SET closed_at = now()
WHERE id IN (SELECT id FROM inference_session
             WHERE project_id = %s AND closed_at IS NULL AND last_seen_at < now() - make_interval(secs => %s)
             ORDER BY last_seen_at LIMIT 1000 FOR UPDATE SKIP LOCKED)
"""


def find_due_sessions(project_ids: Sequence[int], *, remembered_s: float, limit: int = 500) -> list[tuple[int, int]]:
    """(session id, project id) of sessions with something to cut, longest waiting first.

    Args:
        remembered_s: sessions silent for longer are left alone: a project that begins to learn begins with its present.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DUE, {"projects": list(project_ids), "remembered_s": remembered_s, "limit": limit})
        return [(session, project) for session, project in cursor.fetchall()]


def close_idle_sessions(project_id: int, *, idle_s: float) -> int:
    """Say that sessions nobody used for so long are done. Returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(_CLOSE_IDLE, [project_id, idle_s])
        return int(cursor.rowcount)


def cut_session(session_id: int, *, by: str) -> None:
    """Give the session's new exchanges their places; close the turns that are over. One transaction."""
    with final_write():
        Conversation.objects.get_or_create(session_id=session_id)
        conversation = Conversation.objects.select_for_update().get(session_id=session_id)
        session = Session.objects.get(pk=session_id)  # read before its exchanges: a later one moves last_seen_at
        cutter = _Cutter(session, list(conversation.heard), by)
        new = list(
            Exchange.objects.filter(session_id=session_id, place_in_turn__isnull=True)
            .defer("prompt_token_ids", "token_ids", "logprobs", "sampled")
            .order_by("id")[: MOST_EXCHANGES + 1]
        )
        has_more = len(new) > MOST_EXCHANGES
        conversations = read_conversations(new[:MOST_EXCHANGES], tokens=False)
        for exchange in new[:MOST_EXCHANGES]:
            cutter.place(exchange, conversations[exchange.pk].messages)
        TurnExchange.objects.bulk_create(cutter.places)
        is_quiet = Session.objects.filter(pk=session_id, last_seen_at=session.last_seen_at).exists()
        if session.closed_at is not None and is_quiet and not has_more:
            cutter.end(session.closed_at)
        conversation.heard = cutter.heard
        conversation.seen_at = conversation.seen_at if has_more else session.last_seen_at
        conversation.save(update_fields=["heard", "seen_at"])


@dataclass
class _Cutter:
    """One pass over a session's new exchanges."""

    session: Session
    heard: list[str]
    by: str
    places: list[TurnExchange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.turn: Turn | None = Turn.objects.filter(session=self.session, state=Turn.State.OPEN).first()
        last = Turn.objects.filter(session=self.session).order_by("-number").first()
        self.next_number = 0 if last is None else last.number + 1
        self._last: Exchange | None = None
        if self.turn is not None:
            place = self.turn.places.filter(is_part=True).select_related("exchange").order_by("exchange_id").last()
            self._last = place.exchange if place else None

    def place(self, exchange: Exchange, messages: Sequence[Any]) -> None:
        """Find an exchange's place: side work and second choices have none in a turn's own work."""
        if exchange.turn != "main" or exchange.choice:
            self._put(exchange, is_part=False)
            return
        words = find_words(messages)
        digests = [digest_words(one) for one in words]
        change = find_change(self.heard, digests)
        request = digest_request(messages)
        if change.began is not None:
            heard_from = change.start
            self._begin(change.began, heard_from, max(heard_from, find_own_words(messages)), request)
            self.heard = digests
            self._put(exchange, is_part=True)
        elif self.turn is None:
            if words:  # the same words again after the turn was closed
                self._begin(Began.AGAIN, len(words) - 1, len(words) - 1, request)
            self._put(exchange, is_part=bool(words))
        elif goes_on(messages):
            self._put(exchange, is_part=True, request=request)
        elif request == self.turn.request_digest:
            if self._last is not None and is_final(self._last):
                self._begin(Began.AGAIN, self.turn.words_from, self.turn.words_from, request)
            self._put(exchange, is_part=True)
        else:
            self._put(exchange, is_part=False)

    def end(self, closed_at: datetime) -> None:
        """Close the last turn: nobody speaks on."""
        if self.turn is not None:
            is_idle = closed_at > self.session.last_seen_at
            self._close(Turn.ClosedBy.IDLE if is_idle else Turn.ClosedBy.DONE)

    def _begin(self, began: Began, heard_from: int, words_from: int, request: str) -> None:
        if self.turn is not None:
            self._close(Turn.ClosedBy.NEXT)
        self.turn = Turn.objects.create(
            project_id=self.session.project_id,
            session=self.session,
            number=self.next_number,
            began=began.value,
            heard_from=heard_from,
            words_from=words_from,
            request_digest=request,
        )
        self.next_number += 1

    def _close(self, closed_by: Turn.ClosedBy) -> None:
        assert self.turn is not None
        payload = {"session": self.session.pk, "by": str(closed_by.value)}
        move(self.turn, Turn.State.CLOSED, by=self.by, payload=payload, closed_by=closed_by, closed_at=Now())
        self.turn, self._last = None, None

    def _put(self, exchange: Exchange, *, is_part: bool, request: str = "") -> None:
        self.places.append(TurnExchange(exchange=exchange, turn=self.turn, is_part=is_part))
        if is_part:
            self._last = exchange
        if request and self.turn is not None:
            self.turn.request_digest = request
            Turn.objects.filter(pk=self.turn.pk).update(request_digest=request)


def is_final(exchange: Exchange) -> bool:
    """Whether an exchange gave the person an answer."""
    return exchange.status < 400 and not exchange.is_truncated and not exchange.tool_calls and bool(exchange.text)


def digest_request(messages: Sequence[Any]) -> str:
    """A short name of a whole conversation."""
    return hashlib.sha256(canonical_json(list(messages))).hexdigest()[:16]
