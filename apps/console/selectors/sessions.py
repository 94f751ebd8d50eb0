"""Conversations that the gateway saw, call by call, and what was learned from them."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, Sum

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.base.pages import take_page
from apps.conversations.models import Turn, TurnExchange, TurnSignal
from apps.feedback.models import Feedback
from apps.inference.models import Exchange, Session
from apps.inference.selectors import read_conversations
from apps.rollouts.models import TrainingUse
from tentalis.core.conversation_delta import Conversation

PAGE = 25
TROUBLE = Q(status__gte=400) | ~Q(error="") | Q(is_truncated=True) | Q(is_mixed=True)
TURNS = 20
MOST_MESSAGES = 40
MOST_CALLS = 20
MOST_ARGUMENT_CHARS = 20_000
EXACT = ("prompt_token_ids", "token_ids", "logprobs", "sampled")


@dataclass(frozen=True)
class SessionRow:
    """One line of the list.

    Attributes:
        troubles: calls that failed, broke off or had two adapters.
        usd: of the calls whose price was known; None where none was.
    """

    session: Session
    exchanges: int = 0
    tokens: int = 0
    troubles: int = 0
    usd: Decimal | None = None


@dataclass(frozen=True)
class ShownMessage:
    """One message as a person reads it. `calls`: (tool, what it was given, by name where it has names)."""

    role: str
    text: str
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()


@dataclass(frozen=True)
class Learned:
    """What a person's words and everything up to their next ones became.

    Attributes:
        signals: what those next words showed.
        uses: what trained on it.
    """

    turn: Turn
    signals: Sequence[TurnSignal]
    feedback: Sequence[Feedback]
    uses: Sequence[TrainingUse]


@dataclass(frozen=True)
class ShownCall:
    """One request and its answer: only what is new since the call before.

    Attributes:
        hidden: new messages beyond `MOST_MESSAGES`.
        learned: of the turn it belongs to, where it is the turn's first call on the page.
        is_part: the turn's work goes through it; False for what the agent asked beside.
    """

    exchange: Exchange
    messages: Sequence[ShownMessage]
    answer: ShownMessage
    adapter: Adapter | None
    hidden: int
    learned: Learned | None = None
    is_part: bool = True


@dataclass(frozen=True)
class SessionView:
    """A page of a session's calls, oldest first; `newer` is the id to go on above."""

    session: Session
    calls: Sequence[ShownCall]
    newer: int | None
    exchanges: int
    prompt_tokens: int
    completion_tokens: int
    usd: Decimal | None

    @property
    def subject(self) -> str:
        """What live updates call it."""
        return f"session:{self.session.pk}"


def find_sessions(
    project: Project,
    *,
    worker: str = "",
    key: str = "",
    end_user: str = "",
    state: str = "",
    with_trouble: bool = False,
    before: int | None = None,
) -> tuple[list[SessionRow], int | None]:
    """A page of sessions, newest first, and the id to go on below.

    Args:
        key: how its key begins.
        end_user: who talks to the agent, exactly.
        state: open, closed or "" for both.
        with_trouble: only those with a call that failed, broke off or had two adapters.
    """
    sessions = Session.objects.filter(project=project)
    if worker:
        sessions = sessions.filter(worker_name=worker)
    if key:
        sessions = sessions.filter(key__startswith=key)
    if end_user:
        sessions = sessions.filter(end_user=end_user)
    if state:
        sessions = sessions.filter(closed_at__isnull=state == "open")
    if with_trouble:
        sessions = sessions.filter(Exists(Exchange.objects.filter(TROUBLE, session=OuterRef("pk"))))
    page, older = take_page(sessions, before=before, size=PAGE)
    rows: Any = (
        Exchange.objects.filter(session__in=page)
        .order_by()
        .values("session")
        .annotate(
            count=Count("pk"),
            prompt=Sum("prompt_tokens"),
            completion=Sum("completion_tokens"),
            troubles=Count("pk", filter=TROUBLE),
            usd=Sum("cost_usd"),
        )
    )
    totals = {
        row["session"]: (row["count"], row["prompt"] + row["completion"], row["troubles"], row["usd"]) for row in rows
    }
    return [SessionRow(one, *totals.get(one.pk, ())) for one in page], older


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
    learned, beside = _find_learned([exchange.pk for exchange in found[:TURNS]])
    calls = []
    for exchange in found[:TURNS]:
        conversation = conversations.get(exchange.pk)
        call = _make_call(exchange, conversation, known, adapters.get(exchange.adapter_name))
        calls.append(replace(call, learned=learned.get(exchange.pk), is_part=exchange.pk not in beside))
        known = _known_after(conversation)
    totals = exchanges.aggregate(
        n=Count("pk"), prompt=Sum("prompt_tokens"), completion=Sum("completion_tokens"), usd=Sum("cost_usd")
    )
    return SessionView(
        session=session,
        calls=calls,
        newer=found[TURNS - 1].pk if len(found) > TURNS else None,
        exchanges=totals["n"],
        prompt_tokens=totals["prompt"] or 0,
        completion_tokens=totals["completion"] or 0,
        usd=totals["usd"],
    )


def _find_learned(exchange_ids: Sequence[int]) -> tuple[dict[int, Learned], set[int]]:
    """Of the calls on a page: the first of each turn with what became of the turn, and those beside a turn's work."""
    places = TurnExchange.objects.filter(exchange__in=exchange_ids, turn__isnull=False)
    places = places.select_related("turn__task", "turn__parent", "turn__beside")
    first: dict[int, int] = {}
    turns: dict[int, Turn] = {}
    beside = set()
    for place in places.order_by("exchange"):
        if place.turn is not None:
            turns[place.turn.pk] = place.turn
            first.setdefault(place.turn.pk, place.exchange_id)
        if not place.is_part:
            beside.add(place.exchange_id)
    if not turns:
        return {}, beside
    tasks = {turn.task_id: pk for pk, turn in turns.items() if turn.task_id}
    signals, feedback, uses = defaultdict(list), defaultdict(list), defaultdict(list)
    for signal in TurnSignal.objects.filter(turn__in=turns):
        signals[signal.turn_id].append(signal)
    for given in Feedback.objects.standing().filter(task__in=tasks).order_by("pk"):
        feedback[tasks[given.task_id]].append(given)
    trained = TrainingUse.objects.filter(rollout__task__in=tasks).select_related("batch__run", "rollout")
    for use in trained.order_by("pk"):
        uses[tasks[use.rollout.task_id]].append(use)
    return {first[pk]: Learned(turn, signals[pk], feedback[pk], uses[pk]) for pk, turn in turns.items()}, beside


def _make_call(
    exchange: Exchange, conversation: Conversation | None, known: Sequence[Any], adapter: Adapter | None
) -> ShownCall:
    messages = conversation.messages if conversation else []
    start = 0
    while start < min(len(messages), len(known)) and _is_same(messages[start], known[start]):
        start += 1
    new = messages[start:]
    return ShownCall(
        exchange=exchange,
        messages=[read_message(message) for message in new[-MOST_MESSAGES:]],
        answer=ShownMessage("assistant", exchange.text, read_calls(exchange.tool_calls)),
        adapter=adapter,
        hidden=max(0, len(new) - MOST_MESSAGES),
    )


def read_message(message: Any) -> ShownMessage:
    """A chat message of any of the dialects: text, or parts of which some are text."""
    if not isinstance(message, Mapping):
        return ShownMessage("other", str(message))
    return ShownMessage(
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
        except (ValueError, RecursionError):
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
