"""Calls of functions, read out of a text, and whether they are those that were wanted.

Source:
    The Berkeley Function Calling Leaderboard, version 4: rows that give each parameter the values it may have, "" for
    one that may be left out. Differences: calls are matched in any order in which they fit; a call with arguments
    without a name, or with one twice, is none; what is written as text in an array of Java counts without its quotes;
    a wanted value that is a text and should have been a list of texts counts as one.
"""

import ast
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tentalis.core.graders.reading import is_number
from tentalis.core.graders.words import has_word

PYTHON, JAVA, JAVASCRIPT = "python", "java", "javascript"
LANGUAGES: Final = (PYTHON, JAVA, JAVASCRIPT)
MOST_CHARS: Final = 100_000
"""Of a text that is read for calls."""
MOST_LEVELS: Final = 50
"""Of brackets within each other, in Java and JavaScript."""
LEFT_OUT: Final = ""
"""Among the values of a parameter: it may be left out."""
KINDS: Final[Mapping[str, Mapping[str, type]]] = {
    PYTHON: {
        "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
        "any": str,
    },
    JAVA: {
        "byte": int, "short": int, "integer": int, "float": float, "double": float, "long": int, "boolean": bool,
        "char": str, "Array": list, "ArrayList": list, "HashMap": dict, "String": str, "any": str,
    },
    JAVASCRIPT: {
        "String": str, "integer": int, "float": float, "Bigint": int, "Boolean": bool, "dict": dict, "array": list,
        "any": str,
    },
}  # fmt: skip
"""Kind of a parameter, as a function's description has it -> what a value of it is."""
_HOLDS_OTHERS: Final = frozenset({"array", "tuple", "Array", "ArrayList"})
_IGNORED: Final = str.maketrans(dict.fromkeys(" ,./-_*^") | {"'": '"'})
_UNMARKED: Final = str.maketrans("'", '"', ",./-_*^()")


class CalledFunction(NamedTuple):
    """A call. Of Java and JavaScript, arguments are as they were written."""

    name: str
    arguments: Mapping[str, Any]


class UnreadableCallError(ValueError):
    """A text holds no calls, or not only calls."""


# reading


def read_calls(text: str, language: str = PYTHON) -> list[CalledFunction]:
    """The calls of a text that is nothing but a list of calls, with brackets around it or without, or fenced.

    Raises:
        UnreadableCallError: it is something else.
    """
    bare = text.strip("`\n ")
    if len(bare) > MOST_CHARS:
        raise UnreadableCallError(f"wanted at most {MOST_CHARS:,} characters of calls, found {len(bare):,}")
    if not bare.startswith("["):
        bare = f"[{bare}"
    if not bare.endswith("]"):
        bare = f"{bare}]"
    return _read_python(bare) if language == PYTHON else list(_read_other(bare[1:-1], language))


def _read_python(text: str) -> list[CalledFunction]:
    try:
        parsed = ast.parse(text, mode="eval").body
        if not isinstance(parsed, ast.List):
            raise UnreadableCallError("wanted a list of calls")
        return [_read_call(one) for one in parsed.elts]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, ArithmeticError) as error:
        raise UnreadableCallError(f"wanted calls, found {text[:80]!r}: {error}"[:300]) from None


def _read_call(node: ast.expr) -> CalledFunction:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        raise UnreadableCallError("wanted a call")
    names = [keyword.arg for keyword in node.keywords]
    if node.args or None in names or len(set(names)) < len(names):
        raise UnreadableCallError("wanted arguments that have a name, each once")
    arguments = {str(keyword.arg): _read_value(keyword.value) for keyword in node.keywords}
    return CalledFunction(ast.unparse(node.func), arguments)


def _read_value(node: ast.expr) -> Any:
    """A value; a name, or something to compute, as it is written."""
    match node:
        case ast.Constant(value=value):
            return "..." if value is ... else value
        case ast.List(elts=items):
            return [_read_value(one) for one in items]
        case ast.Tuple(elts=items):
            return tuple(_read_value(one) for one in items)
        case ast.Dict(keys=keys, values=values) if all(key is not None for key in keys):
            return {_read_value(key): _read_value(value) for key, value in zip(keys, values, strict=True) if key}
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=int() | float() as number)):
            return -number if isinstance(sign, ast.USub) else number
        case ast.Name(id=name):
            return name
        case ast.Call(keywords=[_, *_]):
            inner = _read_call(node)
            return {inner.name: dict(inner.arguments)}
        case ast.BinOp():
            number = _compute(node)
            return ast.unparse(node) if number is None else number
        case ast.Call() | ast.Subscript():
            return ast.unparse(node)
    raise UnreadableCallError(f"wanted a value, found {type(node).__name__}")


_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: lambda one, other: one + other,
    ast.Sub: lambda one, other: one - other,
    ast.Mult: lambda one, other: one * other,
    ast.Div: lambda one, other: one / other,
    ast.FloorDiv: lambda one, other: one // other,
    ast.Mod: lambda one, other: one % other,
    ast.Pow: lambda one, other: math.pow(one, other) if abs(other) > 64 else one**other,
}


def _compute(node: ast.expr) -> Any:
    """What a sum and the like of numbers comes to; None where it is none. Raises ArithmeticError."""
    if isinstance(node, ast.BinOp):
        left, right = _compute(node.left), _compute(node.right)
        operator = _OPERATORS.get(type(node.op))
        if left is None or right is None or operator is None or max(abs(left), abs(right)) > 2**128:
            return None
        return operator(left, right)
    value = _read_value(node) if isinstance(node, ast.Constant | ast.UnaryOp) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_CALLED: Final = re.compile(r"(?:new\s{1,9})?([A-Za-z_$][\w$.]{0,200})\s{0,9}\(")
_ASSIGNED: Final = re.compile(r"([A-Za-z_$][\w$]{0,200})\s{0,9}=(?![=>])")


def _read_other(text: str, language: str) -> Iterator[CalledFunction]:
    for part in _split(text, language):
        whole = part.strip().removesuffix(";").rstrip()
        called = _CALLED.match(whole)
        if not called or not whole.endswith(")"):
            raise UnreadableCallError(f"wanted calls, found {part[:80]!r}")
        arguments: dict[str, Any] = {}
        for told in map(str.strip, _split(whole[called.end() : -1], language)):
            named = _ASSIGNED.match(told)
            if not named or named[1] in arguments:
                raise UnreadableCallError(f"wanted arguments that have a name, each once, found {told[:80]!r}")
            arguments[named[1]] = _unquote(told[named.end() :].strip())
        yield CalledFunction(called[1], arguments)


def _split(text: str, language: str) -> list[str]:
    """The parts between commas that stand in no bracket and no quotes.

    Raises:
        UnreadableCallError: a bracket or a quote is left open, or brackets lie too deep within each other.
    """
    parts, waiting, quote, start, place = list[str](), list[str](), "", 0, 0
    while place < len(text):
        sign = text[place]
        if quote:
            place += sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "\"'" or (sign == "`" and language == JAVASCRIPT):
            quote = sign
        elif sign in _CLOSING:
            waiting.append(_CLOSING[sign])
        elif sign == "<" and language == JAVA and (text[place - 1 : place].isalnum() or waiting[-1:] == [">"]):
            waiting.append(">")
        elif waiting and sign == waiting[-1]:
            waiting.pop()
        elif sign in ")]}":
            raise UnreadableCallError("a bracket closes nothing")
        elif sign == "," and not waiting:
            parts.append(text[start:place])
            start = place + 1
        if len(waiting) > MOST_LEVELS:
            raise UnreadableCallError(f"wanted at most {MOST_LEVELS} brackets within each other, found more")
        place += 1
    if waiting or quote:
        raise UnreadableCallError("a bracket or a quote is left open")
    return [*parts, text[start:]] if text[start:].strip() or parts else []


def _unquote(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`"
    return text[1:-1] if is_quoted else text


# what is written in Java and JavaScript

_WHOLE: Final = re.compile(r"-?\d{1,40}")
_DECIMAL: Final = re.compile(r"-?\d{1,40}(?:\.\d{1,40})?")
_SCIENTIFIC: Final = re.compile(r"-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,10})?")
_AS_LIST: Final = re.compile(r"new\s{1,9}ArrayList<\w{0,99}>\s{0,9}\(\s{0,9}(?:Arrays\.asList|List\.of)\s{0,9}\(")
_NEW_LIST: Final = re.compile(r"new\s{1,9}ArrayList<\w{0,99}>\s{0,9}\(\s{0,9}\)")
_NEW_ARRAY: Final = re.compile(r"new\s{1,9}\w{1,99}\[\]\s{0,9}\{")
_NEW_MAP: Final = re.compile(r"new\s{1,9}HashMap<[^<>()]{0,200}>\s{0,9}\(\s{0,9}\)")
_PUT: Final = re.compile(r"\bput\s{0,9}\(")
_ADD: Final = re.compile(r"\badd\s{0,9}\(")


def read_java(text: str, kind: str, inner: str = "") -> Any:
    """A value of that kind as Java writes it; as it stands where it is none, for it may be a name.

    Args:
        inner: what a collection holds; "" where nobody says.
    """
    if kind in {"byte", "short", "integer"}:
        return int(text) if _WHOLE.fullmatch(text) else text
    if kind == "long":
        return int(text[:-1]) if text[-1:] in {"l", "L"} and _WHOLE.fullmatch(text[:-1]) else text
    if kind == "float":
        return float(text[:-1]) if text[-1:] in {"f", "F"} and _SCIENTIFIC.fullmatch(text[:-1]) else text
    if kind == "double":
        return float(text) if _SCIENTIFIC.fullmatch(text) else text
    if kind == "boolean":
        return text == "true" if text in {"true", "false"} else text
    try:
        if kind in {"Array", "ArrayList"}:
            items = _list_array(text) if kind == "Array" else _list_added(text)
            return text if items is None else [_read_java_item(one, inner) for one in items]
        if kind == "HashMap":
            return _read_map(text)
    except UnreadableCallError:
        return text
    return text


def _list_array(text: str) -> list[str] | None:
    found = _NEW_ARRAY.search(text)
    return None if not found else [one.strip() for one in _split(_until_closed(text, found.end(), "}"), JAVA)]


def _list_added(text: str) -> list[str] | None:
    if found := _AS_LIST.search(text):
        return [one.strip() for one in _split(_until_closed(text, found.end(), ")"), JAVA)]
    if found := _NEW_LIST.search(text):
        return [_until_closed(text, one.end(), ")").strip() for one in _ADD.finditer(text, found.end())]
    return None


def _read_map(text: str) -> Any:
    found = _NEW_MAP.search(text)
    if not found:
        return text
    held = {}
    for one in _PUT.finditer(text, found.end()):
        pair = _split(_until_closed(text, one.end(), ")"), JAVA)
        if len(pair) == 2:
            held[_unquote(pair[0].strip())] = _read_java_item(pair[1].strip(), "")
    return held


def _until_closed(text: str, start: int, closing: str) -> str:
    """What stands there until that bracket closes."""
    waiting, quote, place = [closing], "", start
    while place < len(text):
        sign = text[place]
        if quote:
            place += sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in _CLOSING:
            waiting.append(_CLOSING[sign])
        elif sign == waiting[-1]:
            waiting.pop()
            if not waiting:
                return text[start:place]
        place += 1
    raise UnreadableCallError("a bracket is left open")


def _read_java_item(text: str, kind: str) -> Any:
    if kind in {"String", "char"} or (not kind and text[:1] == '"'):
        return _unquote(text)
    if kind and kind != "any":
        return read_java(text, kind)
    if text in {"true", "false"}:
        return text == "true"
    if text[-1:] in {"l", "L"} and _WHOLE.fullmatch(text[:-1]):
        return int(text[:-1])
    if text[-1:] in {"f", "F"} and _SCIENTIFIC.fullmatch(text[:-1]):
        return float(text[:-1])
    return _unquote(text) if kind == "any" and text[:1] == '"' else _read_number(text)


def _read_number(text: str) -> Any:
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _SCIENTIFIC.fullmatch(text) else text


def read_javascript(text: str, kind: str, inner: str = "") -> Any:
    """As `read_java`, of JavaScript."""
    if kind == "String":
        return _unquote(text)
    if kind == "integer":
        return int(text) if _WHOLE.fullmatch(text) else text
    if kind == "float":
        return float(text) if _DECIMAL.fullmatch(text) else text
    if kind == "Bigint":
        return int(text[:-1]) if text.endswith("n") and _WHOLE.fullmatch(text[:-1]) else text
    if kind == "Boolean":
        return text == "true" if text in {"true", "false"} else text
    try:
        if kind == "array":
            return _read_script_array(text.strip(), inner)
        if kind == "dict":
            return _read_script_object(text.strip())
    except UnreadableCallError:
        return text
    return text


_SCRIPT_ARRAY: Final = re.compile(r"\[|new\s{1,9}Array\s{0,9}\(")


def _read_script_array(text: str, inner: str) -> Any:
    found = _SCRIPT_ARRAY.match(text)
    if not found:
        return text
    items = [
        one.strip() for one in _split(_until_closed(text, found.end(), "]" if text[0] == "[" else ")"), JAVASCRIPT)
    ]
    if any(one.startswith("[") for one in items):
        return [_read_script_item(one) for one in items]
    return [read_javascript(one, inner) if inner else _read_script_item(one) for one in items]


def _read_script_object(text: str) -> Any:
    if not text.startswith("{"):
        return text
    held = {}
    for pair in _split(_until_closed(text, 1, "}"), JAVASCRIPT):
        key, colon, value = pair.partition(":")
        if colon:
            held[_unquote(key.strip())] = _read_script_item(value.strip())
    return held


def _read_script_item(text: str) -> Any:
    if text in {"true", "false"}:
        return text == "true"
    if text.startswith("["):
        return _read_script_array(text, "")
    if text.startswith("{"):
        return _read_script_object(text)
    return _unquote(text) if text[:1] in {'"', "'", "`"} else _read_number(text)


# comparing


def standardize(text: str) -> str:
    """Without case, blanks and the marks that writings of one thing differ by."""
    return text.translate(_IGNORED).lower()


def match_calls(
    calls: Sequence[CalledFunction],
    functions: Sequence[Mapping[str, Any]],
    wanted: Sequence[Mapping[str, Mapping[str, Sequence[Any]]]],
    language: str = PYTHON,
) -> str:
    """What is wrong with calls, without saying what is right; "" where each wanted one is there and no other.

    Args:
        functions: each with name and parameters, whose properties have a type.
        wanted: of each call, its name -> parameter -> the values that it may have.
    """
    if len(calls) != len(wanted):
        return "calls are missing" if len(calls) < len(wanted) else "there are more calls than are right"
    known = {str(one["name"]): one for one in functions}
    whys: list[list[str]] = []
    for told in wanted:
        ((name, values),) = told.items()
        whys.append([match_call(call, known.get(name, {"name": name}), values, language) for call in calls])
    taken: dict[int, int] = {}
    for number, row in enumerate(whys):
        if not _pair(number, whys, taken, set()):
            return row[0] if len(row) == 1 else "a call is not as it should be"
    return ""


def _pair(number: int, whys: Sequence[Sequence[str]], taken: dict[int, int], seen: set[int]) -> bool:
    """Find a call for that wanted one, moving others to other calls where they fit too."""
    for place, why in enumerate(whys[number]):
        if not why and place not in seen:
            seen.add(place)
            if place not in taken or _pair(taken[place], whys, taken, seen):
                taken[place] = number
                return True
    return False


def match_call(
    call: CalledFunction, function: Mapping[str, Any], values: Mapping[str, Sequence[Any]], language: str = PYTHON
) -> str:
    """What is wrong with a call; "" where nothing is."""
    described = function.get("parameters") or {}
    properties = described.get("properties") or {}
    if call.name != function["name"]:
        return f"another function is called: {call.name[:80]}"
    if missing := [name for name in described.get("required") or () if name not in call.arguments]:
        return f"{missing[0]} is missing"
    for name, value in call.arguments.items():
        if name not in properties or name not in values:
            return f"{name[:80]} does not belong to it"
        if not _match_argument(value, properties[name], values[name], language):
            return f"{name} is another"
    if missing := [name for name, told in values.items() if name not in call.arguments and LEFT_OUT not in told]:
        return "an argument is missing"
    return ""


def _match_argument(value: Any, described: Mapping[str, Any], values: Sequence[Any], language: str) -> bool:
    kind, kinds = str(described.get("type")), KINDS[language]
    inner = str((described.get("items") or {}).get("type")) if kind in _HOLDS_OTHERS else ""
    expected: Any = kinds.get(kind)
    held: Any = kinds.get(inner)
    if expected is None:
        return False
    if language != PYTHON:
        if not isinstance(value, str):
            return False
        value = (read_java if language == JAVA else read_javascript)(value, kind, inner)
    elif kind == "tuple" and isinstance(value, tuple):
        value = list(value)
    elif kind == "float" and type(value) is int and is_number(value):
        value = float(value)
    written = _find_type(values)
    if type(value) is expected and (held is None or _holds(value, values, held)):
        is_name = written is not None and written is not expected
    elif held is not None and type(value) is expected:
        return False
    elif written is not None and type(value) is written:
        is_name = True
    else:
        return False
    if is_name:
        return value in values
    if expected is dict:
        return _match_dict(value, values)
    if expected is list and held is dict:
        return _match_dicts(value, values)
    if expected is str:
        return standardize(value) in [standardize(one) for one in values if isinstance(one, str)]
    if expected is list:
        return _standardize_items(value) in [_standardize_items(one) for one in values if isinstance(one, list | str)]
    return value in values


def _find_type(values: Sequence[Any]) -> type | None:
    """Of the first value that there is: a text where another kind is described is the name of something."""
    return next((type(one) for one in values if one != LEFT_OUT), None)


def _holds(items: Sequence[Any], values: Sequence[Any], held: type) -> bool:
    for one in values:
        if not isinstance(one, list):
            return True
        written = _find_type(one)
        if all(type(item) is held or (written is not None and type(item) is written) for item in items):
            return True
    return False


def _standardize_items(items: Any) -> list[Any]:
    return [standardize(item) if isinstance(item, str) else item for item in items]


def _match_dict(value: Mapping[Any, Any], values: Sequence[Any]) -> bool:
    return any(_match_entries(value, one) for one in values if isinstance(one, Mapping))


def _match_entries(value: Any, wanted: Mapping[str, Any]) -> bool:
    if not isinstance(value, Mapping) or not value.keys() <= wanted.keys():
        return False
    may_be = {key: [told] if isinstance(told, str) else told for key, told in wanted.items()}
    for key, one in value.items():
        told = standardize(one) if isinstance(one, str) else one
        if not isinstance(may_be[key], list) or told not in _standardize_items(may_be[key]):
            return False
    return all(key in value or (isinstance(told, list) and LEFT_OUT in told) for key, told in may_be.items())


def _match_dicts(value: Sequence[Any], values: Sequence[Any]) -> bool:
    for one in values:
        wanted = [] if one == LEFT_OUT else one
        if isinstance(wanted, list) and len(wanted) == len(value):
            pairs = zip(value, wanted, strict=True)
            if all(isinstance(told, Mapping) and _match_entries(item, told) for item, told in pairs):
                return True
    return False


# turns, as data


def match_turns(played: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with turns in which calls changed something; "" where nothing is.

    Args:
        played, wanted: of each turn, the results of its calls, texts, and the state behind it, any JSON. A turn that
            wants no calls is not looked at. What was found out in an earlier turn need not be asked again.
    """
    if len(played) != len(wanted):
        return f"wanted {len(wanted)} turns, found {len(played)}"
    told: list[str] = []
    for number, (turn, right) in enumerate(zip(played, wanted, strict=True), start=1):
        told += turn["results"]
        if not right["results"]:
            continue
        if not turn["results"]:
            return f"turn {number} makes no call"
        if turn["state"] != right["state"]:
            return f"turn {number} leaves things otherwise than they should be"
        left = list(told)
        for result in right["results"]:
            if result not in left:
                return f"turn {number} did not find out all that it should"
            left.remove(result)
    return ""


def match_told(answer: str, wanted: Sequence[str]) -> bool:
    """Whether one of these stands in an answer as words of their own, without case and some marks."""
    kept = strip_marks(answer)
    return any(has_word(kept, strip_marks(one)) for one in wanted)


def strip_marks(text: str) -> str:
    """As words are compared: without case, and marks that writings of one thing differ by."""
    return text.translate(_UNMARKED).lower()


def read_native_call(name: str, arguments: str) -> CalledFunction:
    """A call as the chat API has it.

    Raises:
        UnreadableCallError: its arguments are no JSON object.
    """
    try:
        told = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise UnreadableCallError(f"wanted a JSON object of arguments, found {arguments[:80]!r}")
    return CalledFunction(name, told)
