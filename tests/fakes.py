"""Stand-ins for what we do not own: a model server somewhere else."""

import json
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

from tests.local_server import LocalHandler, LocalServer

Mode = Literal["ok", "busy", "broken", "garbage", "silent", "refusing", "redirecting"]
_PIECES = re.compile(r"<\|?/?[a-z]+\|?>| ?\w+|\s|.", re.DOTALL)
_END = "<|end|>"


@dataclass
class Request:
    """One request as the server got it."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass
class FakeModelServer:
    """A model server in a thread that speaks vLLM's dialect, and says what `reply` says.

    Args:
        reply: (prompt text, choice index) -> the rest of the answer, without end mark. Of a conversation the prompt
            text is its messages as JSON.
        models: names it answers to.
        mode: "ok"; "busy" 429 with `retry_after`; "broken" 500; "garbage" 200 and no JSON; "silent" never answers;
            "refusing" 400 with words; "redirecting" 307.
        broken_words: what it says where it is "broken".
        is_plain: knows nothing but OpenAI's API: no token ids, and 400 for fields it does not know.
        knows_n: honours `n`; else gives one answer.
        usage: what it says each call used.
    """

    reply: Callable[[str, int], str] = lambda prompt, index: f"reply {index}"
    models: list[str] = field(default_factory=lambda: ["desk"])
    mode: Mode = "ok"
    broken_words: str = "the engine died"
    retry_after: str = "7"
    is_plain: bool = False
    knows_n: bool = True
    tool_calls: Sequence[dict[str, Any]] = ()
    usage: dict[str, Any] | None = None
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._vocabulary: dict[str, int] = {}
        self._pieces: list[str] = []
        self._paths: dict[str, str] = {}
        self._closing = threading.Event()
        owner = self

        class Handler(LocalHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                owner._handle(self)

            def do_POST(self) -> None:
                owner._handle(self)

        self._server = LocalServer(Handler)
        self.url = self._server.url

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closing.set()
        self._server.__exit__(kind, error, at)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text: tags, words with the blank before them, single signs."""
        ids = []
        for piece in _PIECES.findall(text):
            if piece not in self._vocabulary:
                self._vocabulary[piece] = len(self._pieces)
                self._pieces.append(piece)
            ids.append(self._vocabulary[piece])
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self._pieces[token] for token in ids)

    def _handle(self, handler: LocalHandler) -> None:
        content = handler.read()
        body = json.loads(content) if content else {}
        self.requests.append(Request(handler.path, body, dict(handler.headers.items())))
        status, answer, headers = self._answer(handler.path, body)
        if isinstance(answer, str):
            data, kind = answer.encode(), "text/html"
        else:
            data, kind = json.dumps(answer).encode(), "application/json"
        with suppress(ConnectionError):  # who asked has hung up
            handler.answer(status, data, **{"Content-Type": kind, **headers})

    def _answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        match self.mode:
            case "busy":
                return 429, _error("slow down", "rate_limited"), {"Retry-After": self.retry_after}
            case "broken":
                return 500, _error(self.broken_words, "internal"), {}
            case "garbage":
                return 200, "<html>a proxy's page</html>", {}
            case "silent":
                self._closing.wait()
                return 503, {}, {}
            case "refusing":
                return 400, _error("this is against the policy", "refused"), {}
            case "redirecting":
                return 307, {}, {"Location": "http://127.0.0.1:1/elsewhere"}
            case "ok":
                return *self._serve(path, body), {}

    def _serve(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        match path:
            case "/v1/models":
                models = [{"id": name, "object": "model", "root": self._paths.get(name)} for name in self.models]
                return 200, {"object": "list", "data": models}
            case "/tokenize":
                tokens = self.encode(body["prompt"])
                return 200, {"tokens": tokens, "token_strs": [self.decode([token]) for token in tokens]}
            case "/detokenize":
                return 200, {"prompt": self.decode(body["tokens"])}
            case "/v1/load_lora_adapter":
                name = body["lora_name"]
                if name in self.models:
                    return 400, _error(f"The lora adapter '{name}' has already been loaded.", "invalid")
                self.models.append(name)
                self._paths[name] = body["lora_path"]
                return 200, {}
            case "/v1/unload_lora_adapter":
                if body["lora_name"] not in self.models:
                    return 404, _error(f"The lora adapter '{body['lora_name']}' cannot be found.", "not_found")
                self.models.remove(body["lora_name"])
                return 200, {}
        if body.get("model") not in self.models:
            return 404, _error(f"The model `{body.get('model')}` does not exist.", "model_not_found")
        if self.is_plain and (unknown := {"return_token_ids", "include_stop_str_in_output"} & set(body)):
            return 400, _error(f"Unrecognized request argument supplied: {sorted(unknown)[0]}", "invalid")
        if path == "/v1/chat/completions":
            return 200, self._chat(body)
        if path == "/v1/completions":
            return 200, self._complete(body)
        return 404, _error("no such route", "not_found")

    def _sample(self, prompt: str, index: int, body: dict[str, Any]) -> tuple[list[int], str, str]:
        """Token ids, text without the end mark, finish reason."""
        ids = self.encode(self.reply(prompt, index) + _END)
        stops = set(body.get("stop_token_ids") or ())
        for position, token in enumerate(ids):
            if position + 1 > body.get("max_tokens", body.get("max_completion_tokens", 16)):
                return ids[:position], self.decode(ids[:position]), "length"
            if token in stops:
                return ids[: position + 1], self.decode(ids[: position + 1]), "stop"
        return ids, self.decode(ids[:-1]), "stop"

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        choices: list[dict[str, Any]] = []
        n = body.get("n", 1) if self.knows_n else 1
        for row in body["prompt"]:
            prompt_ids = self.encode(row) if isinstance(row, str) else row
            for index in range(n):
                ids, text, reason = self._sample(self.decode(prompt_ids), index, body)
                choice = {"index": len(choices), "text": text, "finish_reason": reason}
                if "logprobs" in body:
                    pieces = [self._pieces[token] for token in ids]
                    choice["logprobs"] = {"tokens": pieces, "token_logprobs": [-0.5] * len(ids)}
                if body.get("return_token_ids"):
                    choice |= {"token_ids": ids, "prompt_token_ids": prompt_ids}
                if "prompt_logprobs" in body:
                    scored = [{str(token): {"logprob": -token / 8}} for token in prompt_ids[1:]]
                    choice["prompt_logprobs"] = [None, *scored]
                choices.append(choice)
        return {"model": body["model"], "choices": choices[::-1]}

    def _chat(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = json.dumps(body["messages"])
        choices: list[dict[str, Any]] = []
        for index in range(body.get("n", 1) if self.knows_n else 1):
            ids, text, reason = self._sample(prompt, index, body)
            message = {"role": "assistant", "content": text, "tool_calls": list(self.tool_calls)}
            choice: dict[str, Any] = {"index": index, "message": message, "finish_reason": reason}
            if body.get("logprobs"):
                content = [{"token": self._pieces[token], "logprob": -0.5, "bytes": None} for token in ids]
                choice["logprobs"] = {"content": content}
            if body.get("return_token_ids"):
                choice["token_ids"] = ids
            choices.append(choice)
        prompt_ids = {"prompt_token_ids": self.encode(prompt)} if body.get("return_token_ids") else {}
        used = {"usage": self.usage} if self.usage else {}
        return {"model": body["model"], "choices": choices, **prompt_ids, **used}


def _error(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "error", "param": None, "code": code}}
