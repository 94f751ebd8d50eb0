"""An attempt's exact tokens: of its one call, or of several, as few sequences as they are."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from django.db.models import prefetch_related_objects

from apps.inference.models import Exchange
from apps.inference.selectors import IncompleteConversationError, read_conversations
from apps.tasks.drafts import CUT_OFF
from apps.tasks.models import WITH_CALLS, Attempt
from apps.workers.models import Worker
from tentalis.core.conversation_delta import Conversation
from tentalis.core.conversations.joining import Call, Joined, join_calls, split_chains
from tentalis.core.packing import unpack_int32


def find_other_base(exchange: Exchange, worker: Worker) -> str:
    """Why a call's tokens are not those of the worker's base model, in words; "" where they are."""
    if worker.base_since is None or exchange.created_at >= worker.base_since:
        return ""
    return f"its tokens are those of the base model that {worker.name} had until {worker.base_since:%Y-%m-%d %H:%M} UTC"


class TokenPart(NamedTuple):
    """Calls of an attempt that are one sequence of tokens.

    Args:
        exchange: the first of them.
        start: of its tokens among all of the attempt's, in which steps are counted.
        top: (T,) the likeliest tokens at each place of the joined ones, [] where not sampled; None where a call does
            not tell them.
        is_cut: the last of them ended where its length ran out.
    """

    exchange: Exchange
    joined: Joined
    start: int
    top: list[list[tuple[int, float]]] | None
    is_cut: bool


def load_conversations(attempts: Iterable[Attempt]) -> dict[int, Conversation]:
    """The conversations of the attempts' exchanges, by exchange: two queries, however many."""
    attempts = list(attempts)
    prefetch_related_objects(attempts, WITH_CALLS)
    return read_conversations(exchange for attempt in attempts for exchange in list_exchanges(attempt))


def list_exchanges(attempt: Attempt) -> list[Exchange]:
    """The attempt's calls in order."""
    first = [attempt.exchange] if attempt.exchange is not None else []
    return [*first, *(one.exchange for one in attempt.further_calls)]


def read_parts(attempt: Attempt, conversations: Mapping[int, Conversation]) -> list[TokenPart]:
    """The attempt's tokens, calls joined where each goes on where the one before it ended.

    An agent that shows its model something else in between (OpenClaw moves a message of its own) begins a new part: its
    tokens are as exact, only what came before them is told in other tokens. What must not be learnt is taken out of
    the loss.

    Raises:
        IncompleteConversationError: a part of a conversation was deleted.
    """
    calls, made = [], list_exchanges(attempt)
    for exchange in made:
        conversation = conversations[exchange.pk]
        if not conversation.is_whole:
            raise IncompleteConversationError(f"exchange {exchange.pk}: a part of its conversation was deleted")
        prompt = unpack_int32(conversation.prompt_token_ids)
        calls.append(Call(prompt, exchange.unpack_token_ids(), exchange.unpack_logprobs(), exchange.unpack_sampled()))
    parts: list[TokenPart] = []
    place = start = 0
    for chain in split_chains(calls):
        exchanges = made[place : place + len(chain)]
        hidden = [(first - start, end - start) for first, end in attempt.hidden]
        joined = join_calls(chain, hidden=hidden)
        is_cut = exchanges[-1].finish_reason == CUT_OFF
        parts.append(TokenPart(exchanges[0], joined, start, _read_top(exchanges, joined), is_cut))
        place, start = place + len(chain), start + len(joined.tokens)
    return parts


def _read_top(exchanges: Sequence[Exchange], joined: Joined) -> list[list[tuple[int, float]]] | None:
    """(T,) the likeliest tokens at each place of calls that were joined."""
    top: list[list[tuple[int, float]]] = [[] for _ in joined.tokens]
    for exchange, (start, end) in zip(exchanges, joined.spans, strict=True):
        told = exchange.unpack_top()
        if not told:
            return None
        top[start:end] = told
    return top
