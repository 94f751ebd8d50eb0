"""Items of tools that a vendor runs, or that only its models know, as the items of functions that say the same. Pure.

A model reads what such a tool was asked and what it gave; what cannot be read here is left out.
"""

from collections.abc import Mapping, Sequence

from apps.gateway.dialects.content import BLOCK_GAP, dump_arguments
from apps.gateway.dialects.protocol import Body, Json
from apps.gateway.dialects.responses.tools import name_function

_ASKED = {
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
}
"""Calls that a client runs: what the function is called, and the field that says what is to be done."""
_GAVE = frozenset(f"{kind}_output" for kind in _ASKED)
_LEFT_OUT = frozenset(
    {
        "compaction",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
        "tool_search_output",
    }
)
"""Beside every other `…_call`: what it gave is not in it, or only its vendor can read it."""


def tell_plainly(item: Body) -> list[Json] | None:
    """The items of functions that say what this one does, [] for one that is left out; None: it is no such item."""
    kind = str(item.get("type") or "")
    if kind in _ASKED:
        name, field = _ASKED[kind]
        asked = item.get(field) or item.get(f"{field}s") or {}
        return [_call(_id_of(item), name, dump_arguments(asked if isinstance(asked, Mapping) else {field: asked}))]
    if kind in _GAVE:
        return [{"type": "function_call_output", "call_id": _id_of(item), "output": _read_output(item.get("output"))}]
    if kind == "mcp_call":
        name = name_function(str(item.get("name") or ""), str(item.get("server_label") or ""))
        return _call_and_output(item, name, str(item.get("arguments") or "{}"), item.get("error") or item.get("output"))
    if kind == "code_interpreter_call":
        logs = [str(one["logs"]) for one in _list(item.get("outputs")) if isinstance(one.get("logs"), str)]
        code = dump_arguments({"code": item.get("code") or ""})
        return _call_and_output(item, "code_interpreter", code, BLOCK_GAP.join(logs))
    if kind == "file_search_call" and (results := _list(item.get("results"))):
        found = BLOCK_GAP.join(f"{one.get('filename') or ''}\n{one.get('text') or ''}".strip() for one in results)
        return _call_and_output(item, "file_search", dump_arguments({"queries": item.get("queries") or []}), found)
    is_known = kind in ("function_call", "custom_tool_call")
    return [] if kind in _LEFT_OUT or (kind.endswith("_call") and not is_known) else None


def _call_and_output(item: Body, name: str, arguments: str, output: object) -> list[Json]:
    told = output if isinstance(output, str) else dump_arguments(output) if output else ""
    id = _id_of(item)
    return [_call(id, name, arguments), {"type": "function_call_output", "call_id": id, "output": told}]


def _call(id: str, name: str, arguments: str) -> Json:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def _id_of(item: Body) -> str:
    return str(item.get("call_id") or item.get("id") or "call")


def _read_output(output: object) -> object:
    """A text, or a picture of the screen."""
    if isinstance(output, Mapping) and isinstance(output.get("image_url"), str):
        return [{"type": "input_image", "image_url": output["image_url"]}]
    return output if isinstance(output, str) else dump_arguments(output)


def _list(found: object) -> Sequence[Body]:
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
