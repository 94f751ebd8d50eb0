"""The two ends of `tests.bench.gateway`: an upstream of pre-rendered bytes, and callers that only count.

Both are bare asyncio protocols, so that what is measured is what stands between them.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import uvloop

PIECES_OF_A_STREAM = 8
PATIENCE = 4
"""What has not been answered after so many times a run's length is not waited for."""
Json = dict[str, Any]


@dataclass(frozen=True)
class Profile:
    """What a model of the upstream answers: tokens in and out, and its think time."""

    prompt_tokens: int
    tokens: int
    think_s: float = 0.0


PROFILES = {"small": Profile(256, 64), "large": Profile(8192, 1024), "slow": Profile(256, 64, 1.0)}


def render_whole(model: str, profile: Profile) -> bytes:
    """A chat completion as vLLM writes it, with token ids and log-probs."""
    ids = list(range(1000, 1000 + profile.tokens))
    entries = [_entry(token) for token in ids]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": " ".join(f"word{token}" for token in ids)},
        "logprobs": {"content": entries},
        "finish_reason": "stop",
        "token_ids": ids,
    }
    body = _head(model, "chat.completion") | {"choices": [choice], "usage": _usage(profile)}
    body["prompt_token_ids"] = list(range(profile.prompt_tokens))
    content = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(content),
        content,
    )


def render_stream(model: str, profile: Profile) -> list[bytes]:
    """The same as server-sent events, one a token, in a few writes."""
    head = _head(model, "chat.completion.chunk")
    first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    chunks: list[Json] = [head | {"choices": [first], "prompt_token_ids": list(range(profile.prompt_tokens))}]
    for token in range(1000, 1000 + profile.tokens):
        choice = {
            "index": 0,
            "delta": {"content": f" word{token}"},
            "logprobs": {"content": [_entry(token)]},
            "finish_reason": None,
            "token_ids": [token],
        }
        chunks.append(head | {"choices": [choice]})
    last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop", "token_ids": []}
    chunks.append(head | {"choices": [last]})
    chunks.append(head | {"choices": [], "usage": _usage(profile)})
    events = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]
    size = -(-len(events) // PIECES_OF_A_STREAM)
    pieces = [b"".join(events[start : start + size]) for start in range(0, len(events), size)]
    framed = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
    framed[0] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + framed[0]
    framed[-1] += b"0\r\n\r\n"
    return framed


def _entry(token: int) -> Json:
    text = f" word{token}"
    return {"token": text, "logprob": -0.123456, "bytes": list(text.encode()), "top_logprobs": []}


def _head(model: str, kind: str) -> Json:
    return {"id": "chatcmpl-0123456789abcdef", "object": kind, "created": 1_700_000_000, "model": model}


def _usage(profile: Profile) -> Json:
    read, made = profile.prompt_tokens, profile.tokens
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}


WHOLE = {name: render_whole(name, profile) for name, profile in PROFILES.items()}
STREAM = {name: render_stream(name, profile) for name, profile in PROFILES.items()}
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
_MODELS = json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in PROFILES]}).encode()


class UpstreamProtocol(asyncio.Protocol):
    """Answers every chat completion with the bytes of the model it names."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        place = head.find(b"content-length:")
        length = int(head[place + 15 :].split(b"\r\n", 1)[0]) if place >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return
        body, self._buffer = self._buffer[end + 4 : end + 4 + length], self._buffer[end + 4 + length :]
        if not head.startswith(b"post"):
            self._transport.write(_OK % (len(_MODELS), _MODELS))
            return
        tail = body.replace(b'": ', b'":')
        name = next(name for name in PROFILES if b'"model":"%s"' % name.encode() in tail)
        if b'"stream":true' in tail:
            self._send_later(PROFILES[name].think_s, STREAM[name], 0)
        elif think_s := PROFILES[name].think_s:
            asyncio.get_running_loop().call_later(think_s, self._transport.write, WHOLE[name])
        else:
            self._transport.write(WHOLE[name])

    def _send_later(self, think_s: float, pieces: list[bytes], place: int) -> None:
        loop = asyncio.get_running_loop()
        if think_s:
            loop.call_later(think_s, self._send_later, 0.0, pieces, place)
            return
        self._transport.write(pieces[place])
        if place + 1 < len(pieces):
            loop.call_soon(self._send_later, 0.0, pieces, place + 1)


class CallerProtocol(asyncio.Protocol):
    """Sends one request after the other and notes how long each took."""

    def __init__(self, run: "Run") -> None:
        self._run = run

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._parts: deque[bytes] = deque()
        self._send()

    def _send(self) -> None:
        if self._run.take():
            self._started = time.perf_counter()
            self._size = 0
            self._wanted: int | None = None
            self._is_chunked = False
            self._transport.write(self._run.request)
        else:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._size == 0:
            self._parts.clear()
        self._parts.append(data)
        self._size += len(data)
        if self._wanted is None and not self._is_chunked:
            self._read_head()
        if self._is_chunked:
            tail = data if len(data) >= 5 else b"".join(list(self._parts)[-6:])
            is_over = tail.endswith(b"0\r\n\r\n")
        else:
            is_over = self._wanted is not None and self._size >= self._wanted
        if is_over:
            self._run.note(time.perf_counter() - self._started, self._parts[0])
            self._send()

    def _read_head(self) -> None:
        whole = b"".join(self._parts)
        end = whole.find(b"\r\n\r\n")
        if end < 0:
            return
        head = whole[:end].lower()
        place = head.find(b"content-length:")
        if place >= 0:
            self._wanted = end + 4 + int(head[place + 15 :].split(b"\r\n", 1)[0])
        else:
            self._is_chunked = True

    def connection_lost(self, error: Exception | None) -> None:
        self._run.leave()


class Run:
    """One measurement: `count` requests by `callers` at a time, or as many as fit into `most_s`."""

    def __init__(self, request: bytes, *, count: int, callers: int, most_s: float) -> None:
        self.request = request
        self.latencies: list[float] = []
        self.failures: list[str] = []
        self._left = count
        self._most_s = most_s
        self._callers = callers

    async def run(self, host: str, port: int) -> Json:
        loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._open = self._callers
        started = time.perf_counter()
        self._until = started + self._most_s
        for _ in range(self._callers):
            await loop.create_connection(lambda: CallerProtocol(self), host, port)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), self._most_s * PATIENCE)
        elapsed = time.perf_counter() - started
        ordered = sorted(self.latencies) or [float("nan")]
        return {
            "requests": len(self.latencies),
            "failed": len(self.failures),
            "first_failure": self.failures[0] if self.failures else "",
            "per_s": round(len(self.latencies) / elapsed, 1),
            "p50_ms": round(1000 * ordered[len(ordered) // 2], 3),
            "p99_ms": round(1000 * ordered[int(len(ordered) * 0.99)], 3),
        }

    def take(self) -> bool:
        if self._left <= 0 or time.perf_counter() > self._until:
            return False
        self._left -= 1
        return True

    def note(self, latency_s: float, head: bytes) -> None:
        if head[9:12] == b"200":
            self.latencies.append(latency_s)
        else:
            self.failures.append(head[:400].decode("latin-1"))

    def leave(self) -> None:
        self._open -= 1
        if self._open == 0:
            self._over.set()


def make_request(model: str, *, is_stream: bool, path: str, host: str, token: str, prompt_words: int) -> bytes:
    body: Json = {
        "model": model,
        "messages": [
            {"role": "system", "content": "You are an agent."},
            {"role": "user", "content": " ".join(f"word{place}" for place in range(prompt_words))},
        ],
        "max_tokens": 64,
        "temperature": 1.0,
    }
    if is_stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"X-Session-Id: bench\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(UpstreamProtocol, "127.0.0.1", port, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def measure(options: argparse.Namespace) -> Json:
    request = make_request(
        options.model,
        is_stream=options.stream,
        path=options.path,
        host=f"127.0.0.1:{options.port}",
        token=options.token,
        prompt_words=options.prompt_words,
    )
    run = Run(request, count=options.count, callers=options.callers, most_s=options.most_s)
    return uvloop.run(run.run("127.0.0.1", options.port))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["upstream", "callers"])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--path", default="/v1/chat/completions")
    parser.add_argument("--token", default="none")
    parser.add_argument("--model", default="small")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--most-s", type=float, default=10.0)
    parser.add_argument("--prompt-words", type=int, default=200)
    options = parser.parse_args()
    if options.part == "upstream":
        uvloop.run(serve(options.port))
    else:
        print(json.dumps(measure(options)))


if __name__ == "__main__":
    main()
