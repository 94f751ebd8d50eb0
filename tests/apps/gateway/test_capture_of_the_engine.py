"""Real answers of the real engine are captured token for token, in both of its dialects, streamed or not."""

import json
import urllib.request
from typing import Any

import orjson
import pytest

from apps.gateway.capture import capture
from apps.gateway.record import Record
from tentalis.core.packing import pack_float32, unpack_int32
from tests.apps.gateway.records import make_header

pytestmark = pytest.mark.torch
ASKED = [{"role": "user", "content": "Order: 3 mug"}]
TOLD = {"n": 2, "max_tokens": 12, "seed": 5, "temperature": 1.0, "return_token_ids": True}


def ask(url: str, body: dict[str, Any]) -> bytes:
    request = urllib.request.Request(url, orjson.dumps(body), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        found: bytes = response.read()
        return found


@pytest.mark.parametrize(
    ("path", "prompt"),
    [("chat/completions", {"messages": ASKED, "logprobs": True}), ("completions", {"prompt": "Order:", "logprobs": 0})],
)
def test_a_stream_and_a_whole_answer_are_captured_alike(engine: str, path: str, prompt: dict[str, Any]) -> None:
    body = {"model": "desk"} | prompt | TOLD
    request = orjson.dumps({"model": "desk"} | {name: value for name, value in prompt.items() if name != "logprobs"})
    whole = ask(f"{engine}/v1/{path}", body)
    streamed = ask(f"{engine}/v1/{path}", body | {"stream": True, "stream_options": {"include_usage": True}})
    found = capture(Record(make_header(1), request, whole))
    again = capture(Record(make_header(1, is_stream=True), request, streamed))
    assert len(found) == len(again) == 2
    answer = json.loads(whole)
    for one, other, choice in zip(found, again, answer["choices"], strict=True):
        assert other._replace(header=one.header) == one
        assert unpack_int32(one.token_ids) == choice["token_ids"]
        entries = choice["logprobs"].get("content")
        told = [entry["logprob"] for entry in entries] if entries else choice["logprobs"]["token_logprobs"]
        assert one.logprobs == pack_float32(told)
        assert unpack_int32(one.prompt_token_ids) == (answer.get("prompt_token_ids") or choice["prompt_token_ids"])
        assert one.text == (choice["message"]["content"] if "message" in choice else choice["text"])
        assert (one.finish_reason, one.error, one.is_truncated) == (choice["finish_reason"], "", False)
    assert found[0].prompt_tokens == answer["usage"]["prompt_tokens"]
    assert sum(one.completion_tokens for one in found) == answer["usage"]["completion_tokens"]
