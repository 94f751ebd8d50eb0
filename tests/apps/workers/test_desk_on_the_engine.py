"""The desk's worker on the real engine with the real built-in model."""

from typing import Any

import pytest

from apps.inference.client import ModelClient
from apps.worlds.desk.agent import DeskAgent, render_chat
from apps.worlds.desk.world import DeskWorld
from tentalis.core.desk import make_tickets

pytestmark = pytest.mark.torch


@pytest.fixture
def client(desk_engine: str) -> ModelClient:
    return ModelClient(desk_engine, allow_private=True)


def work(client: ModelClient, prompts: list[str], seed: int, group_size: int = 4, **values: Any) -> list[Any]:
    return DeskAgent(client).work(
        prompts=prompts,
        world=DeskWorld(),
        group_size=group_size,
        seeds=[seed] * len(prompts),
        **{"model": "desk"} | values,
    )


def stock_tickets(count: int) -> list[str]:
    return [ticket.text for ticket in make_tickets(5, count, held_out=False, families=["stock"])]


def test_our_chat_template_gives_the_tokens_of_the_models_own(client: ModelClient) -> None:
    messages = DeskWorld().messages_for(stock_tickets(1)[0], "Be kind.")
    [[sample]] = client.sample([render_chat(messages)], model="desk", max_tokens=1)
    [own] = client.chat(messages, model="desk", max_tokens=1)
    assert list(sample.prompt_token_ids) == list(own.prompt_token_ids)


def test_the_model_calls_the_tool_and_goes_on_with_its_result(client: ModelClient) -> None:
    groups = work(client, stock_tickets(6), seed=1)
    called = [draft for group in groups for draft in group if draft.tool_calls]
    assert len(called) >= 12
    for draft in called:
        result = f"<result> {draft.tool_calls[0]['result']}</result>"
        given = [token for token, sampled in zip(draft.token_ids, draft.sampled, strict=True) if not sampled]
        assert result in draft.text
        assert tuple(given) == client.tokenize(result, model="desk")
        assert draft.steps[1].token_start == draft.steps[0].token_end + len(given)


def test_the_told_log_probs_are_those_of_the_whole_text_read_at_once(client: ModelClient) -> None:
    drafts = [draft for group in work(client, stock_tickets(4), seed=2) for draft in group]
    rows = [[*draft.prompt_token_ids, *draft.token_ids] for draft in drafts]
    for draft, scores in zip(drafts, client.score(rows, model="desk"), strict=True):
        again = scores[len(draft.prompt_token_ids) - 1 :]
        chosen = [index for index, sampled in enumerate(draft.sampled) if sampled]
        assert [draft.logprobs[index] for index in chosen] == pytest.approx(
            [again[index] for index in chosen], abs=1e-4
        )


def test_the_same_seed_gives_the_same_tries_and_another_seed_others(client: ModelClient) -> None:
    def texts(seed: int) -> list[list[str]]:
        return [[draft.text for draft in group] for group in work(client, stock_tickets(4), seed=seed)]

    assert texts(3) == texts(3)
    assert texts(3) != texts(4)


def test_the_base_solves_some_held_out_tickets_and_far_from_all(client: ModelClient) -> None:
    world = DeskWorld()
    panel = world.panel(300, seed=0)
    groups = work(client, [item.prompt for item in panel], seed=5, group_size=1)
    found = [world.verify(item.prompt, None, group[0]) for item, group in zip(panel, groups, strict=True)]
    assert 0.15 <= sum(each.outcome or 0.0 for each in found if each) / 300 <= 0.40


def test_the_likeliest_tokens_are_noted_where_they_are_asked_for_and_change_nothing(client: ModelClient) -> None:
    prompts = stock_tickets(3)
    plain = work(client, prompts, seed=4)
    agent = DeskAgent(client, top_k=4)
    noted = agent.work(prompts=prompts, world=DeskWorld(), group_size=4, seeds=[4] * 3, model="desk")
    drafts = [draft for group in noted for draft in group]
    assert [(draft.text, draft.steps) for draft in drafts] == [
        (draft.text, draft.steps) for group in plain for draft in group
    ]
    assert any(draft.tool_calls for draft in drafts)
    for draft in drafts:
        assert len(draft.top) == len(draft.token_ids)
        for top, token, logprob, sampled in zip(draft.top, draft.token_ids, draft.logprobs, draft.sampled, strict=True):
            values = [value for _, value in top]
            assert len(top) >= 4 if sampled else not top
            assert values == sorted(values, reverse=True)
            assert dict(top).get(token, logprob) == pytest.approx(logprob, abs=1e-6)


def test_a_conversations_likeliest_tokens_are_told_by_id(client: ModelClient) -> None:
    [sample] = client.chat([{"role": "user", "content": stock_tickets(1)[0]}], model="desk", max_tokens=8, top_k=3)
    assert [len(top) for top in sample.top] == [3] * len(sample.token_ids)
    assert b"".join(bytes(text) for text in sample.token_texts if isinstance(text, bytes)).decode() == sample.text
