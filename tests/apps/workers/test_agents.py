"""How the agents work, with a fake model server over real HTTP."""

import json
import re
from typing import Any

import pytest

from apps.base.errors import BadInputError
from apps.inference.client import ModelClient
from apps.inference.errors import ProviderRefusedError
from apps.workers.agents import is_quick
from apps.workers.agents.chat import ChatAgent
from apps.workers.agents.echo import EchoAgent
from apps.workers.models import Worker
from apps.worlds.chat.world import ChatWorld
from apps.worlds.desk.agent import DeskAgent, render_chat
from apps.worlds.desk.world import DeskWorld
from tentalis.core.desk import look_up_stock, parse_ticket
from tentalis.core.worlds import AttemptDraft
from tests.fakes import FakeModelServer

ORDER = "Order: 4 mug at 3 EUR, new client. Total?"
STOCK = "Stock: client wants 12 lamp. Buy how many?"
IN_ROOM = look_up_stock(parse_ticket(STOCK), "room") or 0


def clerk(prompt: str, index: int) -> str:
    """A model that knows the house: calls the tool for stock, and goes on after its result."""
    if "Stock:" not in prompt:
        return "<step> 4 * 3 = 12</step><step> ship 12 + 5 = 17</step><answer> 17 EUR</answer>"
    if not (result := re.search(r"<result> (\d+)</result>$", prompt)):
        return "<call> room lamp</call><step> never read"
    missing = 12 - int(result[1])
    return f"<step> 12 - {result[1]} = {missing}</step><answer> {missing} lamp</answer>"


def work_desk(server: FakeModelServer, prompts: list[str], group_size: int = 2, **values: Any) -> list[Any]:
    settings = {name: values.pop(name) for name in ("max_tokens",) if name in values}
    return DeskAgent(ModelClient(server.url, allow_private=True), **settings).work(
        prompts=prompts,
        world=DeskWorld(),
        group_size=group_size,
        **{"seeds": [None] * len(prompts), "model": "desk"} | values,
    )


def work_chat(server: FakeModelServer, prompts: list[str], group_size: int = 1, **values: Any) -> list[Any]:
    kind = "openai" if server.is_plain else "vllm"
    return ChatAgent(ModelClient(server.url, kind=kind, allow_private=True)).work(
        prompts=prompts, world=ChatWorld(), group_size=group_size, seeds=[None] * len(prompts), model="desk"
    )


def samplings(server: FakeModelServer) -> list[dict[str, Any]]:
    return [request.body for request in server.requests if request.path == "/v1/completions"]


def spell(server: FakeModelServer, draft: AttemptDraft, step_index: int) -> str:
    """The text of the tokens in a step's span."""
    step = draft.steps[step_index]
    return server.decode(draft.token_ids[step.token_start : step.token_end])


def test_a_group_at_a_ticket_is_one_request() -> None:
    with FakeModelServer(clerk) as server:
        [group] = work_desk(server, [ORDER], group_size=8)
    assert len(samplings(server)) == 1
    assert [draft.answer for draft in group] == ["17 EUR"] * 8
    assert all(draft.ended and all(draft.sampled) for draft in group)


def test_all_tries_that_called_the_tool_go_on_in_one_request() -> None:
    with FakeModelServer(clerk) as server:
        groups = work_desk(server, [STOCK, ORDER, STOCK], group_size=4)
    first, second = samplings(server)
    assert (len(first["prompt"]), first["n"]) == (3, 4)
    assert (len(second["prompt"]), second["n"]) == (8, 1)
    assert [group[0].answer for group in groups] == [f"{12 - IN_ROOM} lamp", "17 EUR", f"{12 - IN_ROOM} lamp"]


def test_a_tools_result_is_in_the_tokens_and_was_not_sampled() -> None:
    with FakeModelServer(clerk) as server:
        [[draft]] = work_desk(server, [STOCK], group_size=1)
        given = [token for token, sampled in zip(draft.token_ids, draft.sampled, strict=True) if not sampled]
        assert server.decode(given) == f"<result> {IN_ROOM}</result>"
        assert server.decode(draft.token_ids) == draft.text + "<|end|>"
        assert server.decode(draft.prompt_token_ids) == f"<|user|>{STOCK}<|end|><|assistant|>"
        assert len(draft.logprobs) == len(draft.token_ids)
        assert all((logprob == 0.0) != sampled for logprob, sampled in zip(draft.logprobs, draft.sampled, strict=True))
        assert [step.kind for step in draft.steps] == ["call", "step", "answer"]
        assert spell(server, draft, 0) == "<call> room lamp</call>"
        assert spell(server, draft, 2) == f"<answer> {12 - IN_ROOM} lamp</answer>"
    assert (draft.steps[0].tool_name, draft.steps[0].tool_result) == ("room", str(IN_ROOM))
    assert draft.tool_calls == [{"name": "room", "arguments": "lamp", "result": str(IN_ROOM)}]


def test_a_whole_desk_try_earns_full_marks_in_its_world() -> None:
    with FakeModelServer(clerk) as server:
        [[stock], [order]] = work_desk(server, [STOCK, ORDER], group_size=1)
    for prompt, draft in ((STOCK, stock), (ORDER, order)):
        found = DeskWorld().verify(prompt, None, draft)
        assert found is not None
        assert found.outcome == 1.0


def test_a_worker_that_calls_for_ever_runs_out_of_tokens() -> None:
    with FakeModelServer(lambda prompt, index: "<call> room lamp</call>") as server:
        [[draft]] = work_desk(server, [STOCK], group_size=1)
    assert len(draft.token_ids) <= 44
    assert not draft.ended
    assert draft.finish_reason == "length"
    assert {step.tool_result for step in draft.steps[:-1]} == {str(IN_ROOM)}


def test_tries_that_go_on_with_less_room_than_others_stop_at_their_own_limit() -> None:
    def ramble(prompt: str, index: int) -> str:
        after = prompt.rpartition("<|assistant|>")[2]
        return "<step> so so so" if after else "<step> a</step>" * index + "<call> room lamp</call>"

    with FakeModelServer(ramble) as server:
        [group] = work_desk(server, [STOCK], group_size=4, max_tokens=20)
    assert [len(draft.token_ids) for draft in group] == [12, 15, 18, 20]
    assert [draft.finish_reason for draft in group] == ["stop", "stop", "stop", "length"]


def test_a_malformed_call_ends_the_try_without_asking_the_tool() -> None:
    with FakeModelServer(lambda prompt, index: "<step> so</call> and more") as server:
        [[draft]] = work_desk(server, [STOCK], group_size=1)
    assert not draft.ended
    assert draft.tool_calls == []
    assert len(samplings(server)) == 1


def test_the_same_prompts_and_seeds_ask_for_the_same_tries() -> None:
    with FakeModelServer(clerk) as server:
        for seeds in ([1, 2], [1, 2], [2, 1], [1, None]):
            work_desk(server, [STOCK, ORDER], seeds=seeds)
    asked: list[Any] = [body.get("seed") for body in samplings(server)]
    assert asked[0:2] == asked[2:4] != asked[4:6]
    assert asked[6:8] == [None, None]
    assert asked[0] != asked[1]
    assert all(0 <= seed < 2**63 for seed in asked[:6])


def test_a_greedy_try_asks_for_temperature_0() -> None:
    with FakeModelServer(clerk) as server:
        work_desk(server, [STOCK], greedy=True)
    assert [body["temperature"] for body in samplings(server)] == [0.0, 0.0]


def test_a_panel_is_asked_in_requests_of_bounded_size_and_comes_back_in_order() -> None:
    with FakeModelServer(lambda prompt, index: "<answer> " + re.findall(r"\d+", prompt)[0] + "</answer>") as server:
        prompts = [ORDER.replace("4", str(2 + number % 8)) for number in range(300)]
        groups = work_desk(server, prompts, group_size=2)
    assert [len(body["prompt"]) for body in samplings(server)] == [256, 44]
    assert [group[0].answer for group in groups] == [str(2 + number % 8) for number in range(300)]


def test_the_desks_worker_refuses_other_worlds() -> None:
    with FakeModelServer(clerk) as server, pytest.raises(BadInputError, match="found 'chat'"):
        DeskAgent(ModelClient(server.url, allow_private=True)).work(
            prompts=["hello"], world=ChatWorld(), group_size=1, seeds=[None], model="desk"
        )
    assert server.requests == []


def test_no_tickets_ask_nothing() -> None:
    with FakeModelServer(clerk) as server:
        assert work_desk(server, []) == []
    assert server.requests == []


def test_the_desks_template_closes_every_message_and_opens_the_answer() -> None:
    messages = DeskWorld().messages_for(ORDER, "Be kind.")
    assert render_chat(messages) == f"<|system|>Be kind.<|end|><|user|>{ORDER}<|end|><|assistant|>"


def test_echo_answers_with_the_prompt() -> None:
    groups = EchoAgent().work(prompts=["a", "b"], world=ChatWorld(), group_size=2, seeds=[None, None], model="")
    assert [[draft.answer for draft in group] for group in groups] == [["a", "a"], ["b", "b"]]


def test_a_chat_answers_steps_have_their_token_spans() -> None:
    text = "<step>think hard</step>\n<answer>42</answer>"
    with FakeModelServer(lambda prompt, index: text) as server:
        [[draft]] = work_chat(server, ["how many?"])
        assert [(step.kind, step.text) for step in draft.steps] == [("step", "think hard"), ("answer", "42")]
        assert spell(server, draft, 0) == "<step>think hard</step>"
        assert spell(server, draft, 1) == "<answer>42</answer>"
    assert (draft.answer, draft.ended, len(draft.sampled)) == ("42", True, len(draft.token_ids))


def test_a_numbered_list_is_steps_too() -> None:
    with FakeModelServer(lambda prompt, index: "1. look\n2. count\n\nAnswer: three") as server:
        [[draft]] = work_chat(server, ["how many?"])
    assert [(step.kind, step.text) for step in draft.steps] == [
        ("step", "look"),
        ("step", "count"),
        ("answer", "three"),
    ]


def test_tool_calls_beside_the_text_are_steps_without_a_span() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "mugs"}'}}
    with FakeModelServer(lambda prompt, index: "", tool_calls=[call]) as server:
        [[draft]] = work_chat(server, ["find mugs"])
    [step] = draft.steps
    assert (step.kind, step.tool_name, step.token_start, step.token_end) == ("call", "search", None, None)
    assert draft.error == ""


def test_a_server_without_token_ids_gives_drafts_without_tokens() -> None:
    with FakeModelServer(lambda prompt, index: "<step>a</step>b", is_plain=True) as server:
        [[draft]] = work_chat(server, ["q"])
    assert (draft.token_ids, draft.sampled, draft.prompt_token_ids) == ((), (), ())
    assert [(step.kind, step.token_start) for step in draft.steps] == [("step", None), ("answer", None)]


def test_a_server_that_gives_one_answer_at_a_time_is_asked_until_the_group_is_full() -> None:
    with FakeModelServer(is_plain=True, knows_n=False) as server:
        [group] = work_chat(server, ["q"], group_size=3)
    assert len(group) == 3
    assert [request.body.get("n", 1) for request in server.requests] == [3, 2, 1]


def test_an_empty_answer_is_a_failed_draft() -> None:
    with FakeModelServer(lambda prompt, index: "") as server:
        [[draft]] = work_chat(server, ["q"])
    assert draft.error == "the answer is empty (stop)"


class Prudish(FakeModelServer):
    """Refuses one prompt."""

    def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if "bomb" in json.dumps(body):
            return 400, {"error": {"message": "not that"}}
        return super()._serve(path, body)


def test_a_refused_prompt_fails_alone() -> None:
    with Prudish() as server:
        good, bad = work_chat(server, ["hello", "bomb"], group_size=2)
    assert [draft.error for draft in good] == ["", ""]
    assert all("not that" in draft.error and not draft.ended for draft in bad)


def test_where_every_prompt_is_refused_the_refusal_is_raised() -> None:
    with Prudish() as server, pytest.raises(ProviderRefusedError, match="not that"):
        work_chat(server, ["bomb", "bombs"])


@pytest.mark.parametrize(
    ("kind", "sampling", "expected"),
    [
        ("echo", {}, True),
        ("desk", {}, True),
        ("desk", {"max_tokens": 400}, False),
        ("chat", {}, False),
        ("chat", {"max_tokens": 64}, True),
        ("openclaw", {"max_tokens": 64}, False),
        ("outside", {"max_tokens": 64}, False),
    ],
)
def test_tasks_go_in_sets_where_tries_are_short_whoever_the_model_is_of(
    kind: str, sampling: dict[str, Any], expected: bool
) -> None:
    assert is_quick(Worker(kind=kind, sampling=sampling)) is expected
