"""One call to a model: what was asked and said, token by token, and what became of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from django.core.cache import cache
from django.db.models import Count, Q

from apps.accounts.models import Project
from apps.adapters.models import Adapter
from apps.base.errors import TentalisError
from apps.console.rendering.tokens import clean_piece
from apps.console.selectors.sessions import MOST_MESSAGES, ShownMessage, read_calls, read_message
from apps.inference.models import Exchange
from apps.inference.selectors import read_conversations
from apps.inference.services import client_for
from apps.rollouts.models import Rollout
from apps.tasks.models import Attempt
from apps.workers.bases import spell_tokens
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from tentalis.core.canon import content_hash
from tentalis.core.conversation_delta import Conversation
from tentalis.core.packing import unpack_int32

MOST_TOKENS = 20_000
MOST_SPELLED = 32_000
SPELLED_FOR_S = 24 * 3600
LEAST_LIKELY = 8
MOST_TOOLS = 40


class OfferedTool(NamedTuple):
    """A tool the model was offered."""

    name: str
    about: str


class Unlikely(NamedTuple):
    """A token the model chose against its own odds. `place` counts from 1."""

    place: int
    word: str
    logprob: float


@dataclass(frozen=True)
class ExchangeView:
    """Everything the page of an exchange shows.

    Attributes:
        conversation: the whole of it; its `is_whole` is False where a part was deleted.
        shared: messages that its parent's conversation holds already. messages: the new ones.
        siblings: the other answers of the same request.
        words: what each token of the answer writes; None where nobody was asked or could say.
        prompt_words: the same of the prompt.
    """

    exchange: Exchange
    conversation: Conversation
    shared: Sequence[ShownMessage]
    messages: Sequence[ShownMessage]
    answer: ShownMessage
    siblings: Sequence[Exchange]
    adapter: Adapter | None
    attempt: Attempt | None
    rollout: Rollout | None
    words: Sequence[str] | None = None
    prompt_words: Sequence[str] | None = None

    @cached_property
    def token_ids(self) -> list[int]:
        return self.exchange.unpack_token_ids()[:MOST_TOKENS]

    @cached_property
    def prompt_token_ids(self) -> list[int]:
        return unpack_int32(self.conversation.prompt_token_ids)

    @cached_property
    def logprobs(self) -> list[float] | None:
        """None where the server told none, or not one for each token."""
        found = self.exchange.unpack_logprobs()[:MOST_TOKENS]
        return found if found and len(found) == len(self.token_ids) else None

    @cached_property
    def sampled(self) -> list[bool] | None:
        return self.exchange.unpack_sampled()[:MOST_TOKENS] if self.exchange.sampled else None

    @cached_property
    def chosen(self) -> list[int]:
        """Places of the tokens that the model chose."""
        sampled = self.sampled
        return [place for place in range(len(self.token_ids)) if sampled is None or sampled[place]]

    @property
    def given(self) -> int:
        """How many tokens of the answer the model did not choose."""
        return len(self.token_ids) - len(self.chosen)

    @property
    def is_cut(self) -> bool:
        return len(self.exchange.token_ids) // 4 > MOST_TOKENS

    @property
    def mean_probability(self) -> float | None:
        """exp of the mean log-prob of the chosen tokens, in [0, 1]: how sure of each token, on average."""
        if self.logprobs is None or not self.chosen:
            return None
        return math.exp(sum(self.logprobs[place] for place in self.chosen) / len(self.chosen))

    @property
    def unlikely(self) -> list[Unlikely]:
        """The tokens it was least sure of, the least first."""
        logprobs = self.logprobs
        if logprobs is None:
            return []
        least = sorted(self.chosen, key=logprobs.__getitem__)[:LEAST_LIKELY]
        words = self.words
        return [
            Unlikely(place + 1, words[place] if words else str(self.token_ids[place]), logprobs[place])
            for place in least
        ]

    @property
    def steps(self) -> dict[int, str]:
        """Place -> number of the step that begins there, as the trainer cuts it; none where the attempt took several
        calls, whose tokens are counted through all of them."""
        is_whole = self.rollout is not None and not getattr(self.attempt, "calls", 0)
        rows = self.rollout.steps if self.rollout and is_whole else []
        return {int(row[0]): str(number) for number, row in enumerate(rows, start=1) if row}

    @property
    def tools(self) -> list[OfferedTool]:
        found = self.conversation.request.get("tools")
        return [_read_tool(tool) for tool in found[:MOST_TOOLS]] if isinstance(found, list) else []

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What else was asked, without the tools."""
        return {name: value for name, value in self.conversation.request.items() if name != "tools"}


def show_exchange(project: Project, exchange_id: int, *, ask: bool = False) -> ExchangeView | None:
    """A constant number of queries.

    Args:
        ask: ask the server that served it what its tokens write; what it said of the same tokens is kept.
    """
    found = Exchange.objects.filter(project=project, pk=exchange_id).select_related("session", "provider", "parent")
    exchange = found.first()
    if exchange is None:
        return None
    conversation = read_conversations([exchange])[exchange.pk]
    said = [read_message(message) for message in conversation.messages]
    start = min(exchange.shared_messages, len(said)) if exchange.parent_id else 0
    of_attempt = Attempt.objects.filter(Q(exchange=exchange) | Q(further__exchange=exchange)).select_related("task")
    attempt = of_attempt.annotate(calls=Count("further")).first()
    rollout = (
        Rollout.objects.filter(attempt=attempt).select_related("training_use__batch__run").first() if attempt else None
    )
    name = exchange.adapter_name
    view = ExchangeView(
        exchange=exchange,
        conversation=conversation,
        shared=said[:start][-MOST_MESSAGES:],
        messages=said[start:][-MOST_MESSAGES:],
        answer=ShownMessage("assistant", exchange.text, read_calls(exchange.tool_calls)),
        siblings=list(
            Exchange.objects.filter(project=project, public_id=exchange.public_id)
            .exclude(pk=exchange.pk)
            .only("pk", "choice", "worker_name", "model")
            .order_by("choice")
        ),
        adapter=Adapter.objects.filter(project=project, name=name).defer("manifest").first() if name else None,
        attempt=attempt,
        rollout=rollout,
    )
    return replace(
        view,
        words=spell(exchange, view.token_ids, may_ask=ask),
        prompt_words=spell(exchange, view.prompt_token_ids, may_ask=ask),
    )


def spell(exchange: Exchange, token_ids: Sequence[int], *, may_ask: bool) -> list[str] | None:
    """What tokens write: by the tokenizer among the worker's base weights, else as the server says that served them.

    None where nobody was asked, or nobody can say any more.
    """
    if not token_ids or len(token_ids) > MOST_SPELLED:
        return None
    if (kept := cache.get(_name_spelling(exchange, token_ids))) is not None:
        return list(kept)
    if not may_ask:
        return None
    if (worker := _find_own_worker(exchange)) is not None and (pieces := spell_tokens(worker, token_ids)) is not None:
        return keep_spelling(exchange, token_ids, [clean_piece(piece) for piece in pieces])
    try:
        client = client_for(exchange.provider, exchange.project_id)
        found = client.spell(token_ids, model=exchange.adapter_name or exchange.model) if client.tells_tokens else None
    except TentalisError:
        return None
    if found is None:
        return None
    return keep_spelling(exchange, token_ids, [clean_piece(piece) for piece in found])


def _find_own_worker(exchange: Exchange) -> Worker | None:
    """Whose own model answered: not a fallback's, nor another that its agent asked for."""
    if exchange.fallback_reason or not exchange.worker_name:
        return None
    worker = Worker.objects.filter(project=exchange.project_id, name=exchange.worker_name).first()
    if worker is None or (not exchange.adapter_name and exchange.model != find_base_model(worker)):
        return None
    return worker


def keep_spelling(exchange: Exchange, token_ids: Sequence[int], spellings: list[str]) -> list[str]:
    """Remember what tokens write, so that the server is asked once."""
    cache.set(_name_spelling(exchange, token_ids), spellings, SPELLED_FOR_S)
    return spellings


def _name_spelling(exchange: Exchange, token_ids: Sequence[int]) -> str:
    return f"spelled:{content_hash([exchange.provider_id, exchange.model, list(token_ids)])}"


def find_by_public_id(project: Project, public_id: Any) -> int | None:
    """The first answer of the request that callers know by this id."""
    rows = Exchange.objects.filter(project=project, public_id=public_id).order_by("choice")
    return rows.values_list("pk", flat=True).first()


def write_json(view: ExchangeView) -> dict[str, Any]:
    """The exchange as programs read it: whole, whatever it is stored as."""
    one = view.exchange
    return {
        "id": str(one.public_id),
        "choice": one.choice,
        "created_at": one.created_at.isoformat(),
        "session": one.session.key if one.session else None,
        "api": one.api,
        "model": one.model,
        "adapter": one.adapter_name,
        "request": view.conversation.request,
        "messages": view.conversation.messages,
        "text": one.text,
        "reasoning": one.reasoning,
        "tool_calls": one.tool_calls,
        "finish_reason": one.finish_reason,
        "status": one.status,
        "error": one.error,
        "is_whole": view.conversation.is_whole,
        "prompt_token_ids": view.prompt_token_ids,
        "token_ids": one.unpack_token_ids(),
        "logprobs": one.unpack_logprobs(),
        "sampled": one.unpack_sampled() if one.sampled else [],
    }


def _read_tool(tool: Any) -> OfferedTool:
    given = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    if not isinstance(given, Mapping):
        return OfferedTool("?", "")
    return OfferedTool(str(given.get("name", given.get("type", "?"))), str(given.get("description", ""))[:300])
