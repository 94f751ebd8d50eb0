"""The leaderboard's conversations, as the installed package holds them: read, and never changed."""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from tentalis.core.graders.calls import CalledFunction

DISTRIBUTION: Final = "bfcl-eval"
CATEGORIES: Final[Mapping[str, str]] = {
    "multi_turn_base": "a user asks for one thing after another",
    "multi_turn_miss_func": "a function that is wanted comes later (in one of them too late for its right calls)",
    "multi_turn_miss_param": "what a function needs is told later than it is asked for",
    "multi_turn_long_context": "what functions give back is long",
}
"""Those of several turns -> what is particular about them."""
MORE_FUNCTIONS: Final = "I have updated some more functions you can choose from. What about now?"
"""What the leaderboard's user says where functions come that were held back."""
KINDS: Final[Mapping[str, str]] = {
    "dict": "object", "object": "object", "float": "number", "number": "number", "integer": "integer",
    "boolean": "boolean", "array": "array", "list": "array", "tuple": "array", "string": "string", "any": "string",
}  # fmt: skip
"""The leaderboard's names of kinds -> JSON Schema's."""
_DOCS: Final[Mapping[str, str]] = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""Class -> the file that describes its functions, and the module that it stands in."""


def open_lines(path: str) -> Iterator[dict[str, Any]]:
    """The objects of one of the package's files. Raises PackageNotFoundError."""
    file = distribution(DISTRIBUTION).locate_file(f"bfcl_eval/data/{path}")
    with Path(str(file)).open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def is_installed() -> bool:
    """Whether the package is there."""
    try:
        return bool(distribution(DISTRIBUTION))
    except PackageNotFoundError:
        return False


@dataclass(frozen=True, kw_only=True)
class BfclRow:
    """A conversation.

    Args:
        words: what the user says in each turn.
        classes: whose functions may be called; config: class -> the state that it begins in.
        held_back: turn -> functions that come with it, and cannot be called before.
        right: of each turn, calls that settle it; none where it cannot be settled yet.
    """

    id: str
    words: Sequence[str]
    classes: Sequence[str]
    config: Mapping[str, Any]
    held_back: Mapping[int, Sequence[str]]
    right: Sequence[Sequence[CalledFunction]]

    @property
    def category(self) -> str:
        return self.id.rpartition("_")[0]

    @property
    def prompt(self) -> str:
        return f"{self.id}\n\n{self.words[0]}"

    def list_tools(self, turn: int) -> list[Mapping[str, Any]]:
        """What may be called in a turn, as the chat API takes it."""
        told = {one["function"]["name"]: one for name in self.classes for one in describe_functions(name)}
        later = [name for of, names in sorted(self.held_back.items()) for name in names if of > turn]
        came = [name for of, names in sorted(self.held_back.items()) for name in names if of <= turn]
        return [*(one for name, one in told.items() if name not in {*later, *came}), *(told[name] for name in came)]


@cache
def load_rows(category: str) -> Mapping[str, BfclRow]:
    """Id -> conversation, in the package's order. Raises PackageNotFoundError."""
    right = {row["id"]: row["ground_truth"] for row in open_lines(f"possible_answer/BFCL_v4_{category}.json")}
    return {row["id"]: _read_row(row, right[row["id"]]) for row in open_lines(f"BFCL_v4_{category}.json")}


def _read_row(row: Mapping[str, Any], right: Sequence[Sequence[str]]) -> BfclRow:
    held_back = {int(turn): tuple(names) for turn, names in row.get("missed_function", {}).items()}
    words = [turn[0]["content"] if turn else MORE_FUNCTIONS for turn in row["question"]]
    return BfclRow(
        id=row["id"],
        words=words,
        classes=row["involved_classes"],
        config=row["initial_config"],
        held_back=held_back,
        right=[[read_call(text, row["involved_classes"]) for text in turn] for turn in right],
    )


def read_call(text: str, classes: Sequence[str]) -> CalledFunction:
    """A call as it is written in Python, with values that are written out; those without a name get the one that
    stands in their place in the function's description.

    Raises:
        ValueError: it is none.
    """
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"wanted a call of a function, found {text!r:.120}")
    name = call.func.id
    arguments = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    if call.args:
        tools = {one["function"]["name"]: one["function"] for each in classes for one in describe_functions(each)}
        places = list(tools[name]["parameters"]["properties"])
        arguments |= dict(zip(places, map(ast.literal_eval, call.args), strict=False))
    return CalledFunction(name, arguments)


@cache
def describe_functions(name: str) -> Sequence[Mapping[str, Any]]:
    """The functions of a class, as the chat API takes them. What they give back stands in the description."""
    return [_write_tool(one) for one in open_lines(f"multi_turn_func_doc/{_DOCS[name]}.json")]


def find_module(name: str) -> str:
    """The module that a class stands in."""
    return f"bfcl_eval.eval_checker.multi_turn_eval.func_source_code.{_DOCS[name]}"


def _write_tool(told: Mapping[str, Any]) -> Mapping[str, Any]:
    gives = json.dumps(told["response"], ensure_ascii=False)
    about = f"{told['description']} The response field has the following schema: {gives}"
    function = {"name": told["name"], "description": about, "parameters": _write_schema(told["parameters"])}
    return {"type": "function", "function": function}


def _write_schema(told: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of the leaderboard's description of a value."""
    schema = {**told, "type": KINDS.get(str(told.get("type")), "string")}
    if isinstance(told.get("properties"), dict):
        schema["properties"] = {name: _write_schema(one) for name, one in told["properties"].items()}
    if isinstance(told.get("items"), dict):
        schema["items"] = _write_schema(told["items"])
    return schema
