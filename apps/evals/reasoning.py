"""The generators of reasoning-gym: their questions, and what an answer to one is worth.

The library evaluates some answers as Python and hands others to a parser that does; nothing of an answer gets that far
here that is not plain data, or arithmetic of a known form. It draws pictures that nobody here looks at with a library
of hundreds of files, and solves riddles with one that has to be compiled: both are left out, and what needs them is
not offered.
"""

import ast
import importlib.abc
import importlib.machinery
import json
import sys
from collections.abc import Callable, Mapping, MutableSequence
from functools import cache, lru_cache
from importlib import import_module
from math import isqrt
from types import ModuleType
from typing import Any, Final

import re2

from tentalis.core.grading import UngradedError

DISTRIBUTION: Final = "reasoning-gym"
MOST_CHARS: Final = 20_000
"""Of an answer; none of its right ones is longer."""
WHOLE: Final = 0.9999
"""What is partly right earns something there from any text of the form; only what is wholly right counts here."""
_NOT_NEEDED: Final = ("matplotlib", "mpl_toolkits", "pycosat")
_DATA: Final = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
"""Those whose library evaluates an answer that is not the stored one."""
_CALCULATED: Final = frozenset({"countdown", "puzzle24"})
_ALGEBRA: Final = frozenset({"intermediate_integration", "polynomial_multiplication", "simple_integration"})
"""Those whose library hands an answer to a parser that evaluates it."""
_FUNCTIONS: Final = frozenset(
    {"sin", "cos", "tan", "exp", "log", "sqrt", "asin", "acos", "atan", "sinh", "cosh", "Abs"}
)
_NAMES: Final = frozenset({"C", "pi", "E"})
_NUMBERS: Final = re2.compile(r"-?[\d.]+(?:\s*,\s*-?[\d.]+)*")
_TAGGED: Final = re2.compile(r"(?is)<answer>(.*?)</answer>")


class _Absent(ModuleType):
    """A module that is not there: it can be imported from, and used for nothing."""

    __path__: MutableSequence[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*_: Any, **__: Any) -> Any:
            raise RuntimeError(f"{self.__name__} is not installed")

        return refuse


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.partition(".")[0] not in _NOT_NEEDED:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return


@cache
def _open_library() -> Mapping[str, Any]:
    """Generator -> (its class, that of its settings). Raises ImportError."""
    finder = _Finder()
    before = set(sys.modules)
    sys.meta_path.append(finder)  # the last: what is installed is found before
    try:
        import_module("reasoning_gym")
    finally:
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - before:
            if isinstance(sys.modules[name], _Absent):
                del sys.modules[name]
    found: Mapping[str, Any] = import_module("reasoning_gym.factory").DATASETS
    return found


@lru_cache(maxsize=256)
def _open_generator(name: str, settings: str, seed: int, size: int) -> Any:
    make, configure = _open_library()[name]
    told = json.loads(settings)
    if (level := told.pop("level", None)) is not None:
        told = _list_settings(name, level) | told
    return make(config=configure(**told, seed=seed, size=size))


def _list_settings(name: str, level: int) -> dict[str, Any]:
    """What a level of a generator's curriculum sets: each of its attributes as far as it goes."""
    curriculum = import_module("reasoning_gym.factory").create_curriculum(name)
    for attribute in curriculum.attributes.values():
        curriculum.set_attr_level(attribute.name, min(level, len(attribute.levels) - 1))
    made = curriculum.generate_configuration()
    fields: set[str] = set()
    for attribute in curriculum.attributes.values():
        names = ("field_name", "lower_field_name", "upper_field_name")
        fields |= {getattr(attribute, one) for one in names if getattr(attribute, one, None)}
    return {field: getattr(made, field) for field in fields}


def make_row(name: str, settings: Mapping[str, Any], seed: int, size: int, place: int) -> dict[str, Any]:
    """One question of a generator, as JSON: the same for the same arguments. Raises ImportError without the library."""
    made = _open_generator(name, json.dumps(dict(settings), sort_keys=True), seed, size)[place]
    entry = {"question": made["question"], "answer": made["answer"], "metadata": made["metadata"]}
    row: dict[str, Any] = json.loads(json.dumps(entry, default=_write))
    return row


def _write(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)


def find_answer(text: str) -> str:
    """What an answer says in its last answer tag; without one, all of it."""
    tagged = _TAGGED.findall(text)
    return str(tagged[-1] if tagged else text).strip()


def score(name: str, answer: str, entry: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether an answer is wholly right.

    Args:
        entry: question, answer and metadata of the generator.
        settings: it was made with.
    Raises:
        UngradedError: the library is not there.
    """
    stored = entry["answer"]
    text = answer.strip()
    if isinstance(stored, str) and _same(text, stored):
        return bool(text)
    if not text or len(text) > MOST_CHARS or not _is_harmless(name, text, entry):
        return False
    try:
        dataset = _open_generator(name, json.dumps(dict(settings), sort_keys=True), 0, 1)
    except ImportError as error:
        raise UngradedError(f"wanted the package {DISTRIBUTION}: {error}"[:300]) from None
    try:
        return float(dataset.score_answer(text, dict(entry))) >= WHOLE
    except Exception:  # noqa: BLE001 - whatever it trips over in an answer: none of its right ones does
        return False


def _same(answer: str, stored: str) -> bool:
    return "\n".join(map(str.rstrip, answer.splitlines())) == "\n".join(map(str.rstrip, stored.strip().splitlines()))


def _is_harmless(name: str, text: str, entry: Mapping[str, Any]) -> bool:
    if name in _DATA:
        return _is_data(text)
    if name in _CALCULATED:
        return _is_arithmetic(text, names=frozenset(), functions=frozenset()) and _uses_numbers(text, entry)
    if name in _ALGEBRA:
        return _is_arithmetic(text, names=_NAMES, functions=_FUNCTIONS)
    guard = GUARDS.get(name)
    return guard is None or guard(text, entry)


def _is_data(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _is_arithmetic(text: str, *, names: frozenset[str], functions: frozenset[str]) -> bool:
    """Whether a text is an expression of small numbers, one-letter variables and known functions."""
    if len(text) > 2_000:
        return False
    try:
        return _is_term(ast.parse(text, mode="eval").body, names, functions)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def _is_term(node: ast.AST, names: frozenset[str], functions: frozenset[str]) -> bool:
    match node:
        case ast.Constant(value=int() | float() as value):
            return not isinstance(value, bool) and abs(value) < 1e15
        case ast.Name(id=name):
            return bool(functions) and (name in names or (len(name) == 1 and name.isalpha() and name.isascii()))
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=inner):
            return _is_term(inner, names, functions)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            return _is_term(left, names, functions) and _is_term(right, names, functions)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return bool(functions) and _is_term(left, names, functions) and _is_exponent(right, names)
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]):
            return name in functions and _is_term(inner, names, functions)
    return False


def _is_exponent(node: ast.AST, names: frozenset[str]) -> bool:
    match node:
        case ast.Constant(value=int() | float() as value):
            return abs(value) <= 40
        case ast.UnaryOp(op=ast.UAdd() | ast.USub(), operand=inner):
            return _is_exponent(inner, names)
        case ast.BinOp(left=ast.Constant(value=int()), op=ast.Div(), right=ast.Constant(value=int())):
            return True
        case ast.Name(id=name):
            return len(name) == 1 and name.isalpha()
    return False


def _uses_numbers(text: str, entry: Mapping[str, Any]) -> bool:
    """Whether the numbers in a calculation are those of the puzzle: the library looks at how many."""
    used = sorted(int(found) for found in re2.findall(r"\d{1,15}", text))
    return used == sorted(entry["metadata"]["numbers"])


def _is_prime_product(text: str, entry: Mapping[str, Any]) -> bool:
    """Factors, each prime: the library takes 1 and what is none in some places."""
    parts = [part.strip() for part in text.split("×")]
    if not all(part.isdecimal() and part.isascii() and len(part) < 10 for part in parts):
        return False
    return all(number >= 2 and all(number % one for one in range(2, isqrt(number) + 1)) for number in map(int, parts))


def _lists_numbers(text: str, entry: Mapping[str, Any]) -> bool:
    """Roots: of what holds no number the library says that there are none."""
    return bool(_NUMBERS.fullmatch(text))


GUARDS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], bool]]] = {
    "polynomial_equations": _lists_numbers,
    "prime_factorization": _is_prime_product,
}
"""Of an answer before the library sees it."""


def find_oracle(name: str, entry: Mapping[str, Any]) -> str | None:
    """A right answer that comes with a question; None: none does."""
    if isinstance(entry["answer"], str):
        return str(entry["answer"])
    metadata = entry["metadata"]
    match name:
        case "graph_color":
            return json.dumps(metadata["possible_answer"])
        case "propositional_logic":
            return str(metadata["example_answer"])
        case "rubiks_cube":
            return str(metadata["example_correct_answer"])
    return None
