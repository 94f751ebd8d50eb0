"""The gate of step scorers: better, as good, worse, too few, too weak; always in words."""

import random

import pytest

from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.scoring.ranking import Scored
from tentalis.core.scoring.scorer_gate import ScorerPolicy, judge_scorer


def make_items(candidate: float, reference: float, *, groups: int = 80) -> list[Scored]:
    rng = random.Random(5)
    items = []
    for group in range(groups):
        for _ in range(3):
            truth = float(rng.random() < 0.5)
            items.append(Scored(group, truth, truth * candidate + rng.gauss(0, 1), truth * reference + rng.gauss(0, 1)))
    return items


def judge(items: list[Scored], against: str = "the judges", **policy: object) -> tuple[bool, str]:
    verdict = judge_scorer(items, against=against, policy=ScorerPolicy(**policy), seed=1)  # type: ignore[arg-type]
    return verdict.is_accepted, verdict.words


def test_a_better_scorer_replaces_the_judges_and_a_worse_one_does_not() -> None:
    is_accepted, words = judge(make_items(2.5, 0.5))
    assert is_accepted
    assert words.startswith("accepted: better, step AUC")
    assert "beside" in words
    is_accepted, words = judge(make_items(1.0, 2.5))
    assert not is_accepted
    assert words.startswith("refused: wanted not worse by 0.02")


def test_an_equal_one_is_not_worse_and_not_better() -> None:
    same = [item._replace(reference=item.candidate) for item in make_items(2.0, 2.0)]
    assert judge(same)[0]
    is_accepted, words = judge(same, needs="better")
    assert not is_accepted
    assert "wanted better" in words


def test_with_nobody_to_replace_the_floor_alone_is_asked() -> None:
    is_accepted, words = judge(make_items(2.0, 0.0), against="")
    assert is_accepted
    assert "nobody scored these steps before it" in words
    verdict = judge_scorer(make_items(2.0, 0.0), against="", policy=ScorerPolicy(), seed=1)
    assert verdict.measured["difference"] is None
    is_accepted, words = judge(make_items(0.1, 0.0), against="")
    assert not is_accepted
    assert "is not above 0.6" in words


def test_too_few_steps_of_one_kind_prove_nothing() -> None:
    is_accepted, words = judge(make_items(3.0, 0.0, groups=4))
    assert not is_accepted
    assert "wanted 15 good and 15 bad held-out steps" in words


def test_many_steps_of_few_tasks_prove_nothing() -> None:
    few = [item._replace(group=place % 9) for place, item in enumerate(make_items(3.0, 0.0))]
    is_accepted, words = judge(few)
    assert not is_accepted
    assert "of 10 tasks of known truth, found" in words
    assert words.endswith("of 9")
    assert judge([item._replace(group=place % 10) for place, item in enumerate(few)])[0]


def test_a_policy_that_asks_for_nothing_known_is_refused() -> None:
    with pytest.raises(ScoringError, match="wanted needs better or not_worse"):
        ScorerPolicy(needs="worse")  # type: ignore[arg-type]
