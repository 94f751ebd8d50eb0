"""OpenAI's legacy completions, for models behind servers that only chat; one that has them gets them as they are."""

from collections.abc import Mapping, Sequence

import orjson

from apps.gateway.dialects.content import read_content_text, read_reasoning
from apps.gateway.dialects.errors import make_openai_error
from apps.gateway.dialects.protocol import BadRequestError, Body, Json
from apps.gateway.dialects.reading import read_str, refusal
from apps.gateway.dialects.wire import DONE, PING, dump_data

DEFAULT_MAX_TOKENS = 16
"""What a completion has where its request does not say."""
_SAME = (
    "frequency_penalty",
    "logit_bias",
    "n",
    "presence_penalty",
    "seed",
    "stop",
    "stream",
    "temperature",
    "top_p",
    "user",
)
_CANNOT = ("suffix", "echo")


class CompletionsDialect:
    """`POST /v1/completions`."""

    name = "completions"

    def previous_id(self, body: Body) -> str | None:
        return None

    def to_chat(self, body: Body, *, earlier: Sequence[Body] | None = None) -> Json:
        """The prompt as what a user says."""
        for key in _CANNOT:
            if body.get(key):
                raise BadRequestError(f"{key}: this model can only chat", param=key)
        if body.get("best_of") not in (None, body.get("n") or 1):
            raise BadRequestError("best_of: this model can only chat, which gives every answer", param="best_of")
        limit = body.get("max_tokens")
        chat: Json = {
            "model": read_str(body, "model"),
            "messages": [{"role": "user", "content": _read_prompt(body.get("prompt"))}],
            "max_tokens": DEFAULT_MAX_TOKENS if limit is None else limit,
        }
        chat |= {key: body[key] for key in _SAME if body.get(key) is not None}
        if chat.get("stream"):
            chat["stream_options"] = {"include_usage": True}
        if (logprobs := body.get("logprobs")) is not None:
            chat |= {"logprobs": True, "top_logprobs": logprobs}
        return chat

    def from_chat(self, answer: Body, request: Body, *, id: str) -> Json:
        choices = [_make_choice(choice, choice.get("message") or {}) for choice in answer.get("choices") or ()]
        return _make_head(answer, request, id=id) | {"choices": choices, "usage": answer.get("usage")}

    def make_stream(self, request: Body, *, id: str) -> "CompletionStream":
        return CompletionStream(request, id=id)

    def answer_id(self, id: str) -> str:
        return f"cmpl-{id}"

    def error(self, *, status: int, message: str, code: str = "", param: str = "") -> bytes:
        return orjson.dumps(make_openai_error(status=status, message=message, code=code, param=param))


class CompletionStream:
    """Chat chunks as pieces of completions."""

    def __init__(self, request: Body, *, id: str) -> None:
        self._request = request
        self._id = id
        options = request.get("stream_options")
        self._tells_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        self._ends: dict[int, int] = {}

    def feed(self, chunk: Body) -> bytes:
        choices = [piece for choice in chunk.get("choices") or () if (piece := self._make_piece(choice))]
        usage = chunk.get("usage") if self._tells_usage else None
        if not choices and not usage:
            return b""
        piece = _make_head(chunk, self._request, id=self._id) | {"choices": choices}
        return dump_data(piece | ({"usage": usage} if usage else {}))

    def finish(self) -> bytes:
        return DONE

    def fail(self, *, status: int, message: str, code: str = "") -> bytes:
        return dump_data(make_openai_error(status=status, message=message, code=code))

    def ping(self) -> bytes:
        return PING

    def _make_piece(self, choice: Body) -> Json | None:
        """A piece of a choice, whose offsets go on from the one before; None where it says nothing of a completion."""
        delta, index = choice.get("delta") or {}, choice.get("index") or 0
        made = _make_choice(choice, delta, start=self._ends.get(index, 0))
        is_other = bool(read_reasoning(delta) or delta.get("tool_calls"))
        told = made["logprobs"]["tokens"] if made["logprobs"] and not is_other else ()
        if not (made["text"] or made["finish_reason"] or told):
            return None
        if made["logprobs"] and (tokens := made["logprobs"]["tokens"]):
            self._ends[index] = made["logprobs"]["text_offset"][-1] + len(tokens[-1])
        return made


def _read_prompt(prompt: object) -> str:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise refusal("prompt", "one string, for this model can only chat", prompt)
    return prompt


def _make_head(answer: Body, request: Body, *, id: str) -> Json:
    model = answer.get("model") or request.get("model")
    return {"id": f"cmpl-{id}", "object": "text_completion", "created": answer.get("created") or 0, "model": model}


def _make_choice(choice: Body, message: Body, *, start: int = 0) -> Json:
    finish = choice.get("finish_reason")
    return {
        "index": choice.get("index") or 0,
        "text": read_content_text(message.get("content")),
        "finish_reason": finish if finish in (None, "length", "content_filter") else "stop",
        "logprobs": _make_logprobs((choice.get("logprobs") or {}).get("content"), start),
    }


def _make_logprobs(entries: Sequence[Body] | None, start: int) -> Json | None:
    """Log-probs (natural log) as four lists of one entry a token; offsets count characters, from `start` on."""
    if entries is None:
        return None
    offsets, end = [], start
    for entry in entries:
        offsets.append(end)
        end += len(entry["token"])
    return {
        "tokens": [entry["token"] for entry in entries],
        "token_logprobs": [entry["logprob"] for entry in entries],
        "top_logprobs": [
            {top["token"]: top["logprob"] for top in entry.get("top_logprobs") or ()} for entry in entries
        ],
        "text_offset": offsets,
    }
