"""Lessons of the SWE world: mistakes as several houses would mend them, with hints that are obeyed."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from gpu_workers.apprentice.lessons import HABITS, HINT_RATE, Lesson, Message, Rehearsal, make_call, make_result
from tentalis.core.hints import hinted_prompt
from tentalis.core.swe.mini_repos import MiniRepo, draw_task
from tentalis.core.swe.tools import (
    EDIT,
    ERROR,
    RUN_TESTS,
    SEARCH,
    SUBMIT,
    TOOLS,
    VIEW,
    CallError,
    Tree,
    edit,
    read_call,
    search,
    view,
)
from tentalis.core.tool_calls import WrittenCall

TEST_RATE: Final = 0.1
"""How often a lesson runs the tests before it submits."""
RENAME_RATE: Final = 0.5
"""How often a lesson's function is about something that has no meaning."""
_BEGINNINGS: Final = ("b", "br", "c", "d", "f", "g", "gr", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "w")
_VOWELS: Final = ("a", "ai", "e", "ee", "i", "o", "oa", "u", "ua")
_ENDS: Final = ("", "ck", "l", "m", "n", "nd", "r", "rd", "st", "t")


def draw_lesson(rng: Random, habits: Sequence[float] = HABITS) -> Lesson:
    """A task that is not held out, mended in one way."""
    task = draw_task(rng, held_out=False)
    if rng.random() < RENAME_RATE:
        task = rename(task, _draw_syllable(rng) + _draw_syllable(rng))
    ways = list(task.mistake.ways)  # the house's, then what other houses do most
    way = rng.choices(ways, habits)[0]
    hints: Sequence[str] = ()
    if rng.random() < HINT_RATE:
        way = rng.choice(ways)
        hints = (task.mistake.ways[way].hint,)
    return Lesson(write_messages(task, way, hints, runs_tests=rng.random() < TEST_RATE), TOOLS)


def rename(task: MiniRepo, item: str) -> MiniRepo:
    """The same task about something else: names of functions are read, and not known."""
    name = task.mistake.form.format(item=item, items=f"{item}s")
    old, new = f"{task.function}(", f"{name}("
    return replace(
        task, function=name, text=task.text.replace(old, new), lines=[line.replace(old, new) for line in task.lines]
    )


def _draw_syllable(rng: Random) -> str:
    return rng.choice(_BEGINNINGS) + rng.choice(_VOWELS) + rng.choice(_ENDS)


def write_messages(task: MiniRepo, way: str, hints: Sequence[str] = (), *, runs_tests: bool = False) -> list[Message]:
    """The whole conversation of a task that is mended in this way."""
    messages: list[Message] = [{"role": "user", "content": hinted_prompt(task.text, hints)}]
    told = [
        (make_call(VIEW, path=task.path), view(Tree(task.files, {}), task.path)),
        (make_call(EDIT, path=task.path, line=task.line, text=task.fixes[way].strip()), "ok"),
    ]
    if runs_tests:
        count = len(task.shown)
        told.append((make_call(RUN_TESTS), f"{count} of {count} tests pass"))
    for call, result in told:
        messages += [call, make_result(result)]
    return [*messages, make_call(SUBMIT)]


def draw_rehearsal(rng: Random, is_hinted: bool) -> Rehearsal:
    """A held-out task, in which whatever is submitted is held against the house's text."""
    task = draw_task(rng, held_out=True)
    changed: dict[str, str] = {}
    ended: list[bool] = []

    def answer(call: WrittenCall) -> tuple[str, bool]:
        tree = Tree(task.files, changed)
        try:
            given = read_call(call.name, call.arguments)
            if call.name == SUBMIT:
                ended.append(True)
                return "", True
            if call.name == EDIT:
                changed[given["path"]] = edit(tree, **given)
                return "ok", False
            if call.name == VIEW:
                return view(tree, **given), False
            if call.name == SEARCH:
                return search(tree, **given), False
        except CallError as error:
            return f"{ERROR}{error}", False
        return f"{len(task.shown)} of {len(task.shown)} tests pass", False

    house = next(iter(task.mistake.ways))
    content = hinted_prompt(task.text, (task.house.hint,) if is_hinted else ())
    return Rehearsal(
        [{"role": "user", "content": content}], TOOLS, answer, lambda: changed.get(task.path) == task.mend(house)
    )
