"""Items of a Responses input as chat messages."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from apps.gateway.dialects.content import BLOCK_GAP, join_content
from apps.gateway.dialects.protocol import BadRequestError, Body, Json
from apps.gateway.dialects.reading import read_object, read_str, read_text, refusal
from apps.gateway.dialects.responses.hosted import tell_plainly
from apps.gateway.dialects.responses.tools import name_function, read_custom_arguments

_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_ROLES = {"user": "user", "system": "system", "developer": "system"}


class UnknownItemsError(BadRequestError):
    """Items are named by ids that whoever keeps answers may know."""

    def __init__(self, ids: Sequence[str], *, param: str) -> None:
        super().__init__(f"Item with id '{ids[0][:100]}' not found.", param=param)
        self.ids = ids


class Items(NamedTuple):
    """A list of items: as chat messages, and of which types some were left out."""

    messages: list[Json]
    dropped: list[str]


def read_items(items: Sequence[object], *, at: str) -> Items:
    """Chat messages; what one answer consists of (reasoning, a message, calls, in this order) becomes one message.

    Raises:
        UnknownItemsError: some are named only. BadRequestError: naming the item.
    """
    reader = _Reader()
    dropped: list[str] = []
    for index, found in enumerate(items):
        here = f"{at}.{index}"
        item = read_object(found, at=here)
        if item.get("type") == "item_reference":
            named = (one for one in items if isinstance(one, Mapping) and one.get("type") == "item_reference")
            raise UnknownItemsError([read_str(one, "id", at=here) for one in named], param=here)
        plain = tell_plainly(item)
        if plain == []:
            dropped.append(str(item["type"])[:60])
        for each in (item,) if plain is None else plain:
            reader.read(each, at=here)
    return Items(reader.finish(), dropped)


class _Reader:
    """Collects messages; `_answer` is the assistant's message that later items still belong to."""

    def __init__(self) -> None:
        self._messages: list[Json] = []
        self._answer: Json | None = None
        self._shown: list[Json] = []

    def read(self, item: Body, *, at: str) -> None:
        kind = item.get("type") or ("message" if "role" in item else None)
        if kind not in _OUTPUTS:
            self._show()
        if kind == "message":
            self._read_message(item, at=at)
        elif kind == "reasoning":
            self._read_reasoning(item)
        elif kind == "function_call":
            self._read_call(item, read_text(item, "arguments", at=at), at=at)
        elif kind == "custom_tool_call":
            self._read_call(item, read_custom_arguments(read_text(item, "input", at=at)), at=at)
        elif kind in _OUTPUTS:
            self._read_output(item, at=at)
        else:
            raise BadRequestError(f"{at}.type: items of type {str(kind)[:60]} are not offered here", param=f"{at}.type")

    def finish(self) -> list[Json]:
        self._show()
        for message in self._messages:
            if message["role"] == "assistant":
                message.setdefault("content", None if "tool_calls" in message else "")
        return self._messages

    def _read_message(self, item: Body, *, at: str) -> None:
        role, content = item.get("role"), item.get("content")
        if not isinstance(content, str | list):
            raise refusal(f"{at}.content", "a string or a list of parts", content)
        if role == "assistant":
            answer = self._answer_without("content", "tool_calls")
            answer["content"] = content if isinstance(content, str) else _read_said(content, at=f"{at}.content")
        elif role in _ROLES:
            said = content if isinstance(content, str) else join_content(*_read_parts(content, at=f"{at}.content"))
            self._add({"role": _ROLES[role], "content": said})
        else:
            raise refusal(f"{at}.role", "user, assistant, system or developer", role)

    def _read_reasoning(self, item: Body) -> None:
        parts = item.get("content") or item.get("summary") or ()
        text = "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))
        if text:
            self._answer_without("reasoning_content", "content", "tool_calls")["reasoning_content"] = text

    def _read_call(self, item: Body, arguments: str, *, at: str) -> None:
        name = name_function(read_str(item, "name", at=at), str(item.get("namespace") or ""))
        function = {"name": name, "arguments": arguments}
        call = {"id": read_str(item, "call_id", at=at), "type": "function", "function": function}
        self._answer_without().setdefault("tool_calls", []).append(call)

    def _read_output(self, item: Body, *, at: str) -> None:
        output = item.get("output")
        texts: list[str] = []
        if isinstance(output, str):
            texts = [output]
        elif isinstance(output, list):
            texts, shown = _read_parts(output, at=f"{at}.output")
            self._shown += shown
        else:
            raise refusal(f"{at}.output", "a string or a list of parts", output)
        call = read_str(item, "call_id", at=at)
        self._add({"role": "tool", "tool_call_id": call, "content": BLOCK_GAP.join(texts)})

    def _add(self, message: Json) -> None:
        self._messages.append(message)
        self._answer = None

    def _answer_without(self, *keys: str) -> Json:
        """The answer being read if it has none of these yet, else a new one."""
        answer = self._answer
        if answer is None or any(key in answer for key in keys):
            answer = {"role": "assistant"}
            self._add(answer)
            self._answer = answer
        return answer

    def _show(self) -> None:
        """What tools showed, as the user's message behind their outputs: chat takes images from users only."""
        shown, self._shown = self._shown, []
        if shown:
            self._add({"role": "user", "content": shown})


def _read_said(content: Sequence[object], *, at: str) -> str:
    """Text of an assistant's message."""
    texts = []
    for index, found in enumerate(content):
        part = read_object(found, at=f"{at}.{index}")
        if part.get("type") == "refusal":
            texts.append(read_text(part, "refusal", at=f"{at}.{index}"))
        elif part.get("type") in ("output_text", "input_text", "text"):
            texts.append(read_text(part, "text", at=f"{at}.{index}"))
        else:
            raise refusal(f"{at}.{index}.type", "output_text or refusal", part.get("type"))
    return "".join(texts)


def _read_parts(content: Sequence[object], *, at: str) -> tuple[list[str], list[Json]]:
    """(texts, other chat parts) of what a user or a tool shows."""
    texts: list[str] = []
    parts: list[Json] = []
    for index, found in enumerate(content):
        here = f"{at}.{index}"
        part = read_object(found, at=here)
        kind = part.get("type")
        if kind in ("input_text", "output_text", "text"):
            texts.append(read_text(part, "text", at=here))
        elif kind == "input_image":
            image: Json = {"url": read_str(part, "image_url", at=here)}
            if part.get("detail"):
                image["detail"] = part["detail"]
            parts.append({"type": "image_url", "image_url": image})
        elif kind == "input_file":
            name = str(part.get("filename") or "file")
            parts.append(
                {"type": "file", "file": {"filename": name, "file_data": read_str(part, "file_data", at=here)}}
            )
        else:
            raise refusal(f"{here}.type", "input_text, input_image or input_file", kind)
    return texts, parts
