"""Chat chunks as the events of a streamed Response."""

from apps.gateway.dialects.content import first_choice, read_reasoning
from apps.gateway.dialects.protocol import Body, Json
from apps.gateway.dialects.responses.answer import end_of, make_logprobs, make_usage, start_response, status_of
from apps.gateway.dialects.responses.streamed import Call, Reasoning, StreamedItem, StreamedMessage
from apps.gateway.dialects.responses.tools import find_tools
from apps.gateway.dialects.wire import PING, dump_event

_FAILURES = {429: "rate_limit_exceeded", 400: "invalid_prompt"}


class ResponseStream:
    """Items begin as the answer changes from thoughts to text to calls, and end before the next one begins.

    A call whose arguments are not complete yet stays open: servers may mix the pieces of parallel calls. One that
    numbers all of its calls 0 still gives each an id: another id at the same index is another call.
    """

    def __init__(self, request: Body, *, id: str) -> None:
        self._request = request
        self._id = id
        self._head: Json = {}
        self._number = 0
        self._items: list[StreamedItem] = []
        self._spoken: Reasoning | StreamedMessage | None = None
        self._calls: list[Call] = []
        self._places: dict[int, Call] = {}
        self._unsaid: list[Json] = []
        self._finish: object = None
        self._usage: object = None

    def feed(self, chunk: Body) -> bytes:
        events = self._start(chunk)
        self._usage = chunk.get("usage") or self._usage
        choice = first_choice(chunk)
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta") or {}
        logprobs = make_logprobs((choice.get("logprobs") or {}).get("content"))
        if reasoning := read_reasoning(delta):
            thoughts, begun = self._think()
            events += begun + thoughts.say(reasoning)
        text, refusal = delta.get("content"), delta.get("refusal")
        if text or refusal:
            message, begun = self._speak()
            events += begun
            if text:
                events += message.say(text, self._unsaid + logprobs)
                self._unsaid = []
            if refusal:
                events += message.refuse(refusal)
        elif not (reasoning or delta.get("tool_calls")):  # tokens that are no text yet: a character's first bytes
            self._unsaid += logprobs
        for piece in delta.get("tool_calls") or ():
            events += self._call(piece)
        return self._dump(events)

    def finish(self) -> bytes:
        """The open items' ends, then `response.completed`, or `response.incomplete` for an answer that was cut."""
        status = status_of(self._finish)
        events = [*self._start({}), *self._end_spoken(status)]
        for call in self._calls:
            events += [] if call.is_done else call.end("completed")
        output = [item.make(status if isinstance(item, StreamedMessage) else "completed") for item in self._items]
        whole = self._head | end_of(self._finish) | {"output": output, "usage": make_usage(self._usage)}
        return self._dump([*events, {"type": f"response.{status}", "response": whole}])

    def fail(self, *, status: int, message: str, code: str = "") -> bytes:
        """`response.failed`, with what was said until then; its error's code is one of OpenAI's closed list."""
        error = {"code": _FAILURES.get(status, "server_error"), "message": message}
        events = self._start({})
        output = [item.make("incomplete") for item in self._items]
        whole = self._head | {"status": "failed", "error": error, "output": output}
        return self._dump([*events, {"type": "response.failed", "response": whole}])

    def ping(self) -> bytes:
        return PING

    def _start(self, chunk: Body) -> list[Json]:
        if self._head:
            return []
        model, created = chunk.get("model"), chunk.get("created")
        self._head = start_response(self._request, id=self._id, model=model, created=created)
        return [{"type": f"response.{kind}", "response": self._head} for kind in ("created", "in_progress")]

    def _think(self) -> tuple[Reasoning, list[Json]]:
        if isinstance(self._spoken, Reasoning):
            return self._spoken, []
        item = Reasoning(self._name(Reasoning), len(self._items))
        return item, self._begin(item)

    def _speak(self) -> tuple[StreamedMessage, list[Json]]:
        if isinstance(self._spoken, StreamedMessage):
            return self._spoken, []
        item = StreamedMessage(self._name(StreamedMessage), len(self._items))
        return item, self._begin(item)

    def _call(self, piece: Body) -> list[Json]:
        function = piece.get("function") or {}
        index = piece.get("index")
        key = index if isinstance(index, int) else len(self._calls)
        call, identifier = self._places.get(key), piece.get("id")
        events: list[Json] = []
        if call is None or (identifier and call.call_id and identifier != call.call_id):
            tools = find_tools(self._request)
            call = Call(self._id, len(self._items), call_id=identifier, name=function.get("name"), tools=tools)
            events = self._begin(call)
            self._places[key] = call
            self._calls.append(call)
        return events + (call.say(function["arguments"]) if function.get("arguments") else [])

    def _name(self, kind: type[StreamedItem]) -> str:
        """The answer's id for the first item of a kind, which is all that most answers have; then with a number."""
        before = sum(isinstance(item, kind) for item in self._items)
        return f"{self._id}_{before}" if before else self._id

    def _begin(self, item: StreamedItem) -> list[Json]:
        events = self._end_spoken("completed")
        for call in self._calls:
            events += call.end("completed") if call.is_complete and not call.is_done else []
        self._items.append(item)
        self._spoken = item if isinstance(item, Reasoning | StreamedMessage) else None
        return events + item.begin()

    def _end_spoken(self, status: str) -> list[Json]:
        spoken, self._spoken = self._spoken, None
        if not isinstance(spoken, StreamedMessage):
            return spoken.end("completed") if spoken else []
        events: list[Json] = []
        if self._unsaid and spoken.has_text:
            events = spoken.say("", self._unsaid)
            self._unsaid = []
        return events + spoken.end(status)

    def _dump(self, events: list[Json]) -> bytes:
        first = self._number
        self._number += len(events)
        return b"".join(dump_event(event | {"sequence_number": first + k}) for k, event in enumerate(events))
