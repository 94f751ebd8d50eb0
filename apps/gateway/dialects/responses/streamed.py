"""The output items of a streamed Response: what each says when it begins, goes on and is done."""

from collections.abc import Mapping
from typing import Protocol

from apps.gateway.dialects.content import load_arguments
from apps.gateway.dialects.protocol import Json
from apps.gateway.dialects.responses.answer import fill_call, make_call, make_message, make_reasoning, make_text
from apps.gateway.dialects.responses.tools import Tool


class StreamedItem(Protocol):
    """One item of the output. Events come without their sequence numbers."""

    def begin(self) -> list[Json]: ...

    def end(self, status: str) -> list[Json]: ...

    def make(self, status: str) -> Json:
        """The item as it stands."""


class _Place:
    """Where an item stands: what all of its events say."""

    def __init__(self, id: str, index: int) -> None:
        self.id = id
        self.index = index

    def event(self, kind: str, **fields: object) -> Json:
        return {"type": f"response.{kind}", "output_index": self.index, "item_id": self.id, **fields}

    def item(self, kind: str, item: Json) -> Json:
        return {"type": f"response.output_item.{kind}", "output_index": self.index, "item": item}


class Reasoning:
    """Thoughts."""

    def __init__(self, id: str, index: int) -> None:
        self._place = _Place(f"rs_{id}", index)
        self._texts: list[str] = []

    def begin(self) -> list[Json]:
        part = {"type": "reasoning_text", "text": ""}
        return [
            self._place.item("added", self.make("in_progress")),
            self._place.event("content_part.added", content_index=0, part=part),
        ]

    def say(self, text: str) -> list[Json]:
        self._texts.append(text)
        return [self._place.event("reasoning_text.delta", content_index=0, delta=text)]

    def end(self, status: str) -> list[Json]:
        text = "".join(self._texts)
        part = {"type": "reasoning_text", "text": text}
        return [
            self._place.event("reasoning_text.done", content_index=0, text=text),
            self._place.event("content_part.done", content_index=0, part=part),
            self._place.item("done", self.make(status)),
        ]

    def make(self, status: str) -> Json:
        return make_reasoning(self._place.id, "".join(self._texts), status=status)


class StreamedMessage:
    """What is said to the user: text, or a refusal."""

    def __init__(self, id: str, index: int) -> None:
        self._place = _Place(f"msg_{id}", index)
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._logprobs: list[Json] = []
        self._parts: list[str] = []

    @property
    def has_text(self) -> bool:
        return "output_text" in self._parts

    def begin(self) -> list[Json]:
        return [self._place.item("added", self.make("in_progress"))]

    def say(self, text: str, logprobs: list[Json]) -> list[Json]:
        events = self._open("output_text")
        self._texts.append(text)
        self._logprobs += logprobs
        index = self._parts.index("output_text")
        return [*events, self._place.event("output_text.delta", content_index=index, delta=text, logprobs=logprobs)]

    def refuse(self, text: str) -> list[Json]:
        events = self._open("refusal")
        self._refusals.append(text)
        return [*events, self._place.event("refusal.delta", content_index=self._parts.index("refusal"), delta=text)]

    def end(self, status: str) -> list[Json]:
        events: list[Json] = []
        for index, kind in enumerate(self._parts):
            part = self._make_part(kind)
            if kind == "output_text":
                said: Json = {"text": part["text"], "logprobs": self._logprobs}
            else:
                said = {"refusal": part["refusal"]}
            events.append(self._place.event(f"{kind}.done", content_index=index, **said))
            events.append(self._place.event("content_part.done", content_index=index, part=part))
        return [*events, self._place.item("done", self.make(status))]

    def make(self, status: str) -> Json:
        return make_message(self._place.id, [self._make_part(kind) for kind in self._parts], status=status)

    def _open(self, kind: str) -> list[Json]:
        if kind in self._parts:
            return []
        part = self._make_part(kind)
        self._parts.append(kind)
        return [self._place.event("content_part.added", content_index=len(self._parts) - 1, part=part)]

    def _make_part(self, kind: str) -> Json:
        if kind == "refusal":
            return {"type": "refusal", "refusal": "".join(self._refusals)}
        return make_text("".join(self._texts), self._logprobs)


class Call:
    """A call of a function, or of a custom tool, whose text is known when its arguments are whole."""

    def __init__(self, id: str, index: int, *, call_id: object, name: object, tools: Mapping[str, Tool]) -> None:
        self._made = make_call(id, index, call_id=call_id, name=name, tools=tools)
        self._is_custom = self._made["type"] == "custom_tool_call"
        self._place = _Place(self._made["id"], index)
        self.call_id = call_id
        self._arguments: list[str] = []
        self.is_done = False

    @property
    def is_complete(self) -> bool:
        """Whether its arguments are a whole object, which nothing can be added to."""
        return bool(self._arguments) and load_arguments("".join(self._arguments)) is not None

    def begin(self) -> list[Json]:
        return [self._place.item("added", self._made)]

    def say(self, piece: str) -> list[Json]:
        self._arguments.append(piece)
        return [] if self._is_custom else [self._place.event("function_call_arguments.delta", delta=piece)]

    def end(self, status: str) -> list[Json]:
        self.is_done = True
        made = self.make(status)
        if self._is_custom:
            said = [
                self._place.event("custom_tool_call_input.delta", delta=made["input"]),
                self._place.event("custom_tool_call_input.done", input=made["input"]),
            ]
        else:
            event = "function_call_arguments.done"
            said = [self._place.event(event, arguments=made["arguments"], name=made["name"])]
        return [*said, self._place.item("done", made)]

    def make(self, status: str) -> Json:
        return fill_call(self._made, "".join(self._arguments), status=status)
