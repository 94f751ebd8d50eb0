"""A Message, whole or streamed, as a chat answer or chunks."""

from collections.abc import Mapping

from apps.gateway.dialects.content import dump_arguments
from apps.gateway.dialects.errors import status_of_anthropic
from apps.gateway.dialects.protocol import Body, Json, UpstreamFailedError

_FINISH = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def read_message(answer: Body, *, created: int) -> Json:
    """A chat answer; signed thoughts are kept in the message's `thinking_blocks`, an extension.

    Args:
        created: seconds since the epoch, which a Message does not tell.
    """
    texts, thoughts, signed, calls = [], [], [], []
    for block in answer.get("content") or ():
        kind = block.get("type")
        if kind == "text":
            texts.append(block["text"])
        elif kind == "thinking":
            thoughts.append(block["thinking"])
            signed += [dict(block)] if block.get("signature") else []
        elif kind == "redacted_thinking":
            signed.append(dict(block))
        elif kind == "tool_use":
            function = {"name": block["name"], "arguments": dump_arguments(block["input"])}
            calls.append({"id": block["id"], "type": "function", "function": function})
    message: Json = {"role": "assistant", "content": "".join(texts) or (None if calls else "")}
    message |= {"reasoning_content": "".join(thoughts)} if any(thoughts) else {}
    message |= {"thinking_blocks": signed} if signed else {}
    message |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "message": message, "logprobs": None} | _read_stop(answer)
    head = {"id": answer.get("id"), "object": "chat.completion", "created": created, "model": answer.get("model")}
    return head | {"choices": [choice], "usage": _read_usage(answer.get("usage") or {})}


class MessageEvents:
    """Events of a streamed Message as chat chunks, the last of them with the usage."""

    def __init__(self, *, created: int) -> None:
        self.is_done = False
        self._head: Json = {"id": "", "object": "chat.completion.chunk", "created": created, "model": ""}
        self._usage: Json = {}
        self._calls: dict[int, int] = {}
        self._has_arguments: set[int] = set()
        self._thoughts: dict[int, Json] = {}

    def feed(self, event: Body) -> list[Json]:
        """Chunks for one event.

        Raises:
            UpstreamFailedError: the event is an error.
        """
        kind = event.get("type")
        if kind == "message_start":
            message = event["message"]
            self._head |= {"id": message.get("id"), "model": message.get("model")}
            self._usage = dict(message.get("usage") or {})
            return [self._make({"role": "assistant", "content": ""})]
        if kind == "content_block_start":
            return self._begin(event["index"], event["content_block"])
        if kind == "content_block_delta":
            return self._add(event["index"], event["delta"])
        if kind == "content_block_stop":
            return self._end(event["index"])
        if kind == "message_delta":
            self._usage |= {key: value for key, value in (event.get("usage") or {}).items() if value is not None}
            return [self._make({}, **_read_stop(event["delta"]))]
        if kind == "message_stop":
            self.is_done = True
            return [self._head | {"choices": [], "usage": _read_usage(self._usage)}]
        if kind == "error":
            error = event.get("error") or {}
            name = str(error.get("type") or "api_error")
            message = str(error.get("message") or "the server failed")
            raise UpstreamFailedError(message, status=status_of_anthropic(name), code=name)
        return []

    def _begin(self, index: int, block: Body) -> list[Json]:
        kind = block.get("type")
        if kind == "tool_use":
            place = self._calls[index] = len(self._calls)
            call = {"index": place, "id": block["id"], "type": "function"}
            chunks = [self._make({"tool_calls": [call | {"function": {"name": block["name"], "arguments": ""}}]})]
            return chunks + (self._say(index, dump_arguments(block["input"])) if block.get("input") else [])
        if kind == "redacted_thinking":
            return [self._make({"thinking_blocks": [dict(block)]})]
        if kind == "text" and block.get("text"):
            return [self._make({"content": block["text"]})]
        if kind == "thinking":
            return self._think(index, block.get("thinking") or "", block.get("signature") or "")
        return []

    def _add(self, index: int, delta: Body) -> list[Json]:
        kind = delta.get("type")
        if kind == "text_delta":
            return [self._make({"content": delta["text"]})]
        if kind == "thinking_delta":
            return self._think(index, delta["thinking"])
        if kind == "signature_delta":
            return self._think(index, signature=delta["signature"])
        if kind == "input_json_delta" and index in self._calls and delta["partial_json"]:
            return self._say(index, delta["partial_json"])
        return []

    def _think(self, index: int, thinking: str = "", signature: str = "") -> list[Json]:
        """Thoughts are passed on as they come, and once more with their signature when their block ends."""
        block = self._thoughts.setdefault(index, {"type": "thinking", "thinking": "", "signature": ""})
        block["thinking"] += thinking
        block["signature"] += signature
        return [self._make({"reasoning_content": thinking})] if thinking else []

    def _end(self, index: int) -> list[Json]:
        if index in self._calls.keys() - self._has_arguments:
            return self._say(index, "{}")
        block = self._thoughts.pop(index, None)
        return [self._make({"thinking_blocks": [block]})] if block is not None and block["signature"] else []

    def _say(self, index: int, arguments: str) -> list[Json]:
        self._has_arguments.add(index)
        call = {"index": self._calls[index], "function": {"arguments": arguments}}
        return [self._make({"tool_calls": [call]})]

    def _make(self, delta: Json, **choice: object) -> Json:
        return self._head | {
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **choice}]
        }


def _read_stop(message: Body) -> Json:
    """`finish_reason`, and vLLM's `stop_reason`: the stop string that was met."""
    reason = message.get("stop_reason")
    stop: Json = {"finish_reason": _FINISH.get(str(reason), "stop")}
    return stop | ({"stop_reason": message.get("stop_sequence")} if reason == "stop_sequence" else {})


def _read_usage(usage: Mapping[str, object]) -> Json:
    def count(name: str) -> int:
        value = usage.get(name)
        return value if isinstance(value, int) else 0

    cached, written = count("cache_read_input_tokens"), count("cache_creation_input_tokens")
    prompt, completion = count("input_tokens") + cached + written, count("output_tokens")
    details = usage.get("output_tokens_details")
    thought = details.get("thinking_tokens") if isinstance(details, Mapping) else 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": thought or 0},
    }
