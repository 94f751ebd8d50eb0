"""Projects whose reviewers are drawn: honest ones who err, and some who agreed on their answers."""

import random
from collections.abc import Hashable
from typing import Literal, NamedTuple

from tentalis.core.scoring.favour import Word

Plan = Literal["none", "favour", "careful"]
GOLD, GOLD_READERS = 0.05, 5
HARD, FOLLOWS = 0.3, 0.93


class World(NamedTuple):
    """What was said, the known answers, and who colludes."""

    words: list[Word]
    known: dict[Hashable, bool]
    colluders: frozenset[str]


def draw_world(
    *, plan: Plan, reviewers: int, each: int, seed: int, share: float = 0.2, lines: int = 4, readers: int = 2
) -> World:
    """Draw one project.

    Honest reviewers approve 82 to 97 % of what is good and reject 75 to 97 % of what is bad; three tasks in ten are
    hard, there they are half as much better than a coin. One task in twenty has a known answer, is judged by five,
    and there everybody is honest. Colluders keep to their plan in 93 % of what it covers.

    Args:
        plan: `favour`: they approve all of the worst line's work; `careful`: nobody does, but two are right in 97 % of
            all tasks and the others in about 75 %; `none`: nobody does.
        each: tasks that each reviewer judges; readers: reviewers of a task.
    """
    rng = random.Random(seed)
    bad = frozenset(range(round(share * reviewers)) if plan == "favour" else ())
    careful = frozenset(range(2) if plan == "careful" else ())
    low, high = ((0.75, 0.85), (0.65, 0.8)) if careful else ((0.82, 0.97), (0.75, 0.97))
    skills = [
        {True: 0.97, False: 0.97} if one in careful else {True: rng.uniform(*low), False: rng.uniform(*high)}
        for one in range(reviewers)
    ]
    chances = sorted(rng.uniform(0.35, 0.75) for _ in range(lines))
    words: list[Word] = []
    known: dict[Hashable, bool] = {}
    for task in range(reviewers * each // readers):
        line = rng.randrange(lines)
        truth, is_hard = rng.random() < chances[line], rng.random() < HARD
        if is_gold := rng.random() < GOLD:
            known[task] = truth
        for one in rng.sample(range(reviewers), GOLD_READERS if is_gold else readers):
            skill = skills[one][truth]
            if is_hard and one not in careful:
                skill = 0.5 + (skill - 0.5) / 2
            says = truth if rng.random() < skill else not truth
            if one in bad and line == 0 and not is_gold and rng.random() < FOLLOWS:
                says = True
            words.append(Word(f"user:r{one:02}", task, task, f"line {line}", says))
    return World(words, known, frozenset(f"user:r{one:02}" for one in bad))
