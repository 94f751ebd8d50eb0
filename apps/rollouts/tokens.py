"""An attempt's exact tokens: of its one call, or of several that follow each other, as one sequence."""

from collections.abc import Iterable, Mapping

from django.db.models import prefetch_related_objects

from apps.inference.models import Exchange
from apps.inference.selectors import IncompleteConversationError, read_conversations
from apps.tasks.models import Attempt
from tentalis.core.conversations.joining import Call, Joined, join_calls
from tentalis.core.lineage import Conversation
from tentalis.core.packing import unpack_int32


def load_conversations(attempts: Iterable[Attempt]) -> dict[int, Conversation]:
    """The conversations of the attempts' exchanges, by exchange: three queries, however many."""
    attempts = list(attempts)
    prefetch_related_objects(attempts, "further__exchange")
    return read_conversations(exchange for attempt in attempts for exchange in list_exchanges(attempt))


def list_exchanges(attempt: Attempt) -> list[Exchange]:
    """The attempt's calls in order."""
    first = [attempt.exchange] if attempt.exchange is not None else []
    return [*first, *(one.exchange for one in attempt.further.all())]


def read_tokens(attempt: Attempt, conversations: Mapping[int, Conversation]) -> Joined:
    """Prompt and answer, calls joined, what must not be learnt taken out of the loss.

    Raises:
        IncompleteConversationError: a part of a conversation was deleted.
        ValueError: the calls do not follow each other.
    """
    calls = []
    for exchange in list_exchanges(attempt):
        conversation = conversations[exchange.pk]
        if not conversation.is_whole:
            raise IncompleteConversationError(f"exchange {exchange.pk}: a part of its conversation was deleted")
        prompt = unpack_int32(conversation.prompt_token_ids)
        calls.append(Call(prompt, exchange.unpack_token_ids(), exchange.unpack_logprobs(), exchange.unpack_sampled()))
    return join_calls(calls, hidden=attempt.hidden)
