"""Servers are told what they know, and the record keeps all of it."""

import copy

import pytest

from apps.gateway.dialects import DIALECTS, fit_server
from apps.inference.provider_kinds import KINDS
from tests.apps.gateway.dialects.conversations import Json


def say_everything() -> Json:
    return DIALECTS["responses"].to_chat(
        {
            "model": "m",
            "instructions": "be brief",
            "input": [
                {"role": "user", "content": "hi"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"role": "assistant", "content": "hello"},
            ],
            "prompt_cache_key": "k",
            "text": {"verbosity": "low"},
        }
    ) | {"top_k": 5, "continue_final_message": True, "add_generation_prompt": False}


@pytest.mark.parametrize("kind", KINDS)
def test_no_server_is_told_whose_words_the_system_message_is(kind: str) -> None:
    """Groq answers 400 to a name."""
    chat = say_everything()
    before = copy.deepcopy(chat)
    fitted = fit_server(chat, kind=kind, reasoning_field=KINDS[kind].reasoning_field)
    assert fitted["messages"][0] == {"role": "system", "content": "be brief"}
    assert chat == before
    assert chat["messages"][0]["name"] == "instructions"


@pytest.mark.parametrize(
    ("kind", "extras"),
    [
        ("vllm", {"top_k", "continue_final_message", "add_generation_prompt"}),
        ("engine", {"top_k"}),
        ("openai", {"prompt_cache_key", "verbosity"}),
        ("groq", set()),
        ("deepseek", set()),
    ],
)
def test_a_server_is_told_what_it_knows(kind: str, extras: set[str]) -> None:
    fitted = fit_server(say_everything(), kind=kind, reasoning_field="")
    assert fitted.keys() == {"model", "messages"} | extras


@pytest.mark.parametrize(
    ("field", "answer"),
    [
        ("reasoning_content", {"role": "assistant", "content": "hello", "reasoning_content": "hm"}),
        ("reasoning", {"role": "assistant", "content": "hello", "reasoning": "hm"}),
        ("", {"role": "assistant", "content": "hello"}),
    ],
)
def test_thoughts_go_back_under_the_servers_own_name(field: str, answer: Json) -> None:
    assert fit_server(say_everything(), kind="vllm", reasoning_field=field)["messages"][2] == answer
