"""The calls of one attempt: which may be learnt from, and where each stands among the attempt's tokens."""

from collections.abc import Mapping, Sequence

from apps.inference.models import Exchange
from tentalis.core.conversation_delta import Conversation
from tentalis.core.conversations.joining import Call, join_calls, split_chains
from tentalis.core.packing import unpack_int32
from tentalis.core.sampling import find_sampling_fault, read_temperature
from tentalis.core.steps import Span


def find_exact(calls: Sequence[Exchange]) -> Sequence[Exchange]:
    """The calls whose tokens are known; only the last where its are not, for it is the answer."""
    if not calls or not calls[-1].has_exact_tokens:
        return calls[-1:]
    return [call for call in calls if call.has_exact_tokens]


def find_spans(calls: Sequence[Exchange], conversations: Mapping[int, Conversation]) -> list[Span]:
    """[start, end) of each call's own tokens in the attempt's, whose sequences stand one behind the other.

    Args:
        conversations: by exchange.
    """
    spans: list[Span] = []
    start = 0
    for chain in split_chains([_read_tokens(conversations[call.pk]) for call in calls]):
        joined = join_calls(chain)
        spans += [(start + first, start + end) for first, end in joined.spans]
        start += len(joined.tokens)
    return spans


def find_unfit(calls: Sequence[Exchange], exact: Sequence[Exchange]) -> str:
    """Why an attempt of these calls may not be learnt from, whatever is said of it; "" where it may.

    Args:
        exact: those of them that it is made of (`find_exact`), the first of which the ledger judges itself.
    """
    if len(adapters := {call.adapter_name for call in exact}) > 1:
        return f"the adapter changed within it: {', '.join(sorted(adapters))}"
    if bans := [call.ban for call in calls if call.ban]:
        return bans[0]
    if faults := [call.token_fault for call in exact if call.token_fault]:
        return faults[0]
    if len({read_temperature(call.sampling) for call in exact}) > 1:
        return "its calls were sampled at different temperatures"
    return next((fault for call in exact[1:] if (fault := find_sampling_fault(call.sampling))), "")[:300]


def _read_tokens(conversation: Conversation) -> Call:
    return Call(unpack_int32(conversation.prompt_token_ids), unpack_int32(conversation.token_ids), (), ())
