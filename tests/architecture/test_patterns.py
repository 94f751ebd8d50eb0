"""No text a stranger wrote makes a pattern of ours, or one of a library we run on texts, look at it for long."""

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from apps.console.rendering import render_ansi, render_markdown, visible
from apps.console.rendering.rich import MOST_MARKDOWN
from apps.conversations.redaction import Redactor, secret_patterns
from tests.architecture.hostile import Hostile, find_hostile
from tests.architecture.trees import read_tree

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
TREES = ("apps", "tentalis", "gpu_workers")
CALLS = {"compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
VALIDATORS = {"RegexValidator", "re_path"}
MAY_HOLD_A_PATTERN = re.compile(r"\bre\.|RegexValidator|re_path")
STEPS = ((1_000, 0.25, 6), (16_000, 0.25, 2), (64_000, 1.0, 0))
"""(characters, CPU seconds of one search at most, how many of the slowest texts go on to the next size). At 16,000 a
quadratic pattern takes half a second and more, one with a bound 0.03 s."""
MOST_TEXT_CPU_S = 4.0
"""Of everything that is done with a text of 64,000 characters; what is quadratic takes a minute."""
OF_THE_MOMENT = {
    "tentalis/core/conversations/turns.py": "words of the message itself, escaped",
    "tentalis/core/desk.py": "the desk's own templates, escaped, with [a-z]+ and [0-9]+ between",
    "tentalis/core/gui/tasks.py": "the shop's own templates, escaped, with at most 60 characters at each place",
}
"""Where the source does not tell the pattern, and what it is."""


class Use(NamedTuple):
    """One pattern, where it stands and how it is looked for; None where the source does not tell it."""

    place: str
    methods: Sequence[str]
    pattern: "re.Pattern[str] | None"


@cache
def find_uses() -> Sequence[Use]:
    return list(_find_uses())


@cache
def read_sources() -> Mapping[Path, str]:
    return {path: path.read_text() for tree in TREES for path in sorted((ROOT / tree).rglob("*.py"))}


def _find_uses() -> Iterator[Use]:
    sources = {path: text for path, text in read_sources().items() if MAY_HOLD_A_PATTERN.search(text)}
    together = "\n".join(sources.values())
    for path, text in sources.items():
        parsed = read_tree(text)
        names = {
            id(node.value): ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            for node in ast.walk(parsed)
            if isinstance(node, ast.Assign | ast.AnnAssign)
        }
        for node in ast.walk(parsed):
            if isinstance(node, ast.Call) and (method := _read_method(node.func)):
                methods = [method] if method != "compile" else _find_methods(names.get(id(node), ""), together)
                place = path.relative_to(ROOT)
                name = ".".join(place.with_suffix("").parts).removesuffix(".__init__")
                yield Use(f"{place}:{node.lineno}", methods, _read_pattern(node, name))


def _read_method(called: ast.expr) -> str:
    if isinstance(called, ast.Name):
        return "search" if called.id in VALIDATORS else ""
    is_re = isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "re"
    return called.attr if is_re and isinstance(called, ast.Attribute) and called.attr in CALLS else ""


def _find_methods(name: str, together: str) -> Sequence[str]:
    """How a pattern of that name is used anywhere; every way where nobody says."""
    found = set(re.findall(rf"\b{name}\.(\w+)\(", together)) & CALLS if name.isidentifier() else set()
    return sorted(found) or ["search", "match", "fullmatch"]


def _read_pattern(node: ast.Call, module_name: str) -> "re.Pattern[str] | None":
    """The pattern with the module's own names put in, and a word where a text of the moment stands."""
    place = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(_read_method(node.func), 2)
    flags = [word.value for word in node.keywords if word.arg == "flags"] + node.args[place : place + 1]
    is_validator = isinstance(node.func, ast.Name)
    module = vars(importlib.import_module(module_name))
    try:
        return re.compile(
            _read_words(node.args[0], module), _value(flags[0], module) if flags and not is_validator else 0
        )
    except (NameError, AttributeError, TypeError, re.error):
        return None


def _read_words(node: ast.expr, module: Mapping[str, Any]) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_read_words(part, module) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _read_words(node.left, module) + _read_words(node.right, module)
    if isinstance(node, ast.FormattedValue):
        try:
            return str(_value(node.value, module))
        except NameError:
            return "words"
    return str(_value(node, module))


def _value(node: ast.expr, module: Mapping[str, Any]) -> Any:
    return eval(ast.unparse(node), dict(module))


def find_slow(
    look: Callable[[str], object], hostile: Sequence[Hostile], steps: Sequence[tuple[int, float, int]]
) -> str:
    """What makes a search take longer than a linear one would; "" where nothing does.

    Counted are the process's own seconds, and where they are too many the least of three: other work beside it does
    not make a pattern slow.
    """
    for chars, most_s, go_on in steps:
        times = dict[Hostile, float]()
        for one in hostile:
            text = one.grow(chars)
            times[one] = _measure(look, text)
            if times[one] > most_s and (again := min(_measure(look, text), _measure(look, text))) > most_s:
                return f"{again:.2f} s at {chars} characters of {one!r:.120}"
        hostile = sorted(times, key=lambda one: times[one])[-go_on:] if go_on else ()
    return ""


def _measure(look: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    look(text)
    return time.process_time() - started


def look_with(pattern: "re.Pattern[str]", methods: Sequence[str]) -> Callable[[str], object]:
    def look(text: str) -> None:
        for method in methods:
            if method in {"match", "fullmatch"}:
                getattr(pattern, method)(text)
            else:
                for _ in pattern.finditer(text):
                    pass

    return look


def test_no_pattern_of_the_tree_looks_at_a_long_text_for_long() -> None:
    uses = find_uses()
    assert len(uses) > 60
    slow = [
        f"{use.place}: {found}"
        for use in uses
        if use.pattern is not None
        and (found := find_slow(look_with(use.pattern, use.methods), find_hostile(use.pattern), STEPS))
    ]
    assert slow == []


def test_every_pattern_of_the_tree_can_be_read_off_its_source() -> None:
    """So that a new one cannot pass by being hidden."""
    unread = {use.place.partition(":")[0] for use in find_uses() if use.pattern is None}
    assert unread == set(OF_THE_MOMENT)


def test_patterns_come_from_re_by_its_name_and_from_nothing_else() -> None:
    odd = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, text in read_sources().items()
        if re.search(r"^\s*(?:import|from)\s.*\b(?:re|regex)\b", text, re.MULTILINE)
        for node in ast.walk(read_tree(text))
        if (isinstance(node, ast.ImportFrom) and node.module in {"re", "regex"})
        or (
            isinstance(node, ast.Import)
            and any(name.name == "regex" or (name.name == "re" and name.asname) for name in node.names)
        )
    ]
    assert odd == []


@pytest.mark.parametrize(
    ("source", "chars", "most_s"),
    [
        (r"!?\[[^\]\n]*\]\(", 16_000, 0.25),
        (r"(?:pass|secret)\s*[:=]?\s*(?=[^\s]*[\d_-])[^\s]{8,}", 8_000, 0.05),
        (r"\s*(?:[-*]\s+)?[a-z]+(?:,\s*[a-z ]+?)?\s*:", 500, 0.05),
        (r"(a+)+b", 20, 0.01),
    ],
)
def test_a_new_pattern_without_a_bound_is_found(source: str, chars: int, most_s: float) -> None:
    pattern = re.compile(source)
    assert find_slow(look_with(pattern, ["search"]), find_hostile(pattern), ((chars, most_s, 0),))


def library_hostile() -> list[Hostile]:
    """What is hard on detect-secrets' patterns and on our own of the redactor, and on anybody's."""
    own = [use.pattern for use in find_uses() if use.place.startswith("apps/conversations/redaction.py")]
    known = [re.compile(pattern.pattern) for pattern in secret_patterns()]
    return list(dict.fromkeys(one for pattern in [*own, *known] for one in find_hostile(pattern)))


def test_what_the_redactor_looks_for_is_found_or_not_in_the_time_the_text_is_long() -> None:
    steps = ((1_000, 0.25, 8), (16_000, 1.0, 3), (64_000, MOST_TEXT_CPU_S, 0))
    assert find_slow(lambda text: Redactor(["Ada Byron"]).find(text), library_hostile(), steps) == ""


@pytest.mark.parametrize("show", [visible, render_ansi], ids=["visible", "ansi"])
def test_a_text_is_shown_in_the_time_it_is_long(show: Callable[[str], object]) -> None:
    assert find_slow(show, find_hostile(), ((1_000, 0.25, 8), (64_000, MOST_TEXT_CPU_S, 0))) == ""


def test_the_longest_text_that_is_read_as_markdown_is_shown_soon() -> None:
    assert find_slow(render_markdown, find_hostile(), ((1_000, 0.25, 8), (MOST_MARKDOWN, MOST_TEXT_CPU_S, 0))) == ""
