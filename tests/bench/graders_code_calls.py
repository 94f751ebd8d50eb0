"""Rows of BFCL version 4, the calls that they want, and those calls spoiled."""

import copy
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from apps.worlds.bfcl.machines import Machines
from apps.worlds.bfcl.rows import BfclRow, read_call
from tentalis.core.graders.calls import JAVA, JAVASCRIPT, PYTHON

Call = Mapping[str, Mapping[str, Any]]
CATEGORIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple", "live_parallel",
         "live_parallel_multiple"), PYTHON,
    ),
    "simple_java": JAVA, "simple_javascript": JAVASCRIPT,
}  # fmt: skip
TURNS: Final = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
TOLD: Final = ("memory", "web_search")
IRRELEVANT: Final = ("irrelevance", "live_irrelevance", "live_relevance")


class CallRow(NamedTuple):
    """A row, and calls that answer it: some way that they were spoiled, or "" for as they are wanted."""

    id: str
    category: str
    language: str
    functions: Sequence[Mapping[str, Any]]
    wanted: Sequence[Mapping[str, Mapping[str, Sequence[Any]]]]
    way: str
    calls: Sequence[Call]


def load(data: Path, category: str, *, answers: bool = False) -> list[dict[str, Any]]:
    name = f"BFCL_v4_{category}.json"
    lines = (data / "possible_answer" / name if answers else data / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def list_calls(data: Path) -> Iterator[CallRow]:
    """Of every row with possible answers: what is wanted, and each way to spoil it."""
    for category, language in CATEGORIES.items():
        rows = {row["id"]: row for row in load(data, category)}
        for told in load(data, category, answers=True):
            functions, wanted = rows[told["id"]]["function"], told["ground_truth"]
            known = {one["name"]: one for one in functions}
            right = [answer_call(one, known, language) for one in wanted]
            rng = random.Random(told["id"])
            for way, calls in [("", right), *spoil_calls(right, wanted, known, language, rng)]:
                yield CallRow(told["id"], category, language, functions, wanted, way, calls)


def answer_call(
    wanted: Mapping[str, Any], known: Mapping[str, Any], language: str, *, last: bool = False
) -> dict[str, dict[str, Any]]:
    """A call with the first value of each parameter that has one, or with the last."""
    ((name, values),) = wanted.items()
    properties = known[name]["parameters"]["properties"]
    chosen = {}
    for parameter, may_be in values.items():
        real = [one for one in may_be if one != ""]
        if real:
            value = pick(real[-1 if last else 0], last=last)
            described = properties.get(parameter, {})
            chosen[parameter] = spell(value, described, language) if language != PYTHON else value
    return {name: chosen}


def pick(value: Any, *, last: bool) -> Any:
    """Entries of objects are lists of what they may be."""
    if isinstance(value, list):
        return [pick(one, last=last) for one in value]
    if not isinstance(value, dict):
        return value
    may_be = {key: [one] if not isinstance(one, list) else one for key, one in value.items()}
    real = {key: [one for one in held if one != ""] for key, held in may_be.items()}
    return {key: held[-1 if last else 0] for key, held in real.items() if held}


def spell(value: Any, described: Mapping[str, Any], language: str) -> str:
    """A value as Java or JavaScript writes it; a text is a name, or stands without its quotes."""
    kind, inner = described.get("type"), (described.get("items") or {}).get("type")
    if isinstance(value, list):
        items = ", ".join(_spell_item(one, inner, language) for one in value)
        if language == JAVASCRIPT:
            return f"[{items}]"
        return f"new Object[]{{{items}}}" if kind == "Array" else f"new ArrayList<>(Arrays.asList({items}))"
    if isinstance(value, dict):
        pairs = [(json.dumps(key), _spell_item(one, None, language)) for key, one in value.items()]
        if language == JAVASCRIPT:
            return "{" + ", ".join(f"{key}: {one}" for key, one in pairs) + "}"
        return "new HashMap<String, Object>() {{ " + " ".join(f"put({key}, {one});" for key, one in pairs) + " }}"
    return value if isinstance(value, str) else _spell_item(value, kind, language)


def _spell_item(value: Any, kind: str | None, language: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_spell_item(one, None, language) for one in value) + "]"
    if isinstance(value, int | float):
        whole = kind in {"integer", "long", "Bigint", "byte", "short"}
        text = str(int(value) if whole else value)
        return text + {"long": "L", "float": "f" if language == JAVA else "", "Bigint": "n"}.get(kind or "", "")
    return json.dumps(value, ensure_ascii=False)


def spoil_calls(
    right: Sequence[Call], wanted: Sequence[Any], known: Mapping[str, Any], language: str, rng: random.Random
) -> Iterator[tuple[str, Sequence[Call]]]:
    """Ways to answer otherwise, not all of them wrong."""
    place = rng.randrange(len(right))
    ((name, arguments),) = right[place].items()

    def put(call: Call) -> Sequence[Call]:
        return [*right[:place], call, *right[place + 1 :]]

    yield "no call", []
    yield "a call twice", [*right, right[place]]
    yield "a call of something else besides", [*right, {"look_around": {"where": "here"}}]
    yield "another function", put({f"{name}_2": arguments})
    yield "an argument more", put({name: {**arguments, "look": "1" if language != PYTHON else 1}})
    yield "the last values", [answer_call(one, known, language, last=True) for one in wanted]
    if len(right) > 1:
        yield "in another order", right[::-1]
        yield "one call less", [*right[:place], *right[place + 1 :]]
    if not arguments:
        return
    chosen = rng.choice(sorted(arguments))
    value = arguments[chosen]
    yield "an argument less", put({name: {key: one for key, one in arguments.items() if key != chosen}})
    yield "another value", put({name: {**arguments, chosen: change(value)}})
    yield "another kind of value", put({name: {**arguments, chosen: 7 if isinstance(value, str) else str(value)}})
    yield "no value", put({name: {**arguments, chosen: None}})
    yield "a list of it", put({name: {**arguments, chosen: [value]}})
    yield "written otherwise", put({name: {key: rewrite(one) for key, one in arguments.items()}})
    yield "as a number with a point", put({name: {key: to_float(one) for key, one in arguments.items()}})


def change(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        end = next((place for place in range(len(value), 0, -1) if value[place - 1].isalnum()), len(value))
        return f"{value[:end]}{'1' if value[end - 1 : end].isdigit() else 'x'}{value[end:]}"
    if isinstance(value, list):
        return [*value[:-1], change(value[-1])] if value else ["x"]
    changed = copy.deepcopy(value)
    if not changed:
        return {"x": 1}
    key = sorted(changed)[0]
    changed[key] = change(changed[key]) if changed[key] is not None else "x"
    return changed


def rewrite(value: Any) -> Any:
    """In capitals and with other marks, where it is a text."""
    if isinstance(value, str):
        return value.upper().replace(" ", "-") if "new " not in value else value
    return [rewrite(one) for one in value] if isinstance(value, list) else value


def to_float(value: Any) -> Any:
    return float(value) if type(value) is int else value


def spell_text(calls: Sequence[Call], language: str, known: Mapping[str, Any]) -> str:
    """As a model writes them."""
    told = []
    for call in calls:
        for name, arguments in call.items():
            properties = known.get(name, {}).get("parameters", {}).get("properties", {})
            pairs = (f"{key}={_spell_argument(one, properties.get(key), language)}" for key, one in arguments.items())
            told.append(f"{name}({', '.join(pairs)})")
    return f"[{', '.join(told)}]"


def _spell_argument(value: Any, described: Mapping[str, Any] | None, language: str) -> str:
    if language == PYTHON or not isinstance(value, str):
        return repr(value)
    is_text = (described or {}).get("type") in {"String", "char"}
    return json.dumps(value, ensure_ascii=False) if is_text else value


class TurnRow(NamedTuple):
    """A row of several turns, and calls that answer it.

    Args:
        played: of each turn its steps, of each step its calls.
    """

    entry: Mapping[str, Any]
    way: str
    played: Sequence[Sequence[Sequence[str]]]
    wanted: Sequence[Sequence[str]]


def list_turns(data: Path, categories: Sequence[str] = TURNS) -> Iterator[TurnRow]:
    for category in categories:
        rows = {row["id"]: row for row in load(data, category)}
        for told in load(data, category, answers=True):
            entry = {key: rows[told["id"]][key] for key in ("id", "initial_config", "involved_classes")}
            wanted = told["ground_truth"]
            right = [[calls] if calls else [] for calls in wanted]
            rng = random.Random(told["id"])
            for way, played in [("", right), *spoil_turns(right, rng)]:
                yield TurnRow(entry, way, played, wanted)


def spoil_turns(
    right: Sequence[Sequence[Sequence[str]]], rng: random.Random
) -> Iterator[tuple[str, Sequence[Sequence[Sequence[str]]]]]:
    chosen = rng.choice([number for number, steps in enumerate(right) if steps])
    calls = right[chosen][0]
    place = rng.randrange(len(calls))

    def put(*steps: Sequence[str]) -> Sequence[Sequence[Sequence[str]]]:
        return [*right[:chosen], list(steps), *right[chosen + 1 :]]

    yield "a turn without calls", put()
    yield "a turn less", right[:-1]
    yield "a call less", put([*calls[:place], *calls[place + 1 :]])
    yield "a call twice", put([*calls, calls[place]])
    yield "another value", put([*calls[:place], change(calls[place]), *calls[place + 1 :]])
    yield "a call that fails", put([*calls, "look_around(where='here')"])
    yield "a step for each call", put(*([call] for call in calls))
    yield "the other way round", put(calls[::-1])


def play_turns(row: BfclRow, played: Sequence[Sequence[Sequence[str]]]) -> list[Mapping[str, Any]]:
    """What our world makes of calls that are written in Python; one that cannot be read fails."""
    machines, turns = Machines(row), list[Mapping[str, Any]]()
    for steps in played:
        results = []
        for text in (one for step in steps for one in step):
            try:
                call = read_call(text, row.classes)
            except (ValueError, SyntaxError, KeyError) as error:
                results.append(f"Error during execution: {error}")
            else:
                results.append(machines.call(call.name, call.arguments))
        turns.append({"results": results, "state": machines.tell()})
    return turns


def list_told(data: Path) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Rows whose answer is a text that holds one of some: (way, answer, wanted)."""
    for category in TOLD:
        rows = load(data, category, answers=True)
        for number, row in enumerate(rows):
            wanted = row["ground_truth"]
            other = rows[number - 1]["ground_truth"][0]
            yield "", wanted[0], wanted
            yield "in a sentence", f"I think that it is {wanted[-1].upper()}, as you said.", wanted
            yield "another row's", f"It is {other}.", wanted
            yield "within a word", f"x{wanted[0]}x", wanted
            yield "a part of it", wanted[0][:-1], wanted
            yield "I cannot answer", "I cannot answer that.", wanted


def tell_purpose(row: CallRow) -> str:
    """Why we take an answer for right that the reference does not, where we mean to; "" where we do not."""
    described = {one["name"]: one["parameters"]["properties"] for one in row.functions}
    for told in row.wanted:
        ((name, values),) = told.items()
        for parameter, may_be in values.items():
            kind = described[name].get(parameter, {}).get("type")
            if row.language == JAVA and kind == "Array" and any(isinstance(one, list) for one in may_be):
                return "texts in an array of Java count without their quotes, which the reference compares with them"
            for one in may_be:
                if isinstance(one, dict) and any(isinstance(held, str) for held in one.values()):
                    return "a row holds a text where a list of texts should stand; no answer is right by the reference"
    if len(row.wanted) > 1:
        return "calls are matched as they fit; the reference takes the first that fits and then finds none for another"
    return ""
