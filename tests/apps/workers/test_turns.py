"""Turns of a chat model in a world with tools: what it is asked with, token for token, and what it wants done."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from apps.inference.client import ModelClient, Sample
from apps.workers.agents.chat import ChatAgent
from apps.workers.agents.turns import LEFT_OUT, PRUNING, prune, read_turn
from apps.worlds.chat.world import ChatWorld
from tentalis.core.worlds import AttemptDraft, TurnAgent, TurnAsked, TurnDraft
from tests.fakes import FakeModelServer
from tests.plugged.doors_package import TOOLS

ASKED = [{"role": "user", "content": "Open door 3 in Bern."}]
LOOK = {"id": "aaaaaaaa1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
PRESS = {"id": "aaaaaaaa2", "type": "function", "function": {"name": "press", "arguments": '{"button": "a"}'}}
LAMP = "the lamp is red"
WRITTEN = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'


def take(agent: ChatAgent, *asked: TurnAsked, model: str = "tiny", **values: Any) -> list[TurnDraft]:
    return agent.take_turns(asked, world=ChatWorld(), tools=TOOLS, model=model, **values)


def see(messages: Sequence[Mapping[str, Any]], call: Mapping[str, Any], text: str) -> list[Mapping[str, Any]]:
    """The conversation when a call was made, and the world said that."""
    said = {"role": "assistant", "content": "", "tool_calls": [call]}
    return [*messages, said, {"role": "tool", "tool_call_id": call["id"], "content": text}]


def test_a_server_that_tells_no_tokens_is_asked_with_the_whole_conversation_each_turn() -> None:
    with FakeModelServer(is_plain=True, tool_calls=[LOOK], reply=lambda prompt, index: "") as server:
        agent: TurnAgent = ChatAgent(ModelClient(server.url, kind="openai", allow_private=True))
        (first,) = take(agent, TurnAsked(messages=ASKED), model="desk")  # type: ignore[arg-type]
        assert [(call.name, call.arguments, call.fault) for call in first.calls] == [("look", "{}", "")]
        messages = [*ASKED, *first.messages, {"role": "tool", "tool_call_id": LOOK["id"], "content": LAMP}]
        take(agent, TurnAsked(messages=messages, turn=1), model="desk")  # type: ignore[arg-type]
    assert [request.body["messages"] for request in server.requests] == [ASKED, messages]
    assert all(request.body["tools"] == list(TOOLS) for request in server.requests)
    assert first.draft.error == ""
    assert [(step.kind, step.tool_name) for step in first.draft.steps] == [("call", "look")]


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_nul_that_a_model_drew_is_nowhere_where_it_could_not_be_stored(is_plain: bool) -> None:
    with FakeModelServer(
        is_plain=is_plain, reply=lambda prompt, index: '<call>press {"button": "\0 a"}</call>'
    ) as server:
        kind: Any = "openai" if is_plain else "vllm"
        agent: TurnAgent = ChatAgent(ModelClient(server.url, kind=kind, allow_private=True))
        (turn,) = take(agent, TurnAsked(messages=ASKED), model="desk")  # type: ignore[arg-type]
    told = [turn.draft.text, *(step.text for step in turn.draft.steps), *(call.arguments for call in turn.calls)]
    assert "\ufffd a" in "".join(told)
    assert "\0" not in "".join([*told, *map(str, turn.messages)])


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (WRITTEN, [""]),
        ('<tool_call>{"name": "jump"}</tool_call>', ["there is no tool 'jump'; there are look, press"]),
        ("<tool_call>{look}</tool_call>", ["the call cannot be read: '{look}'"]),
        ("<call>press a</call>", ["press: wanted arguments as a JSON object, found 'a'"]),
        ('<call>press {"button": "d"}</call>', ["press: the arguments are not as its schema says: /button: enum"]),
        (f"{WRITTEN} and {WRITTEN}", ["", ""]),
        ("Done.", []),
    ],
)
def test_what_is_wrong_with_a_call_is_said_to_its_model(text: str, faults: list[str]) -> None:
    pieces = [text[place : place + 3] for place in range(0, len(text), 3)]
    ids = list(range(len(pieces)))
    sample = Sample(
        text=text, finish_reason="stop", served_by="m", token_ids=ids, token_texts=pieces, prompt_token_ids=[1],
        logprobs=[0.0] * len(ids),
    )  # fmt: skip
    draft = AttemptDraft(text=text, answer=text, token_ids=ids)
    turn = read_turn(sample, draft, TOOLS, turn=3)
    assert [call.fault for call in turn.calls] == faults
    spans = [(step.token_start, step.token_end) for step in turn.draft.steps]
    assert [end for _, end in spans][-1:] == [len(ids)][: len(faults)]
    assert all(end == start for (_, end), (start, _) in pairwise(spans))
    (said,) = turn.messages
    assert len(said.get("tool_calls", ())) == len(faults)
    cut = read_turn(sample.__class__(text=text, finish_reason="length", served_by="m"), draft, TOOLS, turn=3)
    assert not cut.calls


def test_the_oldest_results_go_where_a_conversation_has_no_room() -> None:
    messages: list[Mapping[str, Any]] = list(ASKED)
    for place in range(4):
        messages = see(messages, LOOK, str(place) * 400)
    left, dropped = prune(messages, lambda said: sum(len(one["content"]) for one in said) < 1_000)
    assert dropped == 2
    assert [one["content"][:3] for one in left if one["role"] == "tool"] == [LEFT_OUT[:3]] * 2 + ["222", "333"]
    assert prune(messages, lambda said: False)[1] == 3
    with FakeModelServer(is_plain=True, reply=lambda prompt, index: "Done.") as server:
        agent = ChatAgent(ModelClient(server.url, kind="openai", allow_private=True), max_tokens=50, context_tokens=700)
        (turn,) = take(agent, TurnAsked(messages=messages, turn=4), model="desk")
    assert turn.draft.request["pruned"] == {"rule": PRUNING, "results": 3}
    assert server.requests[0].body["messages"] == turn.draft.messages
    assert sum(one["content"] == LEFT_OUT for one in turn.draft.messages) == 3
