"""Conversations that the gateway saw, turn by turn."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Sum

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.inference.models import Exchange, Session
from apps.inference.selectors import read_conversations
from tentalis.core.lineage import Conversation

PAGE = 25
TURNS = 20
MOST_MESSAGES = 40
MOST_CALLS = 20
MOST_ARGUMENT_CHARS = 20_000
EXACT = ("prompt_token_ids", "token_ids", "logprobs", "sampled")


@dataclass(frozen=True)
class SessionRow:
    """One line of the list."""

    session: Session
    exchanges: int
    tokens: int


@dataclass(frozen=True)
class Said:
    """One message as a person reads it. `calls`: (tool, what it was given, by name where it has names)."""

    role: str
    text: str
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()


@dataclass(frozen=True)
class Turn:
    """One request and its answer: only what is new since the turn before.

    Attributes:
        hidden: new messages beyond `MOST_MESSAGES`.
    """

    exchange: Exchange
    messages: Sequence[Said]
    answer: Said
    adapter: Adapter | None
    hidden: int


@dataclass(frozen=True)
class SessionView:
    """A page of a session's turns, oldest first; `newer` is the id to go on above."""

    session: Session
    turns: Sequence[Turn]
    newer: int | None
    exchanges: int
    prompt_tokens: int
    completion_tokens: int

    @property
    def subject(self) -> str:
        """What live updates call it."""
        return f"session:{self.session.pk}"


def find_sessions(
    project: Project, *, worker: str = "", key: str = "", state: str = "", before: int | None = None
) -> tuple[list[SessionRow], int | None]:
    """A page of sessions, newest first, and the id to go on below.

    Args:
        key: how its key begins.
        state: open, closed or "" for both.
    """
    sessions = Session.objects.filter(project=project)
    if worker:
        sessions = sessions.filter(worker_name=worker)
    if key:
        sessions = sessions.filter(key__startswith=key)
    if state:
        sessions = sessions.filter(closed_at__isnull=state == "open")
    if before is not None:
        sessions = sessions.filter(pk__lt=before)
    found = list(sessions.order_by("-id")[: PAGE + 1])
    page = found[:PAGE]
    rows: Any = (
        Exchange.objects.filter(session__in=page)
        .order_by()
        .values("session")
        .annotate(count=Count("pk"), prompt=Sum("prompt_tokens"), completion=Sum("completion_tokens"))
    )
    totals = {row["session"]: (row["count"], row["prompt"] + row["completion"]) for row in rows}
    return [SessionRow(one, *totals.get(one.pk, (0, 0))) for one in page], page[-1].pk if len(found) > PAGE else None


def show_session(project: Project, session_id: int, *, after: int | None = None) -> SessionView | None:
    session = Session.objects.filter(project=project, pk=session_id).first()
    if session is None:
        return None
    exchanges = Exchange.objects.filter(session=session).defer(*EXACT)
    page = exchanges if after is None else exchanges.filter(pk__gt=after)
    found = list(page.order_by("id")[: TURNS + 1])
    last = exchanges.filter(pk__lte=after).order_by("-id").first() if after is not None else None
    conversations = read_conversations([*found[:TURNS], *([last] if last else [])], tokens=False)
    known = _known_after(conversations.get(last.pk)) if last else []
    names = {exchange.adapter_name for exchange in found if exchange.adapter_name}
    adapters = {one.name: one for one in Adapter.objects.filter(project=project, name__in=names).defer("manifest")}
    turns = []
    for exchange in found[:TURNS]:
        conversation = conversations.get(exchange.pk)
        turns.append(_make_turn(exchange, conversation, known, adapters.get(exchange.adapter_name)))
        known = _known_after(conversation)
    totals = exchanges.aggregate(n=Count("pk"), prompt=Sum("prompt_tokens"), completion=Sum("completion_tokens"))
    return SessionView(
        session=session,
        turns=turns,
        newer=found[TURNS - 1].pk if len(found) > TURNS else None,
        exchanges=totals["n"],
        prompt_tokens=totals["prompt"] or 0,
        completion_tokens=totals["completion"] or 0,
    )


def _make_turn(
    exchange: Exchange, conversation: Conversation | None, known: Sequence[Any], adapter: Adapter | None
) -> Turn:
    messages = conversation.messages if conversation else []
    start = 0
    while start < min(len(messages), len(known)) and _is_same(messages[start], known[start]):
        start += 1
    new = messages[start:]
    return Turn(
        exchange=exchange,
        messages=[read_message(message) for message in new[-MOST_MESSAGES:]],
        answer=Said("assistant", exchange.text, read_calls(exchange.tool_calls)),
        adapter=adapter,
        hidden=max(0, len(new) - MOST_MESSAGES),
    )


def read_message(message: Any) -> Said:
    """A chat message of any of the dialects: text, or parts of which some are text."""
    if not isinstance(message, Mapping):
        return Said("other", str(message))
    return Said(
        str(message.get("role", "other")), _read_text(message.get("content")), read_calls(message.get("tool_calls"))
    )


def read_calls(calls: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """(tool, what it was given) of a message's tool calls."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for call in calls[:MOST_CALLS] if isinstance(calls, list) else []:
        given = call.get("function", call) if isinstance(call, Mapping) else {}
        if isinstance(given, Mapping):
            found.append((str(given.get("name", "?")), _read_arguments(given.get("arguments", given.get("input")))))
    return found


def _read_arguments(given: Any) -> Mapping[str, Any]:
    """Arguments by name; what has no names, or cannot be read, stands as it is."""
    if isinstance(given, str) and len(given) <= MOST_ARGUMENT_CHARS:
        try:
            given = json.loads(given)
        except ValueError:
            return {"": given}
    return given if isinstance(given, Mapping) else {"": "" if given is None else str(given)}


def _read_text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(_read_part(part) for part in content)
    return "" if content is None else str(content)


def _read_part(part: Any) -> str:
    if isinstance(part, Mapping):
        return str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]"
    return str(part)


def _known_after(conversation: Conversation | None) -> list[Any]:
    """What the next request repeats: this one and its answer."""
    if conversation is None:
        return []
    return [*conversation.messages, conversation.answer or {"role": "assistant", "content": ""}]


def _is_same(message: Any, known: Any) -> bool:
    one, other = read_message(message), read_message(known)
    return one.role == other.role and one.text.strip() == other.text.strip()
