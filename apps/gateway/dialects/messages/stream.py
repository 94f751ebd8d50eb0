"""Chat chunks as the events of a streamed Message."""

from collections.abc import Mapping

from apps.gateway.dialects.content import Usage, first_choice, load_arguments, read_reasoning, read_usage
from apps.gateway.dialects.errors import make_anthropic_error
from apps.gateway.dialects.messages.answer import make_usage, read_stop, shows_thinking, start_message
from apps.gateway.dialects.protocol import Body, Json
from apps.gateway.dialects.wire import dump_event

_PING = dump_event({"type": "ping"})


class MessageStream:
    """Blocks are opened as the answer changes from thoughts to text to calls, and closed before the next one opens.

    A call whose arguments are not complete yet stays open: servers may mix the pieces of parallel calls. One that
    numbers all of its calls 0 still gives each an id: another id at the same index is another call.
    """

    def __init__(self, request: Body, *, id: str) -> None:
        self._id = id
        self._model = request.get("model")
        self._shows_thinking = shows_thinking(request)
        self._is_started = False
        self._blocks = 0
        self._open = ""
        self._index = -1
        self._calls: list[_Call] = []
        self._places: dict[int, _Call] = {}
        self._finish: object = None
        self._stopped_by: object = None
        self._usage = Usage(0, 0, 0, 0, 0)

    def feed(self, chunk: Body) -> bytes:
        if chunk.get("usage"):
            self._usage = read_usage(chunk["usage"])
        events = [] if self._is_started else self._start(chunk)
        choice = first_choice(chunk)
        delta = choice.get("delta") or {}
        self._finish = choice.get("finish_reason") or self._finish
        self._stopped_by = choice.get("stop_reason") or self._stopped_by
        if self._shows_thinking:
            if reasoning := read_reasoning(delta):
                events += self._say("thinking", {"type": "thinking_delta", "thinking": reasoning})
            for block in delta.get("thinking_blocks") or ():
                events += self._sign(block)
        if refusal := delta.get("refusal"):
            self._finish = "content_filter"
        if text := (delta.get("content") or "") + (refusal or ""):
            events += self._say("text", {"type": "text_delta", "text": text})
        for piece in delta.get("tool_calls") or ():
            events += self._call(piece)
        return b"".join(map(dump_event, events))

    def finish(self) -> bytes:
        events = [] if self._is_started else self._start({})
        events += self._close()
        events += [_stop(call.block) for call in self._calls if not call.is_closed]
        reason, sequence = read_stop(self._finish, self._stopped_by, has_calls=bool(self._calls))
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        events.append({"type": "message_delta", "delta": delta, "usage": make_usage(self._usage)})
        events.append({"type": "message_stop"})
        return b"".join(map(dump_event, events))

    def fail(self, *, status: int, message: str, code: str = "") -> bytes:
        return dump_event(make_anthropic_error(status=status, message=message, code=code))

    def ping(self) -> bytes:
        return _PING

    def _start(self, chunk: Body) -> list[Json]:
        self._is_started = True
        return [
            {"type": "message_start", "message": start_message(id=self._id, model=chunk.get("model") or self._model)}
        ]

    def _say(self, kind: str, delta: Json) -> list[Json]:
        """A piece of text or thinking; opens a block of this kind if the last one was another."""
        events: list[Json] = []
        if self._open != kind:
            empty: Json = {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})
            events = [*self._close(), self._begin(kind, empty)]
        return [*events, {"type": "content_block_delta", "index": self._index, "delta": delta}]

    def _sign(self, block: Body) -> list[Json]:
        """A server's own thinking block: its signature ends it; a redacted one is whole."""
        if block.get("type") == "redacted_thinking":
            return [*self._close(), self._begin("redacted", dict(block)), *self._close()]
        if not (signature := block.get("signature")):
            return []
        return [*self._say("thinking", {"type": "signature_delta", "signature": signature}), *self._close()]

    def _call(self, piece: Body) -> list[Json]:
        function = piece.get("function") or {}
        index = piece.get("index")
        key = index if isinstance(index, int) else len(self._calls)
        call, identifier = self._places.get(key), piece.get("id") or ""
        events: list[Json] = []
        if call is None or (identifier and call.id and identifier != call.id):
            events = self._close()
            block: Json = {
                "type": "tool_use",
                "id": identifier,
                "name": function.get("name") or "",
                "input": {},
            }
            events.append(self._begin("tool_use", block))
            call = self._places[key] = _Call(self._index, identifier)
            self._calls.append(call)
        if arguments := function.get("arguments"):
            call.arguments.append(arguments)
            delta = {"type": "input_json_delta", "partial_json": arguments}
            events.append({"type": "content_block_delta", "index": call.block, "delta": delta})
        return events

    def _begin(self, kind: str, block: Mapping[str, object]) -> Json:
        self._open = kind
        self._index = self._blocks
        self._blocks += 1
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _close(self) -> list[Json]:
        """Close what is open, calls only if nothing can follow."""
        kind, self._open = self._open, ""
        if kind == "tool_use":
            done = [call for call in self._calls if not call.is_closed and call.is_complete]
            for call in done:
                call.is_closed = True
            return [_stop(call.block) for call in done]
        return [_stop(self._index)] if kind else []


class _Call:
    """A call that streams. `block` is the index of its content block."""

    def __init__(self, block: int, id: str) -> None:
        self.block = block
        self.id = id
        self.arguments: list[str] = []
        self.is_closed = False

    @property
    def is_complete(self) -> bool:
        return load_arguments("".join(self.arguments)) is not None and bool(self.arguments)


def _stop(index: int) -> Json:
    return {"type": "content_block_stop", "index": index}
