"""The chunks of an answer put together; a whole answer is one chunk."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

import orjson

from apps.gateway.dialects.errors import find_failure
from apps.gateway.reading import read_json

Json = dict[str, Any]
MOST_CHOICES = 1024


@dataclass(slots=True)
class ChoiceParts:
    """One choice as far as it is known.

    Attributes:
        thinking_blocks: thoughts that their server signed, or keeps to itself: it wants them back as they are.
        logprobs: of the tokens, in their order.
    """

    index: int
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    thinking_blocks: list[Json] = field(default_factory=list)
    tool_calls: list[Json] = field(default_factory=list)
    finish_reason: str = ""
    prompt_token_ids: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    places: dict[Any, Json] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def reasoning(self) -> str:
        return "".join(self.thoughts)


@dataclass(slots=True)
class Envelope:
    """What an answer says besides its choices.

    Attributes:
        models: each model that said it was answering.
        is_done: the stream was ended in order.
    """

    usage: Mapping[str, Any] = field(default_factory=dict)
    prompt_token_ids: list[int] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    error: str = ""
    is_done: bool = False


class Merger:
    """Puts an answer together, a chunk at a time."""

    def __init__(self) -> None:
        self.envelope = Envelope()
        self._choices: dict[int, ChoiceParts] = {}

    @property
    def choices(self) -> list[ChoiceParts]:
        """By index."""
        return [self._choices[index] for index in sorted(self._choices)]

    def count_told(self) -> tuple[int, int]:
        """Tokens of the prompt and of what was answered, by the ids that the server told; zeros where it told none."""
        told = (len(part.prompt_token_ids) for part in self._choices.values())
        prompt = max([len(self.envelope.prompt_token_ids), *told])
        return prompt, sum(len(part.token_ids) for part in self._choices.values())

    def add(self, chunks: Iterable[Json]) -> None:
        """Raises AttributeError, LookupError, TypeError or ValueError where one is not what a chunk should be."""
        envelope, known = self.envelope, self._choices
        for chunk in chunks:
            if (model := chunk.get("model")) and model not in envelope.models:
                envelope.models.append(str(model))
            if ids := chunk.get("prompt_token_ids"):
                envelope.prompt_token_ids = ids
            if isinstance(usage := chunk.get("usage"), dict):
                envelope.usage = usage
            if not envelope.error and (words := find_failure(chunk)) is not None:
                envelope.error = words.message
            for choice in chunk.get("choices") or ():
                index = choice.get("index") or 0
                if (parts := known.get(index)) is None:
                    if type(index) is not int or not 0 <= index < MOST_CHOICES:
                        envelope.error = envelope.error or f"a choice with the index {index!r:.40}"
                        continue
                    parts = known[index] = ChoiceParts(index)
                _add_choice(parts, choice)

    def add_pieces(self, chunks: Sequence[Json], start: int) -> list[Json]:
        """Add those chunks from `start` on that go on with one choice's text and say nothing else, up to the first that
        says more; of most streams they are nearly all.

        Returns:
            Their choices.
        """
        found: list[Json] = []
        known = self._choices
        model = self.envelope.models[0] if len(self.envelope.models) == 1 else None
        for place in range(start, len(chunks)):
            chunk = chunks[place]
            try:
                (choice,) = chunk["choices"]
                parts, message = known[choice["index"]], choice["delta"]
                text, ids, logprobs = message["content"], choice.get("token_ids"), choice.get("logprobs")
                if (
                    choice["finish_reason"] is not None
                    or chunk["model"] != model
                    or len(message) != 1
                    or text.__class__ is not str
                    or parts.finish_reason
                    or "usage" in chunk
                    or "error" in chunk
                    or "error" in choice
                    or "prompt_token_ids" in chunk
                    or "prompt_token_ids" in choice
                ):
                    break
                if logprobs:
                    (entry,) = logprobs["content"]
                    logprob = entry["logprob"]
                    parts.token_ids += ids or ()
                    parts.logprobs.append(logprob)
                elif ids:
                    parts.token_ids += ids
            except (LookupError, TypeError, ValueError):
                break
            parts.texts.append(text)
            found.append(choice)
        return found

    def dump(self) -> bytes:
        """All of it, for `load_merged`."""
        choices = self.choices
        for part in choices:
            part.texts, part.thoughts = [part.text], [part.reasoning]
        return orjson.dumps([[_read_kept(part) for part in choices], _read_told(self.envelope)])


def merge_answer(chunks: Iterable[Json | None]) -> tuple[list[ChoiceParts], Envelope]:
    """All choices by index, and the rest. None among the chunks is the mark of a stream's end."""
    merger = Merger()
    for chunk in chunks:
        if chunk is None:
            merger.envelope.is_done = True
        else:
            merger.add([chunk])
    return merger.choices, merger.envelope


def load_merged(data: bytes) -> tuple[list[ChoiceParts], Envelope]:
    """What `Merger.dump` wrote. Raises ValueError, TypeError where it is something else."""
    choices, told = read_json(data)
    return [ChoiceParts(*choice) for choice in choices], Envelope(*told)


_read_kept = attrgetter(*(one.name for one in fields(ChoiceParts) if one.name != "places"))
_read_told = attrgetter(*(one.name for one in fields(Envelope)))


def _add_choice(parts: ChoiceParts, choice: Json) -> None:
    if ids := choice.get("token_ids"):
        parts.token_ids += ids
    if logprobs := choice.get("logprobs"):
        entries = logprobs.get("content")
        parts.logprobs += [entry["logprob"] for entry in entries or ()]
        if entries is None and (values := logprobs.get("token_logprobs")):
            parts.logprobs += values
    if reason := choice.get("finish_reason"):
        parts.finish_reason = str(reason)[:32]
    message = choice.get("delta") or choice.get("message")
    if message is None:
        if text := choice.get("text"):
            parts.texts.append(str(text))
        if ids := choice.get("prompt_token_ids"):
            parts.prompt_token_ids = ids
        return
    if len(message) == 1 and (content := message.get("content")).__class__ is str:  # most of a stream's pieces
        parts.texts.append(content)
        return
    if content := message.get("content") or message.get("refusal"):
        parts.texts.append(content if isinstance(content, str) else _read_parts(content))
    if thought := message.get("reasoning_content") or message.get("reasoning"):
        parts.thoughts.append(thought if isinstance(thought, str) else _read_parts(thought))
    for block in message.get("thinking_blocks") or ():
        _add_thinking(parts, block)
    for call in message.get("tool_calls") or ():
        _add_call(parts, call)
    if call := message.get("function_call"):  # how tools were called before there were many
        _add_call(parts, {"index": 0, "type": "function", "function": call})


def _add_thinking(parts: ChoiceParts, block: Json) -> None:
    """A block, or a piece of one: its signature ends it."""
    last = parts.thinking_blocks[-1] if parts.thinking_blocks else {}
    if block.get("type") == last.get("type") == "thinking" and not last.get("signature"):
        last["thinking"] = (last.get("thinking") or "") + (block.get("thinking") or "")
        last["signature"] = block.get("signature") or ""
    else:
        parts.thinking_blocks.append(dict(block))


def _add_call(parts: ChoiceParts, delta: Json) -> None:
    """Merge a tool call's delta into the call at its index.

    A server that numbers all of its calls 0 still gives each an id: another id at the same index is another call.
    """
    place = delta.get("index", len(parts.tool_calls))
    call = parts.places.get(place)
    identifier = delta.get("id")
    if call is None or (identifier and call.get("id") and call["id"] != identifier):
        call = parts.places[place] = {name: value for name, value in delta.items() if name != "index"}
        function = call.get("function")
        call["function"] = dict(function) if isinstance(function, dict) else {}
        parts.tool_calls.append(call)
        return
    for name, value in delta.items():
        if name == "function":
            function = call["function"]
            for key, piece in (value or {}).items():
                known = function.get(key)
                function[key] = known + piece if key == "arguments" and known and piece else piece or known
        elif name != "index" and value is not None:
            call[name] = value


def _read_parts(content: Any) -> str:
    if not isinstance(content, list):
        return str(content)
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
