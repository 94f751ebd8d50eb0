"""The engine over HTTP, as vLLM's clients use it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

from gpu_workers.engine import Engine
from gpu_workers.engine.answers import AnswerWriter
from gpu_workers.engine.jobs import Delta, FinishReason, Job, Sample, SamplingOptions
from gpu_workers.engine.protocol import GenerationRequest
from gpu_workers.engine.server import ADAPTER_HEADER, EngineServer
from gpu_workers.engine.text import TextCodec
from tests.gpu_workers.templated import CALL, make_templated_model, serve_prompt

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")]

Client = TestClient[Any, Any]
PROMPT = "<|user|>Order: 3 mug<|end|><|assistant|>"


@pytest.fixture
async def client(model_directory: Callable[[str], Path]) -> AsyncIterator[Client]:
    server = EngineServer(Engine("tiny", model_directory("qwen2"), max_rows=64, max_waiting=64), host="127.0.0.1")
    async with TestClient(TestServer(server.app, handler_cancellation=True)) as found:
        server.start()
        yield found
        await server.stop(drain_s=5)


async def post(client: Client, path: str, body: Any, status: int = 200) -> Any:
    response = await client.post(path, json=body)
    assert response.status == status, await response.text()
    return (
        await response.json(content_type=None) if response.content_type == "application/json" else await response.text()
    )


async def stream(client: Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    response = await client.post(path, json=body | {"stream": True})
    assert response.content_type == "text/event-stream"
    lines = [line.removeprefix("data: ") for line in (await response.text()).split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


async def test_a_completion_carries_text_token_ids_and_logprobs_that_fit_together(client: Client) -> None:
    body = {
        "model": "tiny",
        "prompt": PROMPT,
        "n": 3,
        "max_tokens": 12,
        "seed": 5,
        "logprobs": 2,
        "return_token_ids": True,
    }
    answer = await post(client, "/v1/completions", body)
    assert (answer["object"], answer["model"], len(answer["choices"])) == ("text_completion", "tiny", 3)
    for index, choice in enumerate(answer["choices"]):
        assert choice["index"] == index
        logprobs = choice["logprobs"]
        assert len(choice["token_ids"]) == len(logprobs["tokens"]) == len(logprobs["token_logprobs"])
        assert logprobs["text_offset"][0] == 0
        assert all(len(entry) <= 2 for entry in logprobs["top_logprobs"])
    used = sum(len(choice["token_ids"]) for choice in answer["choices"])
    prompt_size = len(answer["choices"][0]["prompt_token_ids"])
    assert answer["usage"] == {
        "prompt_tokens": prompt_size,
        "completion_tokens": used,
        "total_tokens": prompt_size + used,
    }
    again = await post(client, "/v1/completions", body)
    assert [choice["token_ids"] for choice in again["choices"]] == [c["token_ids"] for c in answer["choices"]]


async def test_prompts_come_as_text_or_token_ids_alone_or_many(client: Client) -> None:
    tokens = (await post(client, "/tokenize", {"prompt": PROMPT}))["tokens"]
    answers = [
        await post(
            client,
            "/v1/completions",
            {"model": "tiny", "prompt": prompt, "n": 2, "temperature": 0, "max_tokens": 6, "return_token_ids": True},
        )
        for prompt in (PROMPT, tokens, [PROMPT], [tokens], [PROMPT, "other"], [tokens, [3, 4]])
    ]
    assert [len(answer["choices"]) for answer in answers] == [2, 2, 2, 2, 4, 4]
    assert len({tuple(answer["choices"][0]["token_ids"]) for answer in answers}) == 1
    assert (await post(client, "/detokenize", {"tokens": tokens}))["prompt"] == PROMPT


@pytest.mark.parametrize("extra", [{}, {"stop": ["e", "1"]}, {"logprobs": 1, "return_token_ids": True}])
async def test_a_streamed_completion_is_the_whole_one_in_pieces(client: Client, extra: dict[str, Any]) -> None:
    body = {"model": "tiny", "prompt": PROMPT, "n": 3, "max_tokens": 20, "seed": 6} | extra
    whole = await post(client, "/v1/completions", body)
    chunks = await stream(client, "/v1/completions", body | {"stream_options": {"include_usage": True}})
    assert chunks[-1]["usage"] == whole["usage"]
    assert chunks[-1]["choices"] == []
    for choice in whole["choices"]:
        mine = [chunk["choices"][0] for chunk in chunks[:-1] if chunk["choices"][0]["index"] == choice["index"]]
        assert "".join(piece["text"] for piece in mine) == choice["text"]
        assert (mine[-1]["finish_reason"], mine[-1]["stop_reason"]) == (choice["finish_reason"], choice["stop_reason"])
        if extra.get("logprobs"):
            assert [token for piece in mine for token in piece["token_ids"]] == choice["token_ids"]
            streamed = [piece["logprobs"] for piece in mine if piece["logprobs"]]
            for field in ("tokens", "text_offset"):
                assert [value for entry in streamed for value in entry[field]] == choice["logprobs"][field]


async def test_every_token_of_many_streams_at_once_arrives(client: Client) -> None:
    bodies = [
        {"model": "tiny", "prompt": PROMPT, "max_tokens": 1 + index % 7, "ignore_eos": True, "return_token_ids": True}
        for index in range(48)
    ]
    answers = await asyncio.gather(*(stream(client, "/v1/completions", body) for body in bodies))
    for body, chunks in zip(bodies, answers, strict=True):
        choices = [chunk["choices"][0] for chunk in chunks]
        assert sum(len(choice["token_ids"]) for choice in choices) == body["max_tokens"]
        assert choices[-1]["finish_reason"] == "length"
    (only_read,) = await stream(client, "/v1/completions", {"model": "tiny", "prompt": PROMPT, "max_tokens": 0})
    assert only_read["choices"][0]["finish_reason"] == "length"


async def test_a_chat_is_answered_whole_and_streamed(client: Client) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Order: 3 mug"}], "max_tokens": 8, "seed": 2}
    whole = await post(
        client, "/v1/chat/completions", body | {"logprobs": True, "top_logprobs": 1, "return_token_ids": True}
    )
    assert whole["object"] == "chat.completion"
    assert whole["prompt_token_ids"] == (await post(client, "/tokenize", {"prompt": PROMPT}))["tokens"]
    choice = whole["choices"][0]
    assert choice["message"]["role"] == "assistant"
    assert len(choice["logprobs"]["content"]) == len(choice["token_ids"])
    chunks = await stream(client, "/v1/chat/completions", body)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks) == choice["message"]["content"]


async def test_a_teacher_reads_log_probs_of_given_tokens_without_sampling(client: Client) -> None:
    sampled = await post(
        client,
        "/v1/completions",
        {"model": "tiny", "prompt": PROMPT, "max_tokens": 9, "seed": 1, "logprobs": 0, "return_token_ids": True},
    )
    choice = sampled["choices"][0]
    whole = choice["prompt_token_ids"] + choice["token_ids"]
    scored = await post(
        client, "/v1/completions", {"model": "tiny", "prompt": whole, "max_tokens": 0, "prompt_logprobs": 0}
    )
    entries = scored["choices"][0]["prompt_logprobs"]
    assert entries[0] is None
    assert scored["choices"][0]["text"] == ""
    found = [entry[str(token)]["logprob"] for entry, token in zip(entries[1:], whole[1:], strict=True)]
    assert found[-len(choice["token_ids"]) :] == pytest.approx(choice["logprobs"]["token_logprobs"], abs=1e-4)
    start = len(choice["prompt_token_ids"])
    for told in (start, [start]):
        behind = {"model": "tiny", "prompt": whole, "max_tokens": 0, "prompt_logprobs": 0, "logprob_start_len": told}
        answer = (await post(client, "/v1/completions", behind))["choices"][0]["prompt_logprobs"]
        assert answer[:start] == [None] * start
        assert [entry[str(token)]["logprob"] for entry, token in zip(answer[start:], whole[start:], strict=True)] == (
            pytest.approx(found[start - 1 :], abs=1e-5)
        )


@pytest.mark.parametrize("start", [-1, 1.5, "2", [1, 2], 10_000, True])
async def test_log_probs_are_told_from_a_place_in_the_prompt_on(client: Client, start: object) -> None:
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 0, "prompt_logprobs": 0, "logprob_start_len": start}
    refused = await post(client, "/v1/completions", body, 400)
    assert "logprob_start_len must be" in refused["error"]["message"]


async def test_adapters_are_loaded_named_in_the_answer_and_unloaded(
    client: Client, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    path = str(write_adapter(tmp_path / "a"))
    assert "added successfully" in await post(client, "/v1/load_lora_adapter", {"lora_name": "w@v1", "lora_path": path})
    models = await (await client.get("/v1/models")).json()
    assert [(model["id"], model["parent"]) for model in models["data"]] == [("tiny", None), ("w@v1", "tiny")]
    response = await client.post("/v1/completions", json={"model": "w@v1", "prompt": PROMPT, "max_tokens": 3})
    assert response.headers[ADAPTER_HEADER] == "w@v1"
    assert (await response.json())["model"] == "w@v1"
    refused = await post(client, "/v1/load_lora_adapter", {"lora_name": "w@v1", "lora_path": path}, 400)
    assert refused["error"]["code"] == "adapter_name_taken"
    missing = await post(client, "/v1/load_lora_adapter", {"lora_name": "w@v2", "lora_path": "/nowhere"}, 400)
    assert "/nowhere" in missing["error"]["message"]
    await post(client, "/v1/unload_lora_adapter", {"lora_name": "w@v1"})
    gone = await post(client, "/v1/completions", {"model": "w@v1", "prompt": PROMPT}, 404)
    assert (gone["error"]["code"], gone["error"]["param"]) == ("model_not_found", "model")


GOOD = {"model": "tiny", "prompt": "x"}


@pytest.mark.parametrize(
    ("body", "param", "named"),
    [
        ([], None, "must be a JSON object"),
        ({"prompt": "x"}, "model", "model must be a non-empty string"),
        (GOOD | {"prompt": None}, "prompt", "prompt must be"),
        (GOOD | {"prompt": [1, "x"]}, "prompt", "list of token ids"),
        (GOOD | {"prompt": [[1], "x"]}, "prompt", "list of token ids"),
        (GOOD | {"prompt": [10**9]}, "prompt", "must lie in 0..599"),
        (GOOD | {"n": 0}, "n", "found 0"),
        (GOOD | {"n": True}, "n", "found True"),
        (GOOD | {"n": 65}, "n", "at most 64, found 65"),
        (GOOD | {"max_tokens": -1}, "max_tokens", "found -1"),
        (GOOD | {"max_tokens": 999}, "prompt", "context is 128 tokens; the prompt has 1"),
        (GOOD | {"temperature": -0.1}, "temperature", "found -0.1"),
        (GOOD | {"temperature": "hot"}, "temperature", "found 'hot'"),
        (GOOD | {"top_p": 0}, "top_p", "above 0"),
        (GOOD | {"top_p": 1.5}, "top_p", "found 1.5"),
        (GOOD | {"seed": "7"}, "seed", "found '7'"),
        (GOOD | {"stop": [""]}, "stop", "non-empty"),
        (GOOD | {"stop": ["x"] * 17}, "stop", "at most 16"),
        (GOOD | {"stop_token_ids": "x"}, "stop_token_ids", "list of token ids"),
        (GOOD | {"stop_token_ids": [5, -100_000]}, "stop_token_ids", "token ids, 0 or above, found [5, -100000]"),
        (GOOD | {"logprobs": 21}, "logprobs", "from 0 to 20"),
        (GOOD | {"stream": "yes"}, "stream", "true or false"),
        (GOOD | {"stream_options": {}}, "stream_options", "only with stream"),
        (GOOD | {"logit_bias": {"1": 5}}, "logit_bias", "not supported"),
        (GOOD | {"echo": True}, "echo", "not supported"),
        (GOOD | {"colour": 1}, "colour", "unknown field"),
        (GOOD | {"prompt": ["x"] * 65}, "prompt", "at most 64 prompts"),
    ],
)
async def test_a_wrong_field_is_refused_by_name(client: Client, body: Any, param: str | None, named: str) -> None:
    error = (await post(client, "/v1/completions", body, 400))["error"]
    assert error["param"] == param
    assert named in error["message"]
    assert error["type"] == "invalid_request_error"


async def test_what_is_no_request_gets_an_error_of_the_same_shape(client: Client) -> None:
    broken = await client.post("/v1/completions", data=b"{", headers={"Content-Type": "application/json"})
    assert (broken.status, "not JSON" in (await broken.json())["error"]["message"]) == (400, True)
    form = await client.post("/v1/completions", data={"model": "tiny"})
    assert form.status == 415
    assert (await client.get("/nowhere")).status == 404
    assert (await client.get("/v1/completions")).status == 405
    rebound = await client.get("/v1/models", headers={"Host": "attacker.example"})
    assert (rebound.status, (await rebound.json())["error"]["code"]) == (403, "forbidden_host")


async def read_metric(client: Client, name: str) -> float:
    text = await (await client.get("/metrics")).text()
    return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(name)))


async def test_a_client_that_goes_away_takes_its_rows_with_it(client: Client) -> None:
    long = {"model": "tiny", "prompt": PROMPT, "n": 32, "max_tokens": 100, "ignore_eos": True}
    request = asyncio.create_task(client.post("/v1/completions", json=long))
    streaming = await client.post("/v1/completions", json=long | {"stream": True})
    await streaming.content.readline()
    request.cancel()
    streaming.close()
    async with asyncio.timeout(120):
        while await read_metric(client, "vllm:num_requests_running") > 0:
            await asyncio.sleep(0)
    assert await read_metric(client, "vllm:generation_tokens_total") < 64 * 100
    assert (await client.get("/health")).status == 200


async def test_a_full_queue_answers_429_with_a_time_to_come_back(client: Client) -> None:
    crowd = {"model": "tiny", "prompt": ["x"] * 64, "n": 64, "max_tokens": 90, "ignore_eos": True}
    first = asyncio.create_task(client.post("/v1/completions", json=crowd))
    async with asyncio.timeout(120):
        while await read_metric(client, "vllm:num_requests_waiting") < 60:
            await asyncio.sleep(0)
    refused = await client.post("/v1/completions", json=GOOD | {"prompt": ["x"] * 10})
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    assert (await refused.json())["error"]["code"] == "queue_full"
    first.cancel()


TOOL: dict[str, Any] = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
CALLING = '<tool_call>{"name": "look_up", "arguments": {"item": "mug"}}</tool_call>'


@pytest.fixture
async def calling() -> AsyncIterator[Client]:
    """A model that reads bytes through Qwen2.5's template, and always goes on with what it is led to."""
    server = EngineServer(Engine("tiny", make_templated_model("qwen2.5")), host="127.0.0.1")
    async with TestClient(TestServer(server.app)) as found:
        server.start()
        yield found
        await server.stop(drain_s=5)


async def test_tools_are_written_by_the_models_template(calling: Client, client: Client) -> None:
    said = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "A mug?"},
        said,
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]
    body = {"model": "tiny", "messages": messages, "tools": [TOOL], "max_tokens": 3, "return_token_ids": True}
    whole = await post(calling, "/v1/chat/completions", body)
    prompt = tuple(whole["prompt_token_ids"])
    assert prompt == serve_prompt(make_templated_model("qwen2.5"), messages, tools=[TOOL])
    untold = await post(calling, "/v1/chat/completions", body | {"tool_choice": "none"})
    assert tuple(untold["prompt_token_ids"]) == prompt
    counted = await post(calling, "/tokenize", {"model": "tiny", "messages": messages, "tools": [TOOL]})
    assert tuple(counted["tokens"]) == prompt
    for wrong, words in (
        ({"tools": [{"name": "look_up"}]}, "tools must be a list of"),
        ({"tool_choice": "required"}, "tool_choice must be none or auto"),
        ({"messages": [{"role": "assistant", "tool_calls": ["look_up"]}]}, "tool_calls must be a list of objects"),
    ):
        refused = await post(calling, "/v1/chat/completions", body | wrong, 400)
        assert words in refused["error"]["message"]
    asked = {"model": "tiny", "messages": messages, "tools": [TOOL], "max_tokens": 3}
    refused = await post(client, "/v1/chat/completions", asked, 400)
    assert "its chat template does not write them" in refused["error"]["message"]
    hints = {"drop_params": True, "prompt_cache_key": "k", "reasoning_effort": "low", "tool_choice": "auto"}
    await post(client, "/v1/chat/completions", asked | hints)  # what it need not do is left undone
    refused = await post(client, "/v1/chat/completions", asked | hints | {"suffix": "x"}, 400)
    assert "suffix is not supported" in refused["error"]["message"]


def write(calling: str, *, reason: FinishReason = "stop", streams: bool = False, reads: bool = True) -> AnswerWriter:
    """What is told of an answer of these words to somebody who offered tools."""
    codec = TextCodec.from_directory(make_templated_model("qwen2.5"))
    options = SamplingOptions(seed=0, streams=streams, top_logprobs=0)
    asked = GenerationRequest(Loaded("tiny"), [[5]], options, True, False, True, reads_calls=reads)  # type: ignore[arg-type]
    job = Job(asked.loaded, asked.prompts, options)
    tokens = codec.encode([calling], add_special_tokens=False)[0] + [1]
    job.finish_choice(0, Sample(calling, tokens, np.zeros(len(tokens), np.float32), reason))
    return AnswerWriter(asked, job, codec, identifier="abcdef", created=0)


@dataclass(frozen=True)
class Loaded:
    name: str
    fingerprint: str = "0" * 64


def test_calls_are_told_as_calls_with_every_token_as_it_was_drawn() -> None:
    (choice,) = write(f"Let me see.\n{CALLING}").write_whole()["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", "Let me see.")
    assert call["function"] == {"name": "look_up", "arguments": '{"item": "mug"}'}
    assert len(call["id"]) == 9
    assert len(choice["token_ids"]) == len(choice["logprobs"]["content"]) == len(f"Let me see.\n{CALLING}") + 1
    for writer in (write(CALLING, reason="length"), write(CALLING, reads=False), write("<tool_call>{</tool_call>")):
        (choice,) = writer.write_whole()["choices"]
        assert "tool_calls" not in choice["message"]
        assert choice["message"]["content"].startswith("<tool_call>{")


def test_a_stream_that_may_turn_out_to_be_a_call_tells_it_with_its_last_chunk() -> None:
    writer = write(CALLING, streams=True)
    said = f"2 < 3.\n{CALLING}"
    tokens = TextCodec.from_directory(make_templated_model("qwen2.5")).encode([said], add_special_tokens=False)[0]
    chunks = [writer.write_delta(Delta(0, letter, [token], [0.0])) for letter, token in zip(said, tokens, strict=True)]
    chunks.append(writer.write_delta(Delta(0, "", [1], [0.0], finish_reason="stop")))
    choices = [chunk["choices"][0] for chunk in chunks if chunk is not None]
    assert [choice["delta"].get("content", "") for choice in choices[:-1]] == [
        *("2", "", "", " <", " 3", "."), *[""] * (len(CALLING) + 1)
    ]  # fmt: skip
    assert [token for choice in choices for token in choice["token_ids"]] == [*tokens, 1]
    assert sum(len(choice["logprobs"]["content"]) for choice in choices) == len(tokens) + 1, "a call's tokens too"
    assert choices[-1]["finish_reason"] == "tool_calls"
    (call,) = choices[-1]["delta"]["tool_calls"]
    assert (call["index"], call["function"]["name"]) == (0, "look_up")


@pytest.mark.parametrize(
    ("path", "body", "param", "wanted"),
    [
        ("/detokenize", {"tokens": [-1]}, "tokens", "token ids, 0 or above"),
        ("/detokenize", {"tokens": [5, -10_000]}, "tokens", "token ids, 0 or above"),
        ("/detokenize", {"model": ["x"], "tokens": [5]}, "model", "a non-empty string"),
        ("/tokenize", {"model": ["x"], "prompt": "a"}, "model", "a non-empty string"),
        ("/tokenize", {"model": {}, "messages": [{"role": "user", "content": "a"}]}, "model", "a non-empty string"),
    ],
)
async def test_what_cannot_be_read_of_tokens_and_model_is_named(
    client: Client, path: str, body: Any, param: str, wanted: str
) -> None:
    error = (await post(client, path, body, 400))["error"]
    assert error["param"] == param
    assert wanted in error["message"]
