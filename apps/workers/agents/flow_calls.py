"""The calls of a try whose agent thinks through our gateway, as its episode: which goes on from which is told by their
links, never by their order, for an agent may ask several things at a time."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from apps.inference.calls import find_exact, find_spans, find_unfit
from apps.inference.models import Exchange
from tentalis.core.conversation_delta import TOKEN_BYTES, Conversation
from tentalis.core.conversations.turns import read_text
from tentalis.core.steps import Span, begins_with_answer, parse_steps
from tentalis.core.worlds import DraftStep

Conversations = Mapping[int, Conversation]


class CallEpisode(NamedTuple):
    """What a try's calls say of it.

    Args:
        calls: that it is made of, conversation by conversation; the first call of each stands where it began.
        last: the one that gave the last word; None: there was none.
        unfit: why its tokens may train nothing; "" where they may.
    """

    calls: Sequence[Exchange]
    last: Exchange | None
    steps: Sequence[DraftStep]
    unfit: str


def read_episode(calls: Sequence[Exchange], conversations: Conversations) -> CallEpisode:
    """Args:
    calls: all that were answered, as they were stored.
    conversations: by exchange.
    """
    known = {call.pk: call for call in calls}
    spoken = {one.pk: conversations[one.pk] for one in calls if one.token_ids}
    told = {pk: one.prompt_token_ids + one.token_ids for pk, one in spoken.items()}
    before = {call.pk: _find_before(call, known, told, conversations) for call in calls}
    calls = _leave_out_repeated(calls, before, conversations)
    if not calls:
        return CallEpisode((), None, (), "")
    chains = _split_chains(calls, before)
    last = max((chain[-1] for chain in chains), key=lambda call: call.pk)
    ordered = [call for chain in chains for call in chain]
    exact = find_exact([*(call for call in ordered if call is not last), last])
    exact = [call for call in ordered if call in exact]
    unfit = find_unfit(ordered, exact)
    has_spans = not unfit and last.has_exact_tokens
    spans = dict(zip((one.pk for one in exact), find_spans(exact, conversations), strict=True)) if has_spans else {}
    steps = [
        step
        for chain in chains
        for place, call in enumerate(chain)
        for step in _make_steps(call, chain[place + 1 : place + 2], conversations, spans.get(call.pk), call is last)
    ]
    return CallEpisode(exact, last, steps, unfit)


def _find_before(
    call: Exchange, known: Mapping[int, Exchange], told: Mapping[int, bytes], conversations: Conversations
) -> int | None:
    """The call whose answer this one goes on from; None: it begins a conversation.

    A link that was cut, or that leads to what both only begin with, says less than the tokens do.

    Args:
        told: by call its prompt's and its answer's tokens, of those that have an answer's.
    """
    parent = known.get(call.parent_id or 0)
    if parent is not None and call.shared_messages > len(conversations[parent.pk].messages):
        return parent.pk
    prompt, size, found = conversations[call.pk].prompt_token_ids, 0, None
    for pk, tokens in told.items():
        is_longer = pk != call.pk and len(tokens) > size
        if is_longer and len(prompt) >= len(tokens) + TOKEN_BYTES and prompt.startswith(tokens):
            size, found = len(tokens), pk
    return found


def _leave_out_repeated(
    calls: Sequence[Exchange], before: Mapping[int, int | None], conversations: Conversations
) -> list[Exchange]:
    """Without those that were asked again with the same words, and whose answers nothing went on from."""
    gone_on_from = set(before.values())
    asked = [repr(conversations[call.pk].messages) for call in calls]
    return [
        call for place, call in enumerate(calls) if call.pk in gone_on_from or asked[place] not in asked[place + 1 :]
    ]


def _split_chains(calls: Sequence[Exchange], before: Mapping[int, int | None]) -> list[list[Exchange]]:
    """Conversations by where they begin; of a fork the first goes on, and others begin one."""
    chains: list[list[Exchange]] = []
    for call in calls:
        chain = next((one for one in chains if one[-1].pk == before[call.pk]), None)
        if chain is None:
            chains.append([call])
        else:
            chain.append(call)
    return chains


def _make_steps(
    call: Exchange, after: Sequence[Exchange], conversations: Conversations, span: Span | None, is_last: bool
) -> list[DraftStep]:
    """A call as steps; the tokens of one with several are the last one's."""
    results = {
        str(message.get("tool_call_id")): read_text(message) or ""
        for one in after
        for message in conversations[one.pk].messages
        if isinstance(message, Mapping) and message.get("role") == "tool"
    }
    parsed = parse_steps(call.text, call.tool_calls, results)
    steps: list[dict[str, Any]] = [
        {"kind": step.kind, "text": step.text, "tool_name": step.tool_name, "tool_result": step.result or ""}
        for step in parsed.steps
    ]
    if parsed.answer:
        steps.append({"kind": "answer" if is_last else "step", "text": parsed.answer})
    if not steps:
        steps = [{"kind": "other", "text": call.text}]
    start, end = span or (None, None)
    overlap = 0 if span and begins_with_answer(call.text) else None
    steps[-1] |= {"token_start": start, "token_end": end, "token_overlap": overlap}
    return [DraftStep(**step) for step in steps]
