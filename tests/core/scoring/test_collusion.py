"""Who judges alike beyond chance: found where there is something, nobody named where there is not, and said which."""

import dataclasses
from collections.abc import Hashable

import pytest

from tentalis.core.scoring.collusion import POLICY, Group, Word, screen
from tests.core.scoring.reviewer_worlds import Plan, World, draw_world

FEW_WORLDS = dataclasses.replace(POLICY, worlds=199)


def name(world: World, *, seed: int = 1) -> set[str]:
    found = screen(world.words, known=world.known, seed=seed, policy=FEW_WORLDS)
    return {rater for group in found.groups if not group.is_cleared for rater in group.raters}


def test_two_who_favour_one_line_are_named_together_with_the_line() -> None:
    world = draw_world(plan="favour", reviewers=10, each=200, seed=3)
    [group] = [one for one in screen(world.words, known=world.known, seed=1).groups if not one.is_cleared]
    assert (group.kind, group.line, frozenset(group.raters)) == ("favour", "line 0", world.colluders)
    assert group.p < POLICY.level
    assert group.share > 0.9 > 0.75 > group.expected


def test_four_who_say_the_opposite_are_named_though_each_pair_shares_few_tasks() -> None:
    world = draw_world(plan="opposite", reviewers=20, each=700, seed=5)
    found = screen(world.words, known=world.known, seed=1, policy=FEW_WORLDS)
    [group] = found.groups
    assert (group.kind, frozenset(group.raters)) == ("alike", world.colluders)
    assert group.share > group.expected + 0.1


@pytest.mark.parametrize("plan", ["none", "careful"])
def test_nobody_is_named_where_all_judge_independently(plan: Plan) -> None:
    for seed in (1, 2, 3):
        assert name(draw_world(plan=plan, reviewers=10, each=200, seed=seed)) == set()


@pytest.mark.parametrize("reviewers", [2, 3, 4])
def test_of_few_reviewers_nothing_can_be_told(reviewers: int) -> None:
    words = [Word(f"r{one}", task, task, "line", bool(task % 2)) for task in range(60) for one in range(reviewers)]
    found = screen(words, known={}, seed=1)
    assert found.groups == []
    assert found.reason == f"wanted 5 reviewers who judged 10 tasks that others judged too, found {reviewers}"


def test_nothing_said_is_nothing_found() -> None:
    found = screen([], known={}, seed=1)
    assert (found.raters, found.tasks, found.groups) == (0, 0, [])


def test_the_same_words_in_any_order_give_the_same() -> None:
    world = draw_world(plan="favour", reviewers=10, each=100, seed=3)
    first = screen(world.words, known=world.known, seed=1, policy=FEW_WORLDS)
    assert screen(world.words[::-1], known=world.known, seed=1, policy=FEW_WORLDS) == first


def test_lenience_alone_is_no_collusion() -> None:
    """Two who approve nearly everything agree with each other nearly always."""
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
    groups: list[Group] = list(screen(words, known=known, seed=1).groups)
    [group] = [one for one in groups if one.kind == "favour"]
    assert (group.raters, group.line, group.is_cleared) == (("r0", "r1"), "line 0", True)
    assert group.known.value == 1.0
    [accused] = [one for one in screen(words, known={}, seed=1).groups if one.kind == "favour"]
    assert not accused.is_cleared
