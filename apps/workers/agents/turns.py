"""A chat model's turns in a world with tools: what it is asked with, token for token, and what it wants done."""

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from apps.inference.client import ModelClient, Sample
from apps.inference.errors import ModelNotServedError, ProviderRefusedError
from apps.worlds.calls import find_call_fault
from tentalis.core.steps import token_starts
from tentalis.core.token_use import guess_prompt_tokens
from tentalis.core.tool_calls import (
    UNREADABLE,
    WrittenCall,
    read_told_call,
    read_written_calls,
    spell_call,
    write_told_call,
)
from tentalis.core.worlds import AttemptDraft, DraftStep, ToolCall, TurnAsked, TurnDraft

Json = dict[str, Any]
Messages = Sequence[Mapping[str, Any]]
PRUNING: Final = "drop_oldest_results"
"""The rule by which a conversation is made to fit: its oldest results go, each for one line, the newest never."""
LEFT_OUT: Final = "(an earlier result, left out for want of room)"
_CUT: Final = "length"


def continue_tokens(client: ModelClient, asked: TurnAsked, *, model: str) -> list[int] | None:
    """The prompt that goes on from the turn before, token for token, with what was told since behind it.

    What stands behind the model's end token is what its template writes there: read off the same turn in a
    conversation of its own, so that nothing that was sampled is tokenised again.

    Returns:
        None where that is not known: at the first turn, of servers that tell no tokens, of templates that write another
        end than the model gave, or that refuse such a conversation.
    """
    place = next((i for i in reversed(range(len(asked.messages))) if asked.messages[i]["role"] == "assistant"), None)
    if not asked.prompt_token_ids or not asked.token_ids or place is None or not client.tokenizes:
        return None
    said: Messages = [{"role": "user", "content": "."}, asked.messages[place]]
    try:
        before = client.tokenize_chat(said, model=model, is_open=False)
        after = client.tokenize_chat([*said, *asked.messages[place + 1 :]], model=model)
    except ModelNotServedError:
        raise
    except ProviderRefusedError:
        return None
    end, ends = asked.token_ids[-1], before.count(asked.token_ids[-1])
    places = [index for index, token in enumerate(after) if token == end]
    if not ends or len(places) < ends:
        return None
    return [*asked.prompt_token_ids, *asked.token_ids, *after[places[ends - 1] + 1 :]]


def prune(messages: Messages, fits: Callable[[Messages], bool]) -> tuple[Messages, int]:
    """The conversation with as few of its oldest results left out as it takes to fit, and how many are; all but the
    newest where it does not fit even so."""
    results = [i for i, one in enumerate(messages) if one["role"] == "tool" and one.get("content") != LEFT_OUT][:-1]

    def drop(count: int) -> list[Mapping[str, Any]]:
        left_out = set(results[:count])
        return [{**one, "content": LEFT_OUT} if i in left_out else one for i, one in enumerate(messages)]

    dropped = bisect_left(range(len(results)), True, key=lambda count: fits(drop(count)))
    return drop(dropped), dropped


def count_tokens(client: ModelClient, messages: Messages, tools: Messages, *, model: str) -> int:
    """How many tokens a conversation is: as the server counts them, else near enough."""
    if client.tokenizes:
        return len(client.tokenize_chat(messages, model=model, tools=tools))
    return guess_prompt_tokens(len(json.dumps([*messages, *tools])))


def ask_with_tools(client: ModelClient, messages: Messages, tools: Messages, *, model: str, **settings: Any) -> Sample:
    """Ask with a conversation and tools. A server that reads no calls by itself (vLLM without a parser) is asked to
    leave them in the text."""
    offered: Json = {"tools": list(tools)} if tools else {}
    try:
        [sample] = client.chat(messages, model=model, extra=offered, **settings)
    except ModelNotServedError:
        raise
    except ProviderRefusedError as error:
        if "tool choice" not in str(error):
            raise
        [sample] = client.chat(messages, model=model, extra={**offered, "tool_choice": "none"}, **settings)
    return sample


def read_turn(sample: Sample, draft: AttemptDraft, tools: Messages, *, turn: int) -> TurnDraft:
    """What a model said in a turn, with the calls in it: as the server tells them, else as the model wrote them.

    Args:
        draft: the sample as an answer.
    """
    raw = _join(sample)
    written, told = read_written_calls(raw), _read_told(sample)
    calls, text = told, sample.text
    if not calls and sample.finish_reason != _CUT:  # what was cut off in the middle of a call is no call
        calls = [(f"t{turn % 10_000:04d}c{place:03d}", call) for place, call in enumerate(written.calls)]
        text = written.text.strip() if calls else text
    if not calls:
        return TurnDraft(draft=draft, messages=[{"role": "assistant", "content": sample.text}])
    parameters = {str(tool["function"]["name"]): tool["function"].get("parameters") for tool in tools}
    made = [write_told_call(call_id, call) for call_id, call in calls]
    steps = [
        DraftStep(
            kind="call",
            text="\n".join(filter(None, ["" if place else text, spell_call(call.name, call.arguments)])),
            tool_name=(call.name or UNREADABLE)[:100],
            token_start=start,
            token_end=end,
        )
        for place, ((_, call), (start, end)) in enumerate(
            zip(calls, _find_spans(draft, sample, written.starts, len(calls)), strict=True)
        )
    ]
    return TurnDraft(
        draft=replace(draft, text=text, answer="", steps=steps, tool_calls=made, error=""),
        calls=[
            ToolCall(id=call_id, name=call.name, arguments=call.arguments, fault=find_call_fault(call, parameters))
            for call_id, call in calls
        ],
        messages=[{"role": "assistant", "content": text, "tool_calls": made}],
    )


def _find_spans(
    draft: AttemptDraft, sample: Sample, starts: Sequence[int], count: int
) -> list[tuple[int | None, int | None]]:
    """Spans of so many calls in the turn's tokens, the first with the words before it; where it is not known where the
    others begin, all are the first's."""
    if not draft.token_ids:
        return [(None, None)] * count
    if len(starts) != count or len(sample.token_texts) != len(draft.token_ids):
        return [(0, len(draft.token_ids)), *[(None, None)] * (count - 1)]
    began = token_starts(sample.token_texts)
    firsts = [0, *(bisect_left(began, start) for start in starts[1:])]
    return list(pairwise([*firsts, len(draft.token_ids)]))


def _read_told(sample: Sample) -> list[tuple[str, WrittenCall]]:
    """Calls that came beside the text, by their ids."""
    found = []
    for place, call in enumerate(sample.tool_calls):
        try:
            read = read_told_call(call)
        except (ValueError, TypeError, RecursionError):
            read = WrittenCall("", str(call))
        found.append((str(call.get("id") or f"call{place:05d}"), read))
    return found


def _join(sample: Sample) -> str:
    """The text with its special tokens where the server told the tokens, for some families mark calls by them."""
    pieces = sample.token_texts
    if not pieces:
        return sample.text
    if isinstance(pieces[0], bytes):
        return b"".join(pieces).decode("utf-8", "replace")  # type: ignore[arg-type]
    return "".join(pieces)  # type: ignore[arg-type]
