"""Made-up tasks: many, each its own, with a fix that its words do not tell."""

from random import Random
from typing import Any

import pytest

from tentalis.core.hints import hinted_prompt
from tentalis.core.swe.leakage import LEAKS_FROM, measure_leak
from tentalis.core.swe.mini_repos import (
    MiniRepoError,
    draw_task,
    find_hints,
    is_held_out,
    list_hints,
    make_task,
    read_task,
)
from tentalis.core.swe.mistakes import MISTAKES
from tentalis.core.swe.modules import HELD_OUT, MODULES
from tentalis.core.swe.patches import apply_patch, parse_patch

DRAWN = [draw_task(Random(place), held_out=place % 2 == 0) for place in range(400)]


def run(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(source, names)
    return names


def evaluate(expression: str, names: dict[str, Any]) -> str:
    try:
        return repr(eval(expression, dict(names)))
    except Exception as error:
        return f"raised {type(error).__name__}"


def test_there_are_enough_of_them() -> None:
    assert len(MODULES) >= 12 + len(HELD_OUT)
    assert len(MISTAKES) >= 10
    found = {(task.template, task.mistake.name) for task in DRAWN}
    assert len({task.text for task in DRAWN}) >= 390
    assert len(found) > 150
    assert {len(task.mistake.ways) for task in DRAWN} == {3}


def test_what_is_held_out_is_so_by_what_its_module_is_made_from() -> None:
    held = {task.template for task in DRAWN[::2]}
    assert held == set(HELD_OUT)
    assert held.isdisjoint(task.template for task in DRAWN[1::2])
    assert len({task.module for task in DRAWN[::2]} & {task.module for task in DRAWN[1::2]}) > 30  # names say nothing
    assert [is_held_out(task.text) for task in DRAWN] == [task.is_held_out for task in DRAWN] == [True, False] * 200
    with pytest.raises(MiniRepoError):
        is_held_out("something else")


@pytest.mark.parametrize("task", DRAWN[:60], ids=lambda task: task.text)
def test_hidden_tests_pass_with_the_houses_way_alone_and_shown_ones_with_any(task: Any) -> None:
    broken = run("\n".join(task.lines))
    assert [evaluate(one, broken) for one in task.shown][1:] == ["True"]
    assert evaluate(task.shown[0], broken) != "True"
    calls = {case.id: case.code.split("\n")[1].partition(".")[2] for case in task.cases}
    failing = {case.id for case in task.cases if evaluate(calls[case.id], broken) != case.wanted}
    assert failing == set(task.fail_to_pass) != set(calls)
    for place, way in enumerate(task.mistake.ways):
        mended = run(task.mend(way))
        assert {evaluate(one, mended) for one in task.shown} == {"True"}
        passes = all(evaluate(calls[case.id], mended) == case.wanted for case in task.cases)
        assert passes is (place == 0)


def test_a_text_is_a_task_and_always_the_same() -> None:
    for task in DRAWN[:50]:
        again = read_task(f" {task.text} ")
        assert (again.lines, again.fixes, again.cases) == (task.lines, task.fixes, task.cases)
        assert 8 <= len(task.lines) <= 25
    assert make_task("depot", 1).text != make_task("depot", 2).text


@pytest.mark.parametrize(
    "text",
    [
        "", "#1 In depot.py", "#1 In nothing.py logs_left() falls below zero.", "#99999 In depot.py x() is.",
        "Mend it.",
    ],
)  # fmt: skip
def test_what_is_no_task_is_told_with_an_example(text: str) -> None:
    with pytest.raises(MiniRepoError, match=r"wanted a task like '#416 In depot\.py"):
        read_task(text)


def test_of_a_number_only_its_own_words_are_a_task() -> None:
    task = make_task("depot", 416)
    with pytest.raises(MiniRepoError, match=r"wanted '#416 In depot\.py"):
        read_task(task.text.replace("below zero", "apart"))


def test_the_words_do_not_tell_the_fix_and_the_fix_is_one_line() -> None:
    for task in DRAWN:
        repo_task = task.as_repo_task()
        (one,) = patch = parse_patch(repo_task.gold_patch)
        assert measure_leak(task.text, patch) < LEAKS_FROM / 4
        assert [line.strip() for line in one.added] == [task.fixes[next(iter(task.fixes))].strip()]
        assert apply_patch(task.files, patch)[task.path] == task.mend(next(iter(task.fixes))).encode()


def test_hints_are_read_out_of_a_managers_words() -> None:
    hints = list_hints()
    assert len(hints) == 3 * len(MISTAKES)
    for hint in hints:
        assert find_hints(f"No: {hint}, please.") == (hint,)
    assert hinted_prompt("x", hints[:2]) == f"x Hint: {hints[0]}, {hints[1]}."
    assert find_hints("whatever") == ()
