"""Tool calls as models write them into their text, and as the APIs of model servers tell them. The one reader of both.

Source:
    Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`; Llama 3.x: the bare object with
    `parameters`, several divided by `;`, `<|python_tag|>` before them or not; Mistral: `[TOOL_CALLS][{…}]`, or
    `[TOOL_CALLS]name[ARGS]{…}`. Our own: `<call>name {…}</call>`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

UNREADABLE: Final = "unreadable"
"""Name under which a call that cannot be read stands in a conversation: every call there has one."""
_TAG: Final = re.compile(r"<(tool_call|call)(\s[^<>]{0,200})?>")
_MISTRAL: Final = "[TOOL_CALLS]"
_MISTRAL_NAME: Final = re.compile(r"[\w./:-]+")
_LLAMA: Final = "<|python_tag|>"
MARKS: Final = ("<tool_call", "<call", _MISTRAL, _LLAMA)
"""What a call begins with; one that is a bare object begins an answer."""
_BETWEEN: Final = re.compile(r"[\s;,]|</s>|<\|[a-z_]{1,40}\|>")
_NAME_ATTRIBUTE: Final = re.compile(r"""\bname\s*=\s*["']?([^"'\s>/]+)""", re.IGNORECASE)
_CALL_WORDS: Final = re.compile(r"(?P<name>[\w./:-]+)\s*(?P<rest>.*)", re.DOTALL)
_DECODER: Final = json.JSONDecoder()


class WrittenCall(NamedTuple):
    """A call.

    Args:
        name: "" where it cannot be read.
        arguments: as written; JSON text where they were JSON; of a call that cannot be read, all of it.
    """

    name: str
    arguments: str


class WrittenAnswer(NamedTuple):
    """An answer's text up to its first call, and its calls.

    Args:
        starts: the characters at which the calls begin; () where that is not known of each.
    """

    text: str
    calls: Sequence[WrittenCall] = ()
    starts: Sequence[int] = ()


def read_written_calls(text: str) -> WrittenAnswer:
    """The calls in an answer of a model that was offered tools; never raises. Text behind the first call is left out.

    Args:
        text: with its special tokens, which some families mark calls by.
    """
    if tags := list(_find_tags(text)):
        return WrittenAnswer(text[: tags[0][0]], [call for _, call in tags], [start for start, _ in tags])
    if _MISTRAL in text:
        start, _, rest = text.partition(_MISTRAL)
        return WrittenAnswer(start, _read_mistral(rest))
    start, found, rest = text.partition(_LLAMA)
    if found or text.lstrip().startswith("{"):
        calls, starts = _read_objects(text, len(start + found) if found else 0)
        if found and not calls:
            return WrittenAnswer(start, [WrittenCall("", rest)])
        if calls:
            return WrittenAnswer(start if found else "", calls, starts)
    return WrittenAnswer(text)


def count_plain(text: str, *, is_first: bool = True) -> int:
    """How many characters at a growing answer's beginning are no part of a call, however it goes on; nor the white
    space before one.

    Args:
        is_first: the answer begins here.
    """
    if is_first and text.lstrip()[:1] in {"", "{"}:
        return 0
    marks = [place for mark in MARKS if (place := text.find(mark)) >= 0]
    end = min(marks) if marks else len(text) - max(_count_begun(text, mark) for mark in MARKS)
    return len(text[:end].rstrip())


def _count_begun(text: str, mark: str) -> int:
    """Characters at the end that a mark may begin with."""
    return next((size for size in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:size])), 0)


def read_call(content: str, attributes: str = "") -> WrittenCall:
    """Name and arguments of a call: `<call name="f">x</call>`, a JSON object, `f(x)` or `f x`."""
    if named := _NAME_ATTRIBUTE.search(attributes):
        return WrittenCall(named[1], content)
    if content.startswith("{"):
        try:
            return read_told_call(json.loads(content))
        except (ValueError, TypeError, RecursionError):
            return WrittenCall("", content)
    words = _CALL_WORDS.match(content)
    if words is None:
        return WrittenCall("", content)
    rest = words["rest"].strip()
    if rest.startswith("(") and rest.endswith(")"):
        rest = rest[1:-1].strip()
    return WrittenCall(words["name"], rest)


def read_told_call(call: Any) -> WrittenCall:
    """A call in JSON: OpenAI's {"function": {"name", "arguments"}}, Anthropic's {"name", "input"}, or the bare pair.

    Raises:
        ValueError: there is no name, or the arguments hold NaN or themselves.
        TypeError: the arguments are not JSON.
    """
    if not isinstance(call, Mapping):
        raise ValueError(f"wanted an object, found {type(call).__name__}")
    function = call.get("function")
    source = function if isinstance(function, Mapping) else call
    name = source.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ValueError("wanted a name, found none")
    arguments = next((source[field] for field in ("arguments", "input", "parameters") if field in source), "")
    if isinstance(arguments, str):
        return WrittenCall(name.strip(), arguments.strip())
    return WrittenCall(name.strip(), json.dumps(arguments, allow_nan=False))


def write_tool(name: str, about: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as the chat API takes it; `parameters`: JSON schema of its arguments."""
    return {"type": "function", "function": {"name": name, "description": about, "parameters": dict(parameters)}}


def write_closed_tool(
    name: str, about: str, required: Sequence[str] | None = None, **properties: Mapping[str, Any]
) -> dict[str, Any]:
    """A tool that takes these arguments, each with its JSON schema, and no others.

    Args:
        required: those that must be there; None: all.
    """
    needed = list(properties if required is None else required)
    schema = {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}
    return write_tool(name, about, schema)


def write_told_call(call_id: str, call: WrittenCall) -> dict[str, Any]:
    """A call as a message of the chat API holds it: always with a name, and with arguments that are a JSON object."""
    arguments = call.arguments if read_arguments(call.arguments) is not None else json.dumps({"text": call.arguments})
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": call.name or UNREADABLE, "arguments": arguments.strip() or "{}"},
    }


def spell_call(name: str, arguments: str) -> str:
    """A call as a step's text."""
    return f"{name or UNREADABLE} {arguments}".strip()


def read_arguments(text: str) -> dict[str, Any] | None:
    """A call's arguments; {} for none, None for what is no JSON object, or holds half a character (I-JSON, RFC 7493):
    no text that could be written down again would hold it."""
    if not text.strip():
        return {}
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()
        text.encode()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refuse_constant(found: str) -> Any:
    raise ValueError(f"{found} is no JSON")


def _find_tags(text: str) -> Iterator[tuple[int, WrittenCall]]:
    """Where each tagged call begins, and it; one that is not closed reaches to the next, or to the end."""
    place = 0
    while (tag := _TAG.search(text, place)) is not None:
        end = text.find(f"</{tag[1]}>", tag.end())
        if end < 0:
            following = _TAG.search(text, tag.end())
            end = following.start() if following else len(text)
        yield tag.start(), read_call(text[tag.end() : end].strip(), tag[2] or "")
        place = end


def _read_mistral(text: str) -> list[WrittenCall]:
    text = text.strip()
    if text.startswith("["):
        try:
            told, _ = _DECODER.raw_decode(text)
            return [read_told_call(call) for call in told] or [WrittenCall("", text)]
        except (ValueError, TypeError, RecursionError):
            return [WrittenCall("", text)]
    calls = []
    for part in text.split(_MISTRAL):
        found, start = _MISTRAL_NAME.match(part.strip()), part.find("{")
        try:
            arguments = _DECODER.raw_decode(part, start)[0] if found and start > 0 else None
        except (ValueError, RecursionError):
            arguments = None
        name = found[0] if found and arguments is not None else ""
        calls.append(WrittenCall(name, json.dumps(arguments) if name else part.strip()))
    return calls


def _read_objects(text: str, place: int) -> tuple[list[WrittenCall], list[int]]:
    """Calls that are objects one behind the other and nothing else, and where each begins; none where the text is
    something else.
    """
    calls: list[WrittenCall] = []
    starts: list[int] = []
    place = _skip(text, place)
    while place < len(text):
        starts.append(place)
        try:
            told, place = _DECODER.raw_decode(text, place)
            if not isinstance(told, dict) or not told.keys() & {"parameters", "arguments", "function"}:
                return [], []
            calls.append(read_told_call(told))
        except (ValueError, TypeError, RecursionError):
            return [], []
        place = _skip(text, place)
    return calls, starts


def _skip(text: str, place: int) -> int:
    while between := _BETWEEN.match(text, place):
        place = between.end()
    return place
