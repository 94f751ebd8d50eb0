from random import Random

import pytest

from apps.worlds.terminal.world import TerminalWorld
from tentalis.core.terminal.shell import show_result
from tentalis.core.terminal.tasks import FAMILIES, Task, draw_task
from tests.worlds.terminal.playing import play


def draw_each_kind() -> list[Task]:
    """A task of every kind there is."""
    rng, found = Random(5), dict[str, Task]()
    for name in FAMILIES:
        for _ in range(12):
            task = draw_task(rng, held_out=True, families=[name])
            found.setdefault(task.kind, task)
    return list(found.values())


TASKS = draw_each_kind()


def test_there_are_enough_kinds() -> None:
    assert len(FAMILIES) >= 12
    assert len(TASKS) == sum(len(family.house) for family in FAMILIES.values())


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
def test_the_houses_way_is_right_and_says_what_it_was_said_to(world: TerminalWorld, task: Task) -> None:
    script = [*task.scene.looks, *task.house.commands]
    found, told = play(world, task.text, [command for command, _ in script])
    assert told == [show_result(output, 0) for _, output in script]
    assert found.outcome == 1.0, found.checks
    assert [score for score in found.step_scores if score is not None] == [1.0] * (len(task.house.commands) + 1)
    assert found.missing_steps == 0


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
def test_what_other_houses_do_and_doing_nothing_is_wrong(world: TerminalWorld, task: Task) -> None:
    house = task.family.house[task.scene.context]
    for name, way in task.scene.ways.items():
        if name != house:
            found, told = play(world, task.text, [command for command, _ in way.commands])
            assert told == [show_result(output, 0) for _, output in way.commands]
            assert found.outcome == 0.0, name
            assert not found.step_scores[-1]  # None where a program has not done yet what it was told
    found, _ = play(world, task.text, [])
    assert found.outcome == 0.0
    assert found.missing_steps > 0
