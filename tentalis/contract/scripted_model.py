"""A model that says what a script has for what it is asked, behind OpenAI's chat API: streamed or whole, with tools.

Standard library alone; `tentalis agent init` copies it beside the tests of a new package.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

OBSERVATION = "Observation:"


@dataclass(frozen=True)
class Call:
    """A tool that the model wants called. `arguments`: an object, where the model is a good one."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    path: str
    key: str
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        return list(self.body.get("messages") or ())

    @property
    def tools(self) -> list[str]:
        """Names of those that are offered."""
        return [str(tool["function"]["name"]) for tool in self.body.get("tools") or ()]

    @property
    def prompt(self) -> str:
        """What the user said first."""
        return next((read_text(one) for one in self.messages if one.get("role") == "user"), "")

    @property
    def said(self) -> str:
        """The last message."""
        return read_text(self.messages[-1]) if self.messages else ""

    @property
    def results(self) -> list[str]:
        """What tools gave, in order; some frameworks tell it as a user's words."""
        said = [(one.get("role"), read_text(one)) for one in self.messages]
        return [
            text.removeprefix(OBSERVATION).strip()
            for role, text in said
            if role == "tool" or (role == "user" and text.startswith(OBSERVATION))
        ]

    @property
    def everything(self) -> str:
        return json.dumps(self.body, ensure_ascii=False)


Script = Callable[[Asked], "str | Call | list[Call]"]


def read_text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return str(content or "")


class ScriptedModel:
    """A server on this machine for as long as it is entered. `asked` is what came, in order."""

    def __init__(self, script: Script, *, tells_tokens: bool = False) -> None:
        """Args:
        tells_tokens: with each answer its tokens, a byte each, as vLLM tells them where it is asked to.
        """
        self._script, self._tells_tokens = script, tells_tokens
        self.asked: list[Asked] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "ScriptedModel":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self._answer({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
                path = urlsplit(self.path).path
                if not path.endswith("/chat/completions"):
                    self._answer({"error": {"message": f"there is no {path}"}}, status=404)
                    return
                key = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
                asked = Asked(path, key, body)
                model.asked.append(asked)
                message, finish = _write(model._script(asked), len(model.asked))
                tokens = _Tokens(body, message) if model._tells_tokens else None
                usage = tokens.count() if tokens else _count(body, message)
                if asked.stream:
                    self._stream(body, message, finish, tokens, usage)
                    return
                choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
                told: dict[str, Any] = {"usage": usage}
                if tokens:
                    told |= tokens.tell(choice)
                self._answer(_envelope(body, "chat.completion") | {"choices": [choice]} | told)

            def _stream(self, body: Any, message: Any, finish: str, tokens: "_Tokens | None", usage: Any) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                frame = _envelope(body, "chat.completion.chunk")
                for place, delta in enumerate(_cut(message)):
                    choice = {"index": 0, "delta": delta, "finish_reason": None}
                    told = tokens.tell(choice) if tokens and place == 0 else {}
                    self._send(frame | {"choices": [choice]} | told)
                self._send(frame | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
                if (body.get("stream_options") or {}).get("include_usage"):
                    self._send(frame | {"choices": [], "usage": usage})
                self.wfile.write(b"data: [DONE]\n\n")

            def _send(self, chunk: Any) -> None:
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

            def _answer(self, told: Any, *, status: int = 200) -> None:
                data = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


class _Tokens:
    """Bytes as tokens, in the fields in which vLLM tells them."""

    def __init__(self, body: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        self._prompt = list(json.dumps(body.get("messages"), sort_keys=True).encode())
        calls = [one["function"] for one in message.get("tool_calls") or ()]
        self._answer = list(((message.get("content") or "") + (json.dumps(calls) if calls else "")).encode())
        self._asked = body

    def count(self) -> dict[str, int]:
        prompt, answer = len(self._prompt), len(self._answer)
        return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}

    def tell(self, choice: dict[str, Any]) -> dict[str, Any]:
        """Put the answer's into its choice; the prompt's, beside the choices."""
        if self._asked.get("logprobs"):
            entries = [
                {"token": f"token_id:{one}", "logprob": -0.25, "bytes": [one], "top_logprobs": []}
                for one in self._answer
            ]
            choice["logprobs"] = {"content": entries}
        if not self._asked.get("return_token_ids"):
            return {}
        choice["token_ids"] = self._answer
        return {"prompt_token_ids": self._prompt}


def _write(said: Any, number: int) -> tuple[dict[str, Any], str]:
    if isinstance(said, str):
        return {"role": "assistant", "content": said}, "stop"
    calls = [said] if isinstance(said, Call) else list(said)
    told = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for place, call in enumerate(calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": told}, "tool_calls"


def _cut(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As a stream tells a message: its role, its text in two, each call's name and then its arguments."""
    pieces: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if text := message.get("content"):
        half = len(text) // 2
        pieces += [{"content": part} for part in (text[:half], text[half:]) if part]
    for place, call in enumerate(message.get("tool_calls") or ()):
        named = {"name": call["function"]["name"], "arguments": ""}
        pieces.append({"tool_calls": [{"index": place, "id": call["id"], "type": "function", "function": named}]})
        arguments = {"arguments": call["function"]["arguments"]}
        pieces.append({"tool_calls": [{"index": place, "function": arguments}]})
    return pieces


def _envelope(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 1_700_000_000, "model": body.get("model", "scripted")}


def _count(body: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, int]:
    prompt, answer = len(json.dumps(body.get("messages"))) // 4, len(json.dumps(message)) // 4
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
