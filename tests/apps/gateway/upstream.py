"""A model server somewhere else, as a process of its own: vLLM's dialect, and every way in which one misbehaves.

`python -m tests.apps.gateway.upstream` prints its port and serves until SIGTERM. Tests start it with `StubUpstream`.

What it says is fixed by what it is asked: a conversation's tokens are one number a word, so that the prompt of turn k
begins with the prompt and the answer of turn k-1, as with a real chat template.
"""

import argparse
import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
import urllib.request
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from types import TracebackType
from typing import Any, Self

import orjson
from aiohttp import web

from tests.apps.gateway.upstream_messages import add_messages

VOCABULARY = 50_000
END_ID = 2
ROLE_IDS = {"system": 3, "developer": 3, "user": 4, "assistant": 5, "tool": 6}
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the server behaves. A request's body field `stub` changes fields of it for that request alone.

    Args:
        reply: what every choice says; "" says `tokens` made-up words. Choice k > 0 says " k" more.
        think_s: before the first byte. token_s: between two tokens of a stream.
        reasoning: thought aloud before the answer, as `reasoning_content`.
        tool_calls: (name, arguments) each; streamed as a name and fragments of its arguments.
        tools_once: calls those alone that a request offers, without a word, and none once its last message is a
            tool's.
        status: other than 200: nothing is generated; `retry_after` goes with it.
        garbage: sends a body that is not JSON.
        truncate_after: closes the connection after so many chunks; of a whole answer, in the middle of its body.
        fail_after: sends an error event after so many chunks, then ends.
        dies: the whole process exits when it is asked.
        has_space: writes `data: {…}`, else `data:{…}`.
        newline: how lines end.
        says_done: ends a stream with [DONE].
        bytes_a_write: cuts streams into writes of so many bytes, wherever that falls; 0: an event a write.
        tells_tokens: knows `return_token_ids` and `logprobs`; else refuses nothing and tells nothing.
        is_strict: refuses `return_token_ids` with 400, as OpenAI's own server does.
        served_as: claims to be another model; served_as_after: from the k-th chunk on only.
        is_healthy: what /health answers.
        squeezes: compresses a whole answer, though nobody asked for that.
        levels: so many lists within each other stand in a whole answer.
        answers_whole: streams nothing, whatever is asked.
        says_error: an error that it answers with, and says 200.
    """

    reply: str = ""
    tokens: int = 8
    think_s: float = 0.0
    token_s: float = 0.0
    reasoning: str = ""
    tool_calls: list[list[str]] = field(default_factory=list)
    tools_once: bool = False
    status: int = 200
    retry_after: str = ""
    garbage: bool = False
    truncate_after: int | None = None
    fail_after: int | None = None
    dies: bool = False
    has_space: bool = True
    newline: str = "\n"
    says_done: bool = True
    bytes_a_write: int = 0
    tells_tokens: bool = True
    is_strict: bool = False
    served_as: str = ""
    served_as_after: int = 0
    is_healthy: bool = True
    squeezes: bool = False
    levels: int = 0
    answers_whole: bool = False
    says_error: Json = field(default_factory=dict)


def token_of(word: str) -> int:
    return 10 + zlib.crc32(word.encode()) % (VOCABULARY - 10)


def tokens_of(text: str) -> list[int]:
    return [token_of(word) for word in text.split()]


def prompt_tokens_of(messages: list[Json]) -> list[int]:
    """The conversation's tokens, then the mark after which the assistant speaks."""
    tokens: list[int] = []
    for message in messages:
        tokens.append(ROLE_IDS[message["role"]])
        tokens += tokens_of(_text_of(message))
        tokens.append(END_ID)
    return [*tokens, ROLE_IDS["assistant"]]


def logprob_of(token: int) -> float:
    return -(token % 100) / 50 - 0.0625


def _text_of(message: Json) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = " ".join(part.get("text", "") for part in content)
    calls = [f"{call['function']['name']} {call['function']['arguments']}" for call in message.get("tool_calls") or ()]
    return " ".join([message.get("reasoning_content") or "", content, *calls])


@dataclass(frozen=True)
class Choice:
    """What one choice says, and its tokens, the end mark included."""

    index: int
    text: str
    reasoning: str
    tool_calls: list[Json]

    @property
    def token_ids(self) -> list[int]:
        message = {"content": self.text, "reasoning_content": self.reasoning, "tool_calls": self.tool_calls}
        return [*tokens_of(_text_of(message)), END_ID]

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.tool_calls else "stop"


def make_choice(plan: Plan, index: int) -> Choice:
    text = plan.reply or " ".join(f"word{place}" for place in range(plan.tokens))
    calls = [
        {"id": f"call_{index}_{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for place, (name, arguments) in enumerate(plan.tool_calls)
    ]
    return Choice(index, f"{text} {index}" if index else text, plan.reasoning, calls)


def find_wanted(body: Json, plan: Plan) -> list[list[str]]:
    """The plan's calls that a request offers tools for, as long as no tool has just answered."""
    offered = {tool["function"]["name"] for tool in body.get("tools") or ()}
    last = body["messages"][-1]
    if last["role"] == "tool" or _text_of(last).strip().startswith("Observation"):
        return []
    return [call for call in plan.tool_calls if call[0] in offered]


def _entries(token_ids: list[int]) -> list[Json]:
    return [{"token": f"t{token}", "logprob": logprob_of(token), "bytes": None} for token in token_ids]


class Answer:
    """Everything one request gets."""

    def __init__(self, body: Json, plan: Plan, number: int) -> None:
        self.plan = plan
        self.is_chat = "messages" in body
        self.tells_ids = plan.tells_tokens and bool(body.get("return_token_ids"))
        wanted = body.get("logprobs")
        self.tells_logprobs = plan.tells_tokens and (bool(wanted) if self.is_chat else wanted is not None)
        self.tells_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        if plan.tools_once and plan.tool_calls:
            wanted = find_wanted(body, plan)
            plan = replace(plan, tool_calls=wanted)
            plan = replace(plan, reply="", tokens=0) if wanted else plan
        self.choices = [make_choice(plan, index) for index in range(body.get("n") or 1)]
        if self.is_chat:
            self.prompt_ids = prompt_tokens_of(body["messages"])
        else:
            prompt = body["prompt"]
            self.prompt_ids = tokens_of(prompt) if isinstance(prompt, str) else list(prompt)
        self.model = body["model"]
        self.head = {"id": f"stub-{number}", "created": 1_700_000_000, "model": self.model}

    @property
    def usage(self) -> Json:
        made = sum(len(choice.token_ids) for choice in self.choices)
        read = len(self.prompt_ids)
        return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}

    def write_whole(self) -> Json:
        kind = "chat.completion" if self.is_chat else "text_completion"
        choices = [self._write_choice(choice) for choice in self.choices]
        body = self.head | {"object": kind, "choices": choices, "usage": self.usage}
        if self.plan.served_as:
            body["model"] = self.plan.served_as
        if self.tells_ids and self.is_chat:
            body["prompt_token_ids"] = self.prompt_ids
        return body

    def write_chunks(self) -> Iterator[Json]:
        """All chunks of a stream in order, the choices taking turns."""
        first: Json = {
            "choices": [self._chunk(choice, {"role": "assistant", "content": ""}) for choice in self.choices]
        }
        if self.tells_ids and self.is_chat:
            first["prompt_token_ids"] = self.prompt_ids
        yield first
        turns = [list(self._deltas(choice)) for choice in self.choices]
        for place in range(max(map(len, turns))):
            for choice, deltas in zip(self.choices, turns, strict=True):
                if place < len(deltas):
                    delta, token_ids, reason = deltas[place]
                    yield {"choices": [self._chunk(choice, delta, token_ids, reason)]}
        if self.tells_usage:
            yield {"choices": [], "usage": self.usage}

    def stamp(self, chunk: Json, place: int) -> Json:
        kind = "chat.completion.chunk" if self.is_chat else "text_completion"
        changed = self.plan.served_as if self.plan.served_as and place >= self.plan.served_as_after else self.model
        return self.head | {"object": kind, "model": changed} | chunk

    def _deltas(self, choice: Choice) -> Iterator[tuple[Json, list[int], str | None]]:
        """(delta, its tokens, finish reason) of one choice."""
        for place, word in enumerate(choice.reasoning.split()):
            yield {"reasoning_content": word if place == 0 else f" {word}"}, [token_of(word)], None
        for place, word in enumerate(choice.text.split()):
            yield {"content": word if place == 0 else f" {word}"}, [token_of(word)], None
        for place, call in enumerate(choice.tool_calls):
            named = call["function"] | {"arguments": ""}
            yield {"tool_calls": [call | {"index": place, "function": named}]}, tokens_of(named["name"]), None
            arguments = call["function"]["arguments"]
            ids = tokens_of(arguments)
            for start in range(0, len(arguments), 5):
                piece = {"index": place, "function": {"arguments": arguments[start : start + 5]}}
                yield {"tool_calls": [piece]}, [] if start else ids, None
        yield {}, [END_ID], choice.finish_reason

    def _chunk(
        self, choice: Choice, delta: Json, token_ids: list[int] | None = None, reason: str | None = None
    ) -> Json:
        chunk: Json = {"index": choice.index, "finish_reason": reason, "logprobs": None}
        chunk |= {"delta": delta} if self.is_chat else {"text": delta.get("content", "")}
        if self.tells_logprobs and token_ids:
            chunk["logprobs"] = self._write_logprobs(token_ids)
        if self.tells_ids and token_ids is not None:
            chunk["token_ids"] = token_ids
        if self.tells_ids and not self.is_chat and token_ids is None:
            chunk |= {"prompt_token_ids": self.prompt_ids, "token_ids": []}
        return chunk

    def _write_choice(self, choice: Choice) -> Json:
        body: Json = {"index": choice.index, "finish_reason": choice.finish_reason, "logprobs": None}
        if self.is_chat:
            message: Json = {"role": "assistant", "content": choice.text}
            if choice.reasoning:
                message["reasoning_content"] = choice.reasoning
            if choice.tool_calls:
                message["tool_calls"] = choice.tool_calls
            body["message"] = message
        else:
            body["text"] = choice.text
        if self.tells_logprobs:
            body["logprobs"] = self._write_logprobs(choice.token_ids)
        if self.tells_ids:
            body["token_ids"] = choice.token_ids
            if not self.is_chat:
                body["prompt_token_ids"] = self.prompt_ids
        return body

    def _write_logprobs(self, token_ids: list[int]) -> Json:
        if self.is_chat:
            return {"content": _entries(token_ids)}
        return {"tokens": [f"t{token}" for token in token_ids], "token_logprobs": list(map(logprob_of, token_ids))}


class Server:
    """The process."""

    def __init__(self, models: list[str], plan: Plan) -> None:
        self.plan = self.first_plan = plan
        self.models = models
        self.first_models = tuple(models)
        self.seen: list[Json] = []
        self.count = 0
        self.open = 0
        self.app = web.Application(client_max_size=2**26)
        add_messages(self.app, self)
        self.app.add_routes(
            [
                web.post("/v1/chat/completions", self.answer),
                web.post("/v1/completions", self.answer),
                web.post("/tokenize", self.tokenize),
                web.post(r"/v1/{what:embeddings|rerank|moderations|images/\w+|audio/\w+}", self.hand_over),
                web.get("/v1/models", self.list_models),
                web.post("/v1/load_lora_adapter", self.load),
                web.post("/v1/unload_lora_adapter", self.unload),
                web.get("/health", self.report_health),
                web.post("/stub/plan", self.change_plan),
                web.post("/stub/reset", self.reset),
                web.get("/stub/requests", self.list_requests),
            ]
        )

    async def see(self, request: web.Request) -> Json:
        body: Json = orjson.loads(await request.read())
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append({"path": request.path, "body": body, "headers": headers})
        del self.seen[:-1000]
        self.count += 1
        return body

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await self.see(request)
        if self.plan.status != 200:
            return _refuse(self.plan.status, f"the stub was told to answer {self.plan.status}", "stub")
        tokens = prompt_tokens_of(body["messages"])
        return web.json_response({"tokens": tokens, "count": len(tokens), "max_model_len": 4096})

    async def hand_over(self, request: web.Request) -> web.Response:
        """An embedding, a sound, or whatever else was asked for."""
        raw = await request.read()
        is_json = request.content_type == "application/json"
        body = orjson.loads(raw) if is_json else {"form": raw.decode("latin-1")}
        self.seen.append(
            {"path": request.path, "body": body, "headers": {k.lower(): v for k, v in request.headers.items()}}
        )
        if self.plan.status != 200:
            headers = {"Retry-After": self.plan.retry_after} if self.plan.retry_after else {}
            return _refuse(self.plan.status, f"the stub was told to answer {self.plan.status}", "stub", headers)
        if request.path.endswith("/speech"):
            return web.Response(body=b"ID3sound", content_type="audio/mpeg")
        data = [{"object": "embedding", "index": 0, "embedding": [0.5, -0.25]}]
        usage = {"prompt_tokens": 7, "total_tokens": 7}
        return web.json_response({"object": "list", "data": data, "model": "base", "text": "heard", "usage": usage})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await self.see(request)
        plan = Plan(**asdict(self.plan) | body.get("stub", {}))
        number = self.count
        self.open += 1
        try:
            return await self._answer(request, body, plan, number)
        finally:
            self.open -= 1

    async def _answer(self, request: web.Request, body: Json, plan: Plan, number: int) -> web.StreamResponse:
        if plan.dies:
            os._exit(9)
        await asyncio.sleep(plan.think_s)
        if plan.status != 200:
            headers = {"Retry-After": plan.retry_after} if plan.retry_after else {}
            return _refuse(plan.status, f"the stub was told to answer {plan.status}", "stub", headers)
        if body["model"] not in self.models:
            return _refuse(404, f"The model `{body['model']}` does not exist.", "model_not_found")
        if plan.is_strict and (extra := {"return_token_ids", "stub"} & body.keys()):
            return _refuse(400, f"Unrecognized request argument supplied: {', '.join(sorted(extra))}", "unknown")
        if plan.garbage:
            return web.Response(text="<html>it works</html>", content_type="text/html")
        if plan.says_error:
            return web.json_response({"error": plan.says_error})
        answer = Answer(body, plan, number)
        if body.get("stream") and not plan.answers_whole:
            return await self._stream(request, answer)
        whole = orjson.dumps(answer.write_whole())
        if plan.levels:
            whole = whole[:-1] + b',"deep":' + b"[" * plan.levels + b"]" * plan.levels + b"}"
        if plan.squeezes:
            headers = {"Content-Encoding": "gzip"}
            return web.Response(body=gzip.compress(whole), content_type="application/json", headers=headers)
        if plan.truncate_after is None:
            return web.Response(body=whole, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(whole))})
        await response.prepare(request)
        await response.write(whole[: len(whole) // 2])
        return _cut(request, response)

    async def _stream(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        plan = answer.plan
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        events: list[bytes] = []
        for place, chunk in enumerate(answer.write_chunks()):
            if place == plan.truncate_after:
                await _write(response, events, plan)
                return _cut(request, response)
            if place == plan.fail_after:
                events.append(_event({"error": {"message": "the stub was told to fail", "code": "stub"}}, plan))
                break
            events.append(_event(answer.stamp(chunk, place), plan))
            if plan.token_s:
                await _write(response, events, plan)
                events = []
                await asyncio.sleep(plan.token_s)
        if plan.says_done:
            events.append(f"data:{' ' * plan.has_space}[DONE]{plan.newline * 2}".encode())
        await _write(response, events, plan)
        await response.write_eof()
        return response

    async def list_models(self, _: web.Request) -> web.Response:
        data = [{"id": name, "object": "model", "created": 1, "owned_by": "stub", "root": name} for name in self.models]
        return web.json_response({"object": "list", "data": data})

    async def load(self, request: web.Request) -> web.Response:
        name = (await request.json())["lora_name"]
        if name not in self.models:
            self.models.append(name)
        return web.Response(text=f"Success: LoRA adapter '{name}' added successfully.")

    async def unload(self, request: web.Request) -> web.Response:
        name = (await request.json())["lora_name"]
        if name not in self.models:
            return _refuse(404, f"The lora adapter '{name}' cannot be found.", "NotFoundError")
        self.models.remove(name)
        return web.Response(text=f"Success: LoRA adapter '{name}' removed successfully.")

    async def report_health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"}, status=200 if self.plan.is_healthy else 503)

    async def change_plan(self, request: web.Request) -> web.Response:
        self.plan = Plan(**asdict(self.plan) | await request.json())
        return web.json_response(asdict(self.plan))

    async def reset(self, _: web.Request) -> web.Response:
        self.plan, self.seen, self.models = self.first_plan, [], list(self.first_models)
        return web.json_response({})

    async def list_requests(self, _: web.Request) -> web.Response:
        return web.json_response({"count": self.count, "open": self.open, "requests": self.seen})


def _event(chunk: Json, plan: Plan) -> bytes:
    return b"data:" + b" " * plan.has_space + orjson.dumps(chunk) + plan.newline.encode() * 2


async def _write(response: web.StreamResponse, events: list[bytes], plan: Plan) -> None:
    if not plan.bytes_a_write:
        for event in events:
            await response.write(event)
        return
    whole = b"".join(events)
    for start in range(0, len(whole), plan.bytes_a_write):
        await response.write(whole[start : start + plan.bytes_a_write])
        await asyncio.sleep(0)


def _cut(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection without an end."""
    if request.transport is not None:
        request.transport.close()
    return response


def _refuse(status: int, message: str, code: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"error": {"message": message, "type": "stub_error", "param": None, "code": code}}
    return web.json_response(body, status=status, headers=headers)


class StubUpstream:
    """The process, for tests: `with StubUpstream() as upstream: …`.

    Args:
        models: names it answers to at first.
        port: 0: any.
    """

    def __init__(self, *, models: tuple[str, ...] = ("base",), port: int = 0, **plan: Any) -> None:
        self._argv = [sys.executable, "-m", "tests.apps.gateway.upstream", "--port", str(port)]
        self._argv += ["--models", ",".join(models), "--plan", json.dumps(plan)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._argv, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._process.kill()
        self._process.wait()

    def plan(self, **changes: Any) -> None:
        """Behave differently from now on."""
        self._call("POST", "/stub/plan", changes)

    def reset(self) -> None:
        """Behave as at the start, and forget the requests seen."""
        self._call("POST", "/stub/reset", {})

    def load(self, name: str) -> None:
        self._call("POST", "/v1/load_lora_adapter", {"lora_name": name, "lora_path": f"/{name}"})

    def unload(self, name: str) -> None:
        self._call("POST", "/v1/unload_lora_adapter", {"lora_name": name})

    @property
    def requests(self) -> list[Json]:
        """The last requests that reached it: {path, body, headers}."""
        found: list[Json] = json.loads(self._call("GET", "/stub/requests"))["requests"]
        return found

    @property
    def open_requests(self) -> int:
        """How many it is answering right now."""
        return int(json.loads(self._call("GET", "/stub/requests"))["open"])

    def _call(self, method: str, path: str, body: Json | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as response:
            found: bytes = response.read()
            return found


async def serve(models: list[str], plan: Plan, port: int) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    runner = web.AppRunner(
        Server(models, plan).app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=0.1
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await stopping.wait()
    await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--models", default="base", help="names it answers to, with commas between")
    parser.add_argument("--plan", default="{}", help=f"JSON of {', '.join(entry.name for entry in fields(Plan))}")
    options = parser.parse_args()
    asyncio.run(serve(options.models.split(","), Plan(**json.loads(options.plan)), options.port))


if __name__ == "__main__":
    main()
