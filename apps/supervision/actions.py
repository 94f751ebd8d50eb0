"""What an agent may propose, checked before anything is written."""

import json
import math
from collections.abc import Mapping
from typing import Any

from apps.base.errors import BadInputError
from tentalis.core.field_limits import MAX_JUDGEMENT_CHARS

KINDS = ("tool", "message", "answer")
FIELDS = {
    "tool": frozenset({"kind", "tool", "arguments"}),
    "message": frozenset({"kind", "text"}),
    "answer": frozenset({"kind", "text"}),
}
MAX_CONTEXT_CHARS = 8_000
MAX_TOOL_CHARS = 100
MAX_ARGUMENTS_BYTES = 20_000
MAX_DEPTH = 16


def read_action(data: Any) -> dict[str, Any]:
    """The action with every field of its kind and no other.

    Raises:
        BadInputError: naming `action`, what was wanted and what was found.
    """
    if not isinstance(data, Mapping):
        raise _fault(f"wanted an object, found {type(data).__name__}")
    kind = data.get("kind")
    if kind not in KINDS:
        raise _fault(f"kind: wanted one of {', '.join(KINDS)}, found {kind!r:.40}")
    wanted = FIELDS[kind]
    if unknown := sorted(name for name in data if name not in wanted and data[name] not in (None, "", {})):
        raise _fault(f"a {kind} takes {', '.join(sorted(wanted - {'kind'}))}, found {', '.join(unknown)}")
    if kind == "tool":
        return {"kind": kind, "tool": _read_tool(data.get("tool")), "arguments": _read_arguments(data.get("arguments"))}
    return {"kind": kind, "text": read_text("action", data.get("text"), MAX_JUDGEMENT_CHARS)}


def read_text(field: str, text: Any, limit: int) -> str:
    """Some words. Raises BadInputError for none, too many, or a NUL."""
    if not isinstance(text, str) or not text.strip():
        raise _fault("wanted some text, found none", field)
    if len(text) > limit:
        raise _fault(f"wanted at most {limit:,} characters, found {len(text):,}", field)
    if "\x00" in text:
        raise _fault("wanted text without NUL characters, found one", field)
    return text


def _read_tool(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > MAX_TOOL_CHARS:
        raise _fault(f"tool: wanted a name of 1 to {MAX_TOOL_CHARS} printable characters, found {name!r:.60}")
    return name.strip()


def _read_arguments(arguments: Any) -> dict[str, Any]:
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, Mapping):
        raise _fault(f"arguments: wanted an object, found {type(arguments).__name__}")
    _check_value(arguments, depth=0)
    size = len(json.dumps(arguments, ensure_ascii=False).encode())
    if size > MAX_ARGUMENTS_BYTES:
        raise _fault(f"arguments: wanted at most {MAX_ARGUMENTS_BYTES:,} bytes of JSON, found {size:,}")
    return dict(arguments)


def _check_value(value: Any, *, depth: int) -> None:
    """What JSON and Postgres can hold, not too deep."""
    if depth > MAX_DEPTH:
        raise _fault(f"arguments: wanted at most {MAX_DEPTH} levels, found more")
    if isinstance(value, Mapping):
        for name, inner in value.items():
            _check_value(name, depth=depth + 1)
            _check_value(inner, depth=depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_value(inner, depth=depth + 1)
    elif isinstance(value, str):
        if "\x00" in value:
            raise _fault("arguments: wanted text without NUL characters, found one")
    elif isinstance(value, float) and not math.isfinite(value):
        raise _fault("arguments: wanted finite numbers, found one that is not")


def _fault(words: str, field: str = "action") -> BadInputError:
    return BadInputError.at(field, words)
