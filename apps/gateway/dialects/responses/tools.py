"""Tools of Responses as functions, which is all that chat servers know; and calls of them as the caller named them.

The functions of a `namespace` are offered under both names at once, a `custom` tool as a function of one text. Tools
that OpenAI's own servers run are left out.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from apps.gateway.dialects.content import dump_arguments, load_arguments
from apps.gateway.dialects.protocol import BadRequestError, Body, Json
from apps.gateway.dialects.reading import read_list, read_object, read_str

MOST_NAME_CHARS = 64
"""Of a function, as OpenAI and those who follow it take."""
_INPUT = "input"
_DIGEST_CHARS = 8
_CHOOSABLE = ("function", "custom")


class Tool(NamedTuple):
    """What a function stands for, where that is not a function of the same name."""

    name: str
    namespace: str
    is_custom: bool


def name_function(name: str, namespace: str) -> str:
    """What a tool's function is called: the same for the same tool, whatever others are offered beside it."""
    if not namespace:
        return name
    whole = f"{namespace.rstrip('_')}__{name}"
    if len(whole) <= MOST_NAME_CHARS:
        return whole
    digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]
    return f"{whole[: MOST_NAME_CHARS - _DIGEST_CHARS - 1]}_{digest}"


def find_tools(request: Body) -> Mapping[str, Tool]:
    """By name of its function, what a request's tools are that are no plain functions."""
    found: dict[str, Tool] = {}
    for tool in request.get("tools") or ():
        namespace = str(tool["name"]) if tool.get("type") == "namespace" else ""
        for each in (tool.get("tools") or ()) if namespace else (tool,):
            if namespace or each.get("type") == "custom":
                name = str(each["name"])
                found[name_function(name, namespace)] = Tool(name, namespace, each.get("type") == "custom")
    return found


def is_offered(tool: Body) -> bool:
    """Whether a tool is one that can be called here."""
    return tool.get("type") in ("function", "custom", "namespace")


def read_tools(body: Body) -> Json:
    """The tools of a request and which of them is to be called, in chat; what is left out, as `dropped_tools`.

    Raises:
        BadRequestError: naming the field; also where a tool must be called that is left out.
    """
    if not body.get("tools"):
        return {}
    tools: list[Json] = []
    dropped: list[str] = []
    for index, found in enumerate(read_list(body, "tools")):
        at = f"tools.{index}"
        tool = read_object(found, at=at)
        if not is_offered(tool):
            dropped.append(read_str(tool, "type", at=at)[:60])
        elif tool["type"] == "namespace":
            namespace = read_str(tool, "name", at=at)
            for place, each in enumerate(read_list(tool, "tools", at=at)):
                inner = read_object(each, at=f"{at}.tools.{place}")
                tools.append(_make_function(inner, at=f"{at}.tools.{place}", namespace=namespace))
        else:
            tools.append(_make_function(tool, at=at))
    chat = _choose(tools, body.get("tool_choice"), dropped)
    return chat | ({"dropped_tools": dropped} if dropped else {})


def read_custom_arguments(text: str) -> str:
    """What a custom tool is given, as the arguments of its function."""
    return dump_arguments({_INPUT: text})


def read_custom_input(arguments: str) -> str:
    """The text in such arguments; as they are, where the model wrote the text and no object."""
    found: Any = (load_arguments(arguments) or {}).get(_INPUT)
    return found if isinstance(found, str) else arguments


def _choose(tools: list[Json], choice: object, dropped: list[str]) -> Json:
    if not tools and choice in (None, "", "auto", "none"):
        return {}
    if choice is None or isinstance(choice, str):
        if not tools:
            message = f"tool_choice: no tool that could be called is offered here; found {', '.join(dropped)[:200]}"
            raise BadRequestError(message, param="tool_choice")
        return {"tools": tools} | ({"tool_choice": choice} if choice else {})
    chosen = read_object(choice, at="tool_choice")
    if (kind := chosen.get("type")) in _CHOOSABLE:
        name = name_function(read_str(chosen, "name", at="tool_choice"), str(chosen.get("namespace") or ""))
        return {"tools": tools, "tool_choice": {"type": "function", "function": {"name": name}}}
    if kind == "allowed_tools":
        allowed = [read_object(tool, at="tool_choice.tools") for tool in chosen.get("tools") or ()]
        names = {name_function(str(tool.get("name") or ""), str(tool.get("namespace") or "")) for tool in allowed}
        kept = [tool for tool in tools if tool["function"]["name"] in names]
        return {"tools": kept, "tool_choice": chosen.get("mode") or "auto"} if kept else {}
    words = f"tool_choice.type: the built-in tool {str(kind)[:60]} is not offered here; tools must be of type function"
    raise BadRequestError(words, param="tool_choice.type")


def _make_function(tool: Body, *, at: str, namespace: str = "") -> Json:
    function: Json = {"name": name_function(read_str(tool, "name", at=at), namespace)}
    if tool.get("type") == "custom":
        wanted = read_object(tool.get("format") or {}, at=f"{at}.format")
        texts = [tool.get("description"), wanted.get("definition")]
        if said := "\n\n".join(text for text in texts if isinstance(text, str) and text):
            function["description"] = said
        given = {"type": "string", "description": "All that the tool is given, as text."}
        function["parameters"] = {"type": "object", "properties": {_INPUT: given}, "required": [_INPUT]}
    else:
        function |= {key: tool[key] for key in ("description", "parameters", "strict") if tool.get(key) is not None}
    return {"type": "function", "function": function}
