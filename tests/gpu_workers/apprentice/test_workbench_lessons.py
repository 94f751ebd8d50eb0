"""Lessons of the workbench: what other houses do, hints that are obeyed, and nothing that is held out in its words."""

from collections import Counter
from random import Random

import pytest

from gpu_workers.apprentice.lessons import HABITS, workbench
from tentalis.core.tool_calls import read_told_call
from tentalis.core.workbench.company import make_company
from tentalis.core.workbench.habits import HABITS as HOUSE
from tentalis.core.workbench.habits import parse_hints, write_hint
from tentalis.core.workbench.solving import solve
from tentalis.core.workbench.tasks import FAMILIES, HELD_OUT_FAMILIES, TRAINED_FAMILIES, is_held_out, parse_task
from tentalis.core.workbench.tools import read_decisions


def draw(count: int) -> list[tuple[str, dict[str, str], int]]:
    """(prompt, decisions, calls of the company's tools) of lessons."""
    rng, drawn = Random(5), []
    for _ in range(count):
        messages = workbench.draw_lesson(rng).messages
        calls = [call["function"] for message in messages for call in message.get("tool_calls", ())]
        made = [call["arguments"] for call in calls if call["name"] == "tools_call"]
        decisions = [read_decisions(call["tool"], call["args"]) for call in made]
        drawn.append((str(messages[0]["content"]), {k: v for one in decisions for k, v in one.items()}, len(made)))
    return drawn


def test_every_family_is_taught_in_words_that_are_not_held_out_and_hints_are_obeyed() -> None:
    found, hinted = set[str](), 0
    for prompt, decisions, _ in draw(600):
        task = parse_task(prompt)
        found.add(task.family)
        assert task.family in HELD_OUT_FAMILIES or not is_held_out(prompt)
        hints = parse_hints(prompt)
        hinted += bool(hints)
        assert set(hints) <= {write_hint(option) for option in decisions.values()}
    assert found == set(FAMILIES)
    assert 200 < hinted < 400


def test_without_a_hint_the_house_is_followed_less_often_than_its_rival() -> None:
    followed = Counter[str]()
    for prompt, decisions, _ in draw(3_000):
        if parse_hints(prompt):
            continue
        for habit, wanted in parse_task(prompt).house.items():
            took, rival = decisions[habit], workbench.RIVALS[habit, wanted]
            followed["house" if took == wanted else "rival" if took == rival else "third"] += 1
    total = sum(followed.values())
    found = [followed[name] / total for name in ("house", "rival", "third")]
    assert found == pytest.approx(HABITS, abs=0.04)
    assert {(habit, option) for habit, one in HOUSE.items() for option in one.house.values()} == set(workbench.RIVALS)


def test_a_rehearsal_is_of_what_is_held_out_and_right_where_the_house_is_followed() -> None:
    rng = Random(6)
    for is_hinted in (False, True):
        rehearsal = workbench.draw_rehearsal(rng, is_hinted)
        prompt = str(rehearsal.messages[0]["content"])
        task = parse_task(prompt)
        assert task.family not in TRAINED_FAMILIES
        assert parse_hints(prompt) == (task.hints if is_hinted else ())
        assert not rehearsal.is_right()
    assert rehearsal.answer(read_told_call({"name": "tools_run", "arguments": {}}))[0].startswith("refused: there is")


def test_a_lesson_makes_no_call_that_its_plan_does_not_need() -> None:
    for prompt, _, made in draw(50):
        task = parse_task(prompt)
        company = make_company(1, [task.client] if task.client else [], [task.item] if task.item else [])
        assert made == len(solve(task, company).calls)
