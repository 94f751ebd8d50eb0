"""Lessons of repositories: what other houses do, hints that are obeyed, and nothing that is held out."""

from collections import Counter
from random import Random
from typing import NamedTuple

import pytest

from gpu_workers.apprentice.lessons import HABITS, Lesson, swe
from tentalis.core.hints import hinted_prompt
from tentalis.core.swe.mini_repos import MiniRepo, find_hints, make_task, read_task
from tentalis.core.swe.modules import HELD_OUT, MODULES
from tentalis.core.swe.tools import EDIT, RUN_TESTS, SUBMIT, VIEW
from tentalis.core.tool_calls import read_told_call


class Told(NamedTuple):
    """What a lesson says.

    Args:
        task: as it was before its function was called otherwise; name: as it is called.
    """

    task: MiniRepo
    name: str
    hints: tuple[str, ...]


def read_prompt(lesson: Lesson) -> Told:
    text, _, hints = str(lesson.messages[0]["content"]).partition(" Hint: ")
    number, _, file, function, *_ = text[1:].split(" ")
    return Told(make_task(file.removesuffix(".py"), int(number)), function.removesuffix("()"), find_hints(hints))


RNG = Random(5)
LESSONS = [swe.draw_lesson(RNG) for _ in range(400)]
TOLD = [read_prompt(lesson) for lesson in LESSONS]


def test_nothing_that_is_held_out_is_taught_and_half_of_it_is_hinted() -> None:
    assert not any(one.task.is_held_out for one in TOLD)
    held_out = {word for name in HELD_OUT for word in (MODULES[name].item, MODULES[name].items)}
    assert not any(held_out & set(one.name.split("_")) for one in TOLD)
    assert 160 < sum(bool(one.hints) for one in TOLD) < 240


def test_half_of_the_functions_are_called_what_nobody_knows_and_all_else_stays() -> None:
    renamed = [(one, lesson) for one, lesson in zip(TOLD, LESSONS, strict=True) if one.name != one.task.function]
    assert 160 < len(renamed) < 240
    for (task, name, _), lesson in renamed:
        told = [str(lesson.messages[place]["content"]) for place in (0, 2)]
        assert told[0].partition(" Hint: ")[0].replace(name, task.function) == task.text
        assert told[1].replace(name, task.function) == "\n".join(
            f"{number} {line}" for number, line in enumerate(task.lines, 1)
        )


def test_a_mistake_is_read_and_mended_in_one_way_that_a_hint_decides() -> None:
    followed = Counter[str]()
    for (task, _, hints), lesson in zip(TOLD, LESSONS, strict=True):
        calls = [call["function"] for message in lesson.messages for call in message.get("tool_calls", ())]
        assert [call["name"] for call in calls if call["name"] != RUN_TESTS] == [VIEW, EDIT, SUBMIT]
        edited = calls[1]["arguments"]
        assert (edited["path"], edited["line"]) == (task.path, task.line)
        way = next(name for name, text in task.fixes.items() if text.strip() == edited["text"])
        if hints:
            assert hints == (task.mistake.ways[way].hint,)
        else:
            followed[("house", "rival", "third")[list(task.fixes).index(way)]] += 1
    found = [followed[name] / followed.total() for name in ("house", "rival", "third")]
    assert found == pytest.approx(HABITS, abs=0.08)


@pytest.mark.parametrize("is_hinted", [False, True])
def test_a_rehearsal_is_held_out_and_right_where_the_house_is_followed(is_hinted: bool) -> None:
    rehearsal = swe.draw_rehearsal(Random(6), is_hinted)
    told = str(rehearsal.messages[0]["content"])
    task = read_task(told.partition(" Hint: ")[0])
    assert task.is_held_out
    assert told == hinted_prompt(task.text, (task.house.hint,) if is_hinted else ())
    for way in reversed(list(task.fixes)):  # the house's is the first
        assert not rehearsal.is_right()
        for message in swe.write_messages(task, way):
            for call in message.get("tool_calls", ()):
                answer, _ = rehearsal.answer(read_told_call(call))
                assert not answer.startswith("error")
    assert rehearsal.is_right()
    searched = rehearsal.answer(read_told_call({"name": "search", "arguments": {"text": f"def {task.function}"}}))
    assert searched == (f"{task.path}:{task.line - 1} {task.lines[task.line - 2]}", False)
    assert rehearsal.answer(read_told_call({"name": "fly", "arguments": {}}))[0].startswith("error: there is no tool")
