"""A served prompt rendered again, and once more with a hint in it: what the teacher of a rollout reads.

Servers agree on what a chat template is and not on what they hand it. They join the parts of a message in their own
ways, read a call's arguments before or not, and write the day where they stand. What was served is known token by
token, so each way is tried until one gives exactly that; the hint is put into the conversation that was rendered so.
Where none does, nobody knows what the hinted prompt would have been, and the hint does not count.

Source:
    What servers do, as read in vLLM 0.11 (`entrypoints/chat_utils.py`: parts joined by line breaks, or all contents as
    parts; arguments read; tools written anew) and SGLang 0.5 (parts joined by blanks).

Neither Postgres nor a batch's file keeps the order in which an object's fields came, and templates write tools in that
order. The served tokens have it: what is JSON in them and says the same is taken from there.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

from gpu_workers.engine.errors import EngineError
from gpu_workers.engine.text import TextCodec
from tentalis.core.contracts import RolloutRecord
from tentalis.core.rendering import read_served_at

Prompt = tuple[int, ...]
Json = dict[str, Any]
_JOINS = ("", "\n", " ", None)
"""What servers join a message's text parts with; None: they hand the template parts."""
_CLOCKS_H = (0, -12, 14)
"""Hours from UTC: every day that some server calls today."""
_THOUGHTS = frozenset({"reasoning_content", "reasoning", "thinking_blocks"})
_MOST_KEPT = 10_000
_MOST_TRIES = 2_000
_SHOWN_TOKENS = 8


class ReplayError(Exception):
    """A conversation cannot be rendered as it was served.

    Args:
        reason: a word for counting. The message says what was wanted and what was found.
    """

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


class Way(NamedTuple):
    """How a server hands a conversation to the template.

    Args:
        joins: see `_JOINS`. reads_arguments: a call's arguments are an object, not text. drops_thoughts: what was
            thought before earlier answers is left out. tools: as they came, or written anew as vLLM does. clock_h: see
            `_CLOCKS_H`.
    """

    joins: str | None = ""
    reads_arguments: bool = False
    drops_thoughts: bool = False
    tools: str = "sent"
    clock_h: int = 0


OURS = Way()
"""How our own engine does it."""


@dataclass
class Replayer:
    """Renders conversations for one model.

    Args:
        name: of the model, for errors.
    """

    codec: TextCodec
    name: str
    _kept: dict[str, Prompt] = field(default_factory=dict, repr=False)
    _orders: dict[Prompt, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    _found: "Counter[Way]" = field(default_factory=Counter, repr=False)

    def read(
        self,
        messages: Sequence[Mapping[str, Any]],
        rendering: Mapping[str, Any] = MappingProxyType({}),
        way: Way = OURS,
        *,
        served: Prompt = (),
    ) -> Prompt:
        """Token ids of a conversation up to where the answer starts.

        Args:
            served: the prompt whose order of fields is kept; (): as they come.
        Raises:
            ReplayError: the model has no chat template, or it refuses these messages.
        """
        try:
            orders = self._find_orders(served) if _holds_objects(messages, rendering) else {}
            prepared = [_prepare(message, way, orders) for message in messages]
            variables = _find_variables(rendering, way, orders)
            at = (read_served_at(rendering) or datetime.now(UTC)) + timedelta(hours=way.clock_h)
            key = json.dumps([prepared, variables, at.date().isoformat() if self.codec.writes_date else ""])
            if (kept := self._kept.get(key)) is None:
                text = self.codec.render_chat(prepared, variables=variables, at=at)
                special = rendering.get("add_special_tokens") is True
                kept = tuple(self.codec.encode([text], add_special_tokens=special)[0])
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.clear()
                self._kept[key] = kept
            return kept
        except EngineError as error:
            raise ReplayError("template_refuses", f"{self.name}: {error}") from error
        except Exception as error:  # a caller's messages may be anything at all
            words = f"{self.name}: the messages cannot be rendered: {type(error).__name__} {error}"
            raise ReplayError("template_refuses", words[:500]) from error

    def find_way(self, rollout: RolloutRecord) -> Way:
        """The way in which the rollout's conversation renders to the very tokens that were served.

        Raises:
            ReplayError: there is none; the words say where the nearest try and what was served part.
        """
        served = tuple(rollout.prompt_token_ids)
        seen: dict[Prompt, None] = {}
        refusal: ReplayError | None = None
        for way in self._list_ways(rollout):
            try:
                found = self.read(rollout.messages, rollout.rendering, way, served=served)
            except ReplayError as error:
                refusal = refusal or error
                continue
            if found == served:
                self._found[way] += 1
                return way
            seen[found] = None
        if not seen:
            raise refusal or ReplayError("template_refuses", f"{self.name}: there is nothing to render")
        nearest = max(seen, key=lambda one: _count_shared(one, served))
        raise ReplayError("does_not_replay", self._tell_difference(nearest, served))

    def hint(
        self, rollout: RolloutRecord, hinted: Sequence[Mapping[str, Any]], *, reader: "Replayer | None" = None
    ) -> Prompt:
        """The rollout's own prompt with the hint in it.

        Args:
            hinted: the rollout's messages with the hint in them.
            reader: of the teacher, where that one has a template of its own.
        Raises:
            ReplayError: see `find_way`.
        """
        way = self.find_way(rollout)
        return (reader or self).read(hinted, rollout.rendering, way, served=tuple(rollout.prompt_token_ids))

    def _find_orders(self, served: Prompt) -> Mapping[str, Any]:
        """Objects that are written in a served prompt, as they are written there, by what they say."""
        if served not in self._orders:
            if len(self._orders) >= _MOST_KEPT // 10:
                self._orders.clear()
            self._orders[served] = _find_objects(self.codec.decode(served, skip_special=False))
        return self._orders[served]

    def _list_ways(self, rollout: RolloutRecord) -> Iterator[Way]:
        """Our own first, then what has worked before, then the others that may differ from them."""
        messages: Sequence[Any] = rollout.messages
        rendering = rollout.rendering
        calls = any(isinstance(one, Mapping) and one.get("tool_calls") for one in messages)
        thinks = any(isinstance(one, Mapping) and not _THOUGHTS.isdisjoint(one) for one in messages)
        tools = ("sent", "anew") if rendering.get("tools") else ("sent",)
        if rendering.get("tool_choice") == "none" and rendering.get("tools"):
            tools = (*tools, "none")
        clocks = _CLOCKS_H if self.codec.writes_date else (0,)
        yield from dict.fromkeys(
            (
                OURS,
                *(way for way, _ in self._found.most_common()),
                *(
                    Way(*each)
                    for each in product(
                        _JOINS,
                        (False, True) if calls else (False,),
                        (False, True) if thinks else (False,),
                        tools,
                        clocks,
                    )
                ),
            )
        )

    def _tell_difference(self, found: Prompt, served: Prompt) -> str:
        shared = _count_shared(found, served)
        parts = [
            repr(self.codec.decode(ids[shared : shared + _SHOWN_TOKENS], skip_special=False)) for ids in (found, served)
        ]
        where = f"behind {shared} of {len(served)} tokens"
        return f"{self.name}: {where} its template writes {parts[0]} where the server read {parts[1]}"


def _holds_objects(messages: Sequence[Mapping[str, Any]], rendering: Mapping[str, Any]) -> bool:
    """Whether a template may write some of it as JSON."""
    return bool(rendering.get("tools") or rendering.get("documents")) or any("tool_calls" in one for one in messages)


def _find_objects(text: str) -> dict[str, Any]:
    """Every JSON object of a text, and every object in it, by what it says."""
    reader, found = json.JSONDecoder(), dict[str, Any]()
    place = tries = 0
    while (place := text.find("{", place)) >= 0 and tries < _MOST_TRIES:
        tries += 1
        try:
            value, place = reader.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
            continue
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if isinstance(each, dict):
                found.setdefault(_say(each), each)
                waiting.extend(each.values())
            elif isinstance(each, list):
                waiting.extend(each)
    return found


def _say(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _put_in_order(value: Any, orders: Mapping[str, Any]) -> Any:
    """A value whose objects have their fields in the order in which they were served, where that is known."""
    if isinstance(value, dict):
        found = orders.get(_say(value))
        return found if found is not None else {name: _put_in_order(each, orders) for name, each in value.items()}
    return [_put_in_order(each, orders) for each in value] if isinstance(value, list) else value


def _prepare(message: Mapping[str, Any], way: Way, orders: Mapping[str, Any]) -> Json:
    """A message as a server hands it to the template."""
    prepared = dict(message)
    content = prepared.get("content")
    if way.joins is None:
        prepared["content"] = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    elif isinstance(content, list):
        prepared["content"] = way.joins.join(_read_part(part) for part in content)
    elif content is None:
        prepared["content"] = ""
    if way.drops_thoughts:
        prepared = {name: value for name, value in prepared.items() if name not in _THOUGHTS}
    if isinstance(prepared.get("tool_calls"), list):
        calls = [_read_call(call) if way.reads_arguments else call for call in prepared["tool_calls"]]
        prepared["tool_calls"] = _put_in_order(calls, orders)
    return prepared


def _read_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise ValueError(f"wanted a text part, found {kind!r}")


def _read_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    arguments = json.loads(function["arguments"]) if function["arguments"] else {}
    return {**call, "function": {**function, "arguments": arguments}}


def _find_variables(rendering: Mapping[str, Any], way: Way, orders: Mapping[str, Any]) -> Json:
    """What the template is told besides the messages."""
    variables: Json = {}
    tools = rendering.get("tools")
    if tools and way.tools != "none":
        written = [_write_tool(tool) for tool in tools] if way.tools == "anew" else tools
        variables["tools"] = _put_in_order(written, orders)
    for name in ("documents", "add_generation_prompt", "continue_final_message", "reasoning_effort"):
        if rendering.get(name) is not None:
            variables[name] = _put_in_order(rendering[name], orders)
    return variables | dict(rendering.get("chat_template_kwargs") or {})


def _write_tool(tool: Any) -> Any:
    """A tool with its fields in vLLM's order, and null for those that were not given."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        return tool
    known = {name: function.get(name) for name in ("name", "description", "parameters")}
    return {"type": tool.get("type", "function"), "function": {**known, **function}}


def _count_shared(one: Prompt, other: Prompt) -> int:
    """How many tokens both begin with."""
    for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return place
    return min(len(one), len(other))
