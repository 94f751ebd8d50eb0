"""Exchanges as they were said: what is stored as the difference from an earlier one, put together again.

However many exchanges are asked for, it is one query, and none where each of them stands alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from django.db import connection

from apps.base.errors import ConflictError
from apps.inference.models import Exchange, Session
from tentalis.core.conversation_delta import Conversation, Link, join_links

_LINK = """one.id, one.parent_id, one.shared_messages, one.shared_tokens, one.messages, one.text, one.tool_calls,
    one.request, one.prompt_token_ids, one.token_ids"""
_CHAIN = """
    WITH RECURSIVE leaf (id, parent_id) AS ({leaves}), chain (id, parent_id) AS (
        SELECT id, parent_id FROM leaf
        UNION
        SELECT parent.id, parent.parent_id FROM chain JOIN inference_exchange AS parent ON parent.id = chain.parent_id
    )
    SELECT {columns} FROM chain JOIN inference_exchange AS one ON one.id = chain.id
"""
_LINKS = _CHAIN.format(leaves="SELECT id, parent_id FROM inference_exchange WHERE id = ANY(%s)", columns=_LINK)
_WORDS = _LINKS.replace("one.prompt_token_ids, one.token_ids", "''::bytea, ''::bytea").replace("one.shared_tokens", "0")
LATEST_LINKS = _CHAIN.format(
    leaves="""
        SELECT latest.id, latest.parent_id FROM unnest(%s::int8[]) AS wanted (id) CROSS JOIN LATERAL (
            SELECT id, parent_id FROM inference_exchange WHERE session_id = wanted.id ORDER BY id DESC LIMIT 8
        ) AS latest""",
    columns=f"one.session_id, {_LINK}",
)
"""For sessions' ids: (session, *Link) of their latest exchanges and of all that those stand on."""


_ANSWER_ID = re.compile(r"[a-z]{1,40}[-_]([0-9a-f]{32})")


def read_public_id(text: str) -> UUID | None:
    """An exchange's public id, as it is or in an answer's own (`chatcmpl-…`, `msg_…`); None where it is neither."""
    match = _ANSWER_ID.fullmatch(text)
    try:
        return UUID(match[1] if match is not None else text)
    except ValueError:
        return None


class IncompleteConversationError(ConflictError):
    """A part of the conversation was deleted, so that the rest says something else."""

    code = "conversation_incomplete"


def read_conversations(exchanges: Iterable[Exchange], *, tokens: bool = True) -> dict[int, Conversation]:
    """Each exchange's whole conversation, by primary key; one that lost a part says so in `is_whole`.

    Args:
        tokens: without them there are only messages, answers and requests, at a fraction of the cost.
    """
    exchanges = list(exchanges)
    linked = [exchange.pk for exchange in exchanges if exchange.parent_id is not None]
    links = {exchange.pk: _make_link(exchange, tokens=tokens) for exchange in exchanges if exchange.parent_id is None}
    if linked:
        with connection.cursor() as cursor:
            cursor.execute(_LINKS if tokens else _WORDS, [linked])
            links |= {row[0]: _read_link(row) for row in cursor}
    whole = join_links(links.values())
    return {exchange.pk: whole[exchange.pk] for exchange in exchanges if exchange.pk in whole}


def read_messages(exchange: Exchange) -> list[Any]:
    """The messages of its prompt. Raises IncompleteConversationError where some were deleted."""
    conversation = read_conversations([exchange], tokens=False).get(exchange.pk)
    if conversation is None or not conversation.is_whole:
        raise IncompleteConversationError(f"exchange {exchange.pk}: a part of its conversation was deleted")
    return conversation.messages


def find_session_exchanges(*sessions: Session, after: int = 0, most: int | None = None) -> list[Exchange]:
    """Sessions' exchanges in order, those behind the id `after`."""
    found = Exchange.objects.filter(session__in=sessions, pk__gt=after).order_by("pk")
    return list(found if most is None else found[:most])


def _make_link(exchange: Exchange, *, tokens: bool) -> Link:
    return Link(
        id=exchange.pk,
        parent_id=None,
        shared_messages=exchange.shared_messages,
        shared_tokens=exchange.shared_tokens if tokens else 0,
        messages=exchange.messages if isinstance(exchange.messages, list) else [],
        text=exchange.text,
        tool_calls=exchange.tool_calls if isinstance(exchange.tool_calls, list) else [],
        request=exchange.request,
        prompt_token_ids=bytes(exchange.prompt_token_ids) if tokens else b"",
        token_ids=bytes(exchange.token_ids) if tokens else b"",
    )


def _read_link(row: Sequence[Any]) -> Link:
    """A row as Django's connection gives it: JSON as text."""
    pk, parent_id, messages, tokens, own, text, calls, request, prompt, answer = row
    return Link(
        id=pk,
        parent_id=parent_id,
        shared_messages=messages,
        shared_tokens=tokens,
        messages=_read_list(own),
        text=text,
        tool_calls=_read_list(calls),
        request=_read_object(request),
        prompt_token_ids=bytes(prompt),
        token_ids=bytes(answer),
    )


def _read_list(value: str) -> Sequence[Any]:
    found = orjson.loads(value)
    return found if isinstance(found, list) else []


def _read_object(value: str) -> Mapping[str, Any]:
    found = orjson.loads(value)
    return found if isinstance(found, dict) else {}
