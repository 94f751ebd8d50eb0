"""A judge or worker on Anthropic's API: the same call, in its words."""

from typing import Any

import pytest

from apps.inference.client import ModelClient
from apps.inference.errors import ProviderAnswerError
from tentalis.core.token_use import TokenUse
from tests.fakes import FakeModelServer


class Messages(FakeModelServer):
    """Answers /v1/messages as Anthropic documents it."""

    answer: Any = {
        "type": "message",
        "model": "claude-x",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "It is "},
            {"type": "text", "text": "seven."},
            {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3},
    }

    def _answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        return (200, self.answer, {}) if path == "/v1/messages" else (404, {"error": {"message": "no"}}, {})


def ask(server: FakeModelServer, **more: Any) -> Any:
    client = ModelClient(server.url, "sk-ant-1", kind="anthropic", allow_private=True)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "3 + 4?"},
        {"role": "assistant", "content": None, "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "t0", "content": "7"},
        {"role": "user", "content": [{"type": "text", "text": "So?"}]},
    ]
    return client.chat(messages, model="claude-x", max_tokens=9, stop=["END"], seed=1, **more)


_CALL = {"id": "t0", "type": "function", "function": {"name": "add", "arguments": '{"a": 3}'}}


def test_a_conversation_is_asked_in_anthropics_form() -> None:
    with Messages() as server:
        ask(server, extra={"tools": [{"type": "function", "function": {"name": "add"}}]})
        request = server.requests[0]
    assert request.headers["x-api-key"] == "sk-ant-1"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert "Authorization" not in request.headers
    assert request.body == {
        "model": "claude-x",
        "temperature": 1.0,
        "max_tokens": 9,
        "system": "Be kind.",
        "stop_sequences": ["END"],
        "tools": [{"name": "add", "description": "", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "3 + 4?"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t0", "name": "add", "input": {"a": 3}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t0", "content": "7"},
                    {"type": "text", "text": "So?"},
                ],
            },
        ],
    }


def test_its_answer_is_read_like_any_other() -> None:
    with Messages() as server:
        [sample] = ask(server)
    assert (sample.text, sample.reasoning, sample.finish_reason) == ("It is seven.", "hm", "tool_calls")
    assert sample.tool_calls[0]["function"] == {"name": "look", "arguments": '{"at": 1}'}
    assert sample.use == TokenUse(prompt=8, completion=2, cached=3)
    assert not sample.has_exact_tokens


@pytest.mark.parametrize("answer", [{}, {"content": 7}, {"content": [{"type": "text"}]}, [], {"choices": []}])
def test_an_answer_of_another_dialect_is_unreadable(answer: Any) -> None:
    with Messages() as server, pytest.raises(ProviderAnswerError, match="wanted a message"):
        server.answer = answer
        ask(server)
