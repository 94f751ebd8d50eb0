"""Functions to be called: the Berkeley leaderboard, whose rows come along, and plans of calls."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from apps.evals.catalogue import CatalogueEntry, CatalogueItem, Row, render
from apps.evals.catalogue.shapes import FILE, make_questions, read_list, require_text
from apps.worlds.bfcl.rows import CATEGORIES as CONVERSATIONS
from apps.worlds.bfcl.rows import DISTRIBUTION, load_rows, open_lines

NOTHING: Final = "no function fits"
_CALL: Final = (
    "{question}\n\nYou have these functions:\n{functions}\n\nAnswer with calls alone, {form}. If no function fits, or "
    f"what one needs is not told, answer with the words: {NOTHING}"
)
_FORMS: Final[Mapping[str, str]] = {
    "python": "as [name(argument=value, ...), ...] in Python",
    "java": "as [name(argument=value, ...), ...] with values as Java writes them",
    "javascript": "as [name(argument=value, ...), ...] with values as JavaScript writes them",
}
_LANGUAGES: Final[Mapping[str, str]] = {"simple_java": "java", "simple_javascript": "javascript"}
CATEGORIES: Final[Mapping[str, tuple[str, int]]] = {
    "simple_python": ("one call of one function", 400),
    "multiple": ("one call of one of several functions", 200),
    "parallel": ("several calls of one function", 200),
    "parallel_multiple": ("several calls of several functions", 200),
    "simple_java": ("one call, written in Java", 100),
    "simple_javascript": ("one call, written in JavaScript", 50),
    "irrelevance": ("no function fits", 240),
    "live_simple": ("one call of one function, as users gave it", 258),
    "live_multiple": ("one call of one of several functions, as users gave them", 1053),
    "live_parallel": ("several calls of one function, as users gave it", 16),
    "live_parallel_multiple": ("several calls of several functions, as users gave them", 24),
    "live_irrelevance": ("no function fits, as users asked", 884),
}
"""Those of version 4 whose answer is one text. Memory wants stores, web search a network; `live_relevance` takes any
call for right."""


def _list_rows(category: str, split: str, size: int, seed: int) -> Iterator[Row]:
    answers: dict[str, Any] = {}
    if not category.endswith("irrelevance"):
        told = open_lines(f"possible_answer/BFCL_v4_{category}.json")
        answers = {row["id"]: row["ground_truth"] for row in told}
    for row in open_lines(f"BFCL_v4_{category}.json"):
        yield {**row, "ground_truth": answers.get(row["id"], [])}


def _read(row: Row, *, language: str) -> CatalogueItem:
    functions, wanted, turns = row["function"], row["ground_truth"], row["question"]
    if not isinstance(functions, list) or not isinstance(wanted, list):
        raise ValueError(f"function and ground_truth: wanted lists, found {functions!r:.60} and {wanted!r:.60}")
    said = [dict(one) for turn in turns for one in turn]
    words = {
        "functions": json.dumps(functions, ensure_ascii=False),
        "form": _FORMS[language],
        "question": require_text(said[-1], "content"),
    }
    prompt = render(_CALL, words)
    told: dict[str, Any] = {"prompt": prompt, "category": str(row["id"]).rpartition("_")[0]}
    if len(said) > 1:
        told["messages"] = [*said[:-1], {"role": "user", "content": prompt}]
    if not wanted:
        options = {"of": "last_line", "punctuation": False}
        return CatalogueItem(**told, grader="exact", reference=[NOTHING], options=options, oracle=NOTHING)
    reference = {"functions": functions, "calls": wanted}
    options = {} if language == "python" else {"language": language}
    return CatalogueItem(
        **told,
        reference=reference,
        options=options,
        oracle=_write_calls(wanted, functions) if language == "python" else None,
    )


def _write_calls(wanted: Sequence[Mapping[str, Mapping[str, Sequence[Any]]]], functions: Sequence[Any]) -> str | None:
    """Calls that are right: of each argument that is needed the first value it may have. None: no call can be as
    the row says, as in seven of them."""
    known, calls = {str(one["name"]): one.get("parameters") or {} for one in functions}, []
    for one in wanted:
        for name, values in one.items():
            required = set(known[name].get("required") or ())
            properties = known[name].get("properties") or {}
            needed = {key: may_be for key, may_be in values.items() if key in required or "" not in may_be}
            real = {key: [value for value in may_be if value != ""] for key, may_be in needed.items()}
            if required - real.keys() or not all(real.values()) or real.keys() - properties.keys():
                return None
            calls.append(f"{name}({', '.join(f'{key}={_settle(may_be[0])!r}' for key, may_be in real.items())})")
    return f"[{', '.join(calls)}]"


def _choose(may_be: Sequence[Any]) -> Any:
    return _settle(next(value for value in may_be if value != ""))


def _settle(value: Any) -> Any:
    """Entries of objects are lists of what they may be."""
    if isinstance(value, list):
        return [_settle(one) for one in value]
    if not isinstance(value, dict):
        return value
    told = {key: held if isinstance(held, list) else [held] for key, held in value.items()}
    return {key: _choose(held) for key, held in told.items() if any(one != "" for one in held)}


def _read_plan(row: Row) -> CatalogueItem:
    """As the tasks of tau-bench are kept: an instruction, tools, and the actions that settle it."""
    tools = [one.get("function", one) for one in read_list(row, "tools")]
    actions = read_list(row, "actions")
    calls = [{one["name"]: {key: [value] for key, value in (one.get("kwargs") or {}).items()}} for one in actions]
    typed = [{**tool, "parameters": _type(tool.get("parameters") or {})} for tool in tools]
    words = {
        "question": require_text(row, "instruction"),
        "functions": json.dumps(tools, ensure_ascii=False),
        "form": _FORMS["python"],
    }
    return CatalogueItem(
        prompt=render(_CALL, words), reference={"functions": typed, "calls": calls}, oracle=_write_calls(calls, typed)
    )


_KINDS: Final = {"object": "dict", "number": "float"}


def _type(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema's names of kinds as the leaderboard has them."""
    told = {
        name: {**about, "type": _KINDS.get(str(about.get("type")), about.get("type", "string"))}
        for name, about in (parameters.get("properties") or {}).items()
    }
    return {**parameters, "type": "dict", "properties": told}


def _write_plans(count: int, seed: int) -> Iterator[Row]:
    for one in make_questions(count, seed):
        thing, number = one.answer.split()
        yield {
            "user_id": f"made_{one.place}",
            "instruction": f"You are customer {number} and want your order of a {thing} cancelled: it came too late.",
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": name,
                        "description": f"{name.replace('_', ' ')} of a customer",
                        "parameters": {
                            "type": "object",
                            "properties": {"order_id": {"type": "string"}, "reason": {"type": "string"}},
                            "required": ["order_id", "reason"],
                        },
                    },
                }
                for name in ("cancel_order", "return_order")
            ],
            "actions": [{"name": "cancel_order", "kwargs": {"order_id": f"{thing}-{number}", "reason": "too late"}}],
        }


def _open(category: str) -> CatalogueEntry:
    about, size = CATEGORIES[category]
    return CatalogueEntry(
        name=f"bfcl/{category}",
        version="4",
        about=f"Berkeley Function Calling Leaderboard: {about}.",
        group="functions",
        licence="Apache-2.0",
        template=_CALL,
        grader="bfcl",
        columns={
            "id": "of the row",
            "question": "turns of messages",
            "function": "what may be called",
            "ground_truth": "calls with the values their arguments may have; [] for none",
        },
        read=partial(_read, language=_LANGUAGES.get(category, "python")),
        make=partial(_list_rows, category),
        sizes={"held_out": size},
        package=DISTRIBUTION,
        shared=0.1 if category == "live_parallel" else 0.02,
    )


def _list_conversations(category: str, split: str, size: int, seed: int) -> Iterator[Row]:
    for row in load_rows(category).values():
        yield {"prompt": row.prompt}


def _read_conversation(row: Row) -> CatalogueItem:
    prompt = require_text(row, "prompt")
    return CatalogueItem(prompt=prompt, category=prompt.partition("\n")[0].rpartition("_")[0])


def _open_conversations(category: str) -> CatalogueEntry:
    return CatalogueEntry(
        name=f"bfcl/{category}",
        version="4",
        about=f"Berkeley Function Calling Leaderboard, several turns: {CONVERSATIONS[category]}.",
        group="functions",
        licence="Apache-2.0",
        environment="bfcl",
        columns={"prompt": "the name of a conversation and its first words"},
        read=_read_conversation,
        make=partial(_list_conversations, category),
        sizes={"held_out": 200},
        package=DISTRIBUTION,
        shared=0.02,  # two begin alike, and what a call told need not be asked again
    )


ENTRIES: Final = (
    *map(_open, CATEGORIES),
    *map(_open_conversations, CONVERSATIONS),
    CatalogueEntry(
        name="tau_calls",
        version="1",
        about="Tasks in the form of tau-bench: the calls that settle an instruction, all at once.",
        group="functions",
        licence="MIT",
        template=_CALL,
        grader="bfcl",
        columns={"instruction": "what the customer wants", "tools": "functions", "actions": "name and kwargs of each"},
        read=_read_plan,
        needs=FILE,
        synthetic=_write_plans,
    ),
)
