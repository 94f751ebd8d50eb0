"""Who favours whom beyond chance: found where there is something, nobody named where there is not, and said which."""

from collections.abc import Hashable

import pytest

from tentalis.core.scoring.favour import POLICY, Word, screen
from tests.core.scoring.reviewer_worlds import Plan, World, draw_world


def name(world: World) -> set[str]:
    found = screen(world.words, known=world.known)
    return {rater for group in found.groups if not group.is_cleared for rater in group.raters}


def test_two_who_favour_one_line_are_named_together_with_the_line() -> None:
    world = draw_world(plan="favour", reviewers=10, each=200, seed=3)
    [group] = [one for one in screen(world.words, known=world.known).groups if not one.is_cleared]
    assert (group.line, frozenset(group.raters)) == ("line 0", world.colluders)
    assert group.p < POLICY.level
    assert group.share > 0.9 > 0.75 > group.expected


@pytest.mark.parametrize(("plan", "seed"), [("none", 5), ("none", 12), ("careful", 14), ("careful", 18)])
def test_nobody_is_named_where_all_judge_independently_however_often_it_is_looked_at(plan: Plan, seed: int) -> None:
    """Each of these has a look among 25 at which somebody stands out by what one look alone would allow, 1 %."""
    world = draw_world(plan=plan, reviewers=10, each=300, seed=seed)
    for look in range(1, 26):
        said = world.words[: len(world.words) * look // 25]
        assert screen(said, known={}).groups == []


@pytest.mark.parametrize("reviewers", [2, 3, 4])
def test_of_few_reviewers_nothing_can_be_told(reviewers: int) -> None:
    every = [(one, task) for task in range(60) for one in range(reviewers)]
    words = [Word(f"r{one}", task, task, f"line {task % 2}", bool(task % 3)) for one, task in every]
    found = screen(words, known={})
    assert found.groups == []
    wanted = "wanted 5 reviewers who judged 10 tasks of each of two workers or adapters"
    assert found.reason == f"{wanted}, found {reviewers}"


def test_nothing_said_is_nothing_found() -> None:
    found = screen([], known={})
    assert (found.raters, found.lines, found.groups) == (0, 0, [])


def test_the_same_words_in_any_order_give_the_same() -> None:
    world = draw_world(plan="favour", reviewers=10, each=100, seed=3)
    first = screen(world.words, known=world.known)
    assert screen(world.words[::-1], known=world.known) == first


def test_lenience_alone_is_no_favour() -> None:
    """Two approve nearly everything, of each line."""
    world = draw_world(plan="none", reviewers=8, each=150, seed=8)
    lenient = {"user:r00", "user:r01"}
    words = [word._replace(approves=True) if word.rater in lenient and word.task % 10 else word for word in world.words]
    assert name(world._replace(words=words)) == set()


def test_who_is_right_where_they_stand_apart_is_cleared_by_known_answers() -> None:
    """Two approve a line that all others reject, on known tasks as on others, and the known answers agree with them."""
    words: list[Word] = []
    known: dict[Hashable, bool] = {}
    for task in range(240):
        line = task % 3
        truth = line == 0 or task % 2 == 0
        if task % 4 == 0:
            known[task] = truth
        for one in range(6):
            says = truth if one < 2 or line else task % 9 == 0
            words.append(Word(f"r{one}", task, task, f"line {line}", says))
    [group] = screen(words, known=known).groups
    assert (group.raters, group.line, group.is_cleared) == (("r0", "r1"), "line 0", True)
    assert group.known.value == 1.0
    [accused] = screen(words, known={}).groups
    assert not accused.is_cleared
