"""The canary's arithmetic: who gets it, and what is said of it when."""

import random
from collections.abc import Iterator
from statistics import fmean, median

import pytest

from tentalis.core.learning.canary_routing import is_canary
from tentalis.core.learning.canary_verdict import Arm, CanaryOutcome, judge_canary, judge_shadow

SIMULATIONS = 200
TASKS = 600
SHARE = 0.3


def arm_of(scores: list[float]) -> Arm:
    if not scores:
        return Arm(tasks=0, mean=0.0, variance=0.0)
    mean = fmean(scores)
    return Arm(tasks=len(scores), mean=mean, variance=fmean([(score - mean) ** 2 for score in scores]))


def watch(seed: int, *, deployed: float, canary: float, group: int = 1) -> CanaryOutcome:
    """A canary that is looked at until something is said."""
    for sides in _looks(random.Random(seed), deployed, canary, group):
        outcome = judge_canary(*sides, margin=1e-9).outcome  # never safe: it watches on
        if outcome is not CanaryOutcome.WATCHING:
            return outcome
    return CanaryOutcome.WATCHING


def _looks(chance: random.Random, deployed: float, canary: float, group: int = 1) -> Iterator[tuple[Arm, Arm]]:
    """Both sides after every tenth task; task scores are means of `group`."""
    tasks, totals, squares = [0, 0], [0.0, 0.0], [0.0, 0.0]
    for count in range(1, TASKS + 1):
        side = chance.random() < SHARE
        rate = canary if side else deployed
        score = sum(chance.random() < rate for _ in range(group)) / group
        tasks[side] += 1
        totals[side] += score
        squares[side] += score * score
        if count % 10 == 0:
            means = [total / max(n, 1) for total, n in zip(totals, tasks, strict=True)]
            spreads = [max(square / max(n, 1) - m * m, 0.0) for square, n, m in zip(squares, tasks, means, strict=True)]
            one, other = (Arm(tasks=tasks[n], mean=means[n], variance=spreads[n]) for n in (0, 1))
            yield one, other


@pytest.mark.thorough
@pytest.mark.parametrize(("rate", "group"), [(0.5, 1), (0.9, 1), (0.7, 8)])
def test_two_equal_sides_raise_a_false_alarm_in_at_most_five_of_a_hundred(rate: float, group: int) -> None:
    found = [watch(seed, deployed=rate, canary=rate, group=group) for seed in range(SIMULATIONS)]
    assert found.count(CanaryOutcome.HARM) <= 0.05 * SIMULATIONS


def test_a_bad_canary_is_found() -> None:
    found = [watch(seed, deployed=0.75, canary=0.45) for seed in range(40)]
    assert found.count(CanaryOutcome.HARM) >= 38


def test_looking_after_every_task_with_a_fixed_interval_would_alarm_too_often() -> None:
    """The control: what the always valid interval is for."""
    alarms = 0
    for seed in range(SIMULATIONS):
        for one, other in _looks(random.Random(seed), 0.5, 0.5):
            if min(one.tasks, other.tasks) >= 20:
                reach = 1.645 * (one.variance / one.tasks + other.variance / other.tasks) ** 0.5
                if other.mean - one.mean < -reach:
                    alarms += 1
                    break
    assert alarms > 0.1 * SIMULATIONS


def _draw_shadowed(chance: random.Random, drop: float) -> tuple[list[float], list[float]]:
    """The same tasks done by two, easy and hard ones, each by a group of four and once in the shadow."""
    rates = [chance.choice([0.05, 0.5, 0.95]) for _ in range(TASKS)]
    served = [fmean(chance.random() < rate for _ in range(4)) for rate in rates]
    return served, [float(chance.random() < max(rate - drop, 0.0)) for rate in rates]


def _watch_shadow(seed: int, *, drop: float, is_paired: bool = True, margin: float = 0.1) -> tuple[CanaryOutcome, int]:
    served, shadow = _draw_shadowed(random.Random(seed), drop)
    for count in range(20, TASKS + 1, 10):
        sides = served[:count], shadow[:count]
        if is_paired:
            reading = judge_shadow(*sides, margin=margin)
        else:
            reading = judge_canary(*map(arm_of, sides), margin=margin)
        if reading.outcome is not CanaryOutcome.WATCHING:
            return reading.outcome, count
    return CanaryOutcome.WATCHING, TASKS


@pytest.mark.thorough
def test_an_equal_shadow_raises_a_false_alarm_in_at_most_five_of_a_hundred() -> None:
    found = [_watch_shadow(seed, drop=0.0, margin=1e-9)[0] for seed in range(SIMULATIONS)]
    assert found.count(CanaryOutcome.HARM) <= 0.05 * SIMULATIONS


def test_what_did_the_same_tasks_is_told_sooner_than_what_did_others() -> None:
    paired, apart = ([_watch_shadow(seed, drop=0.0, is_paired=how)[1] for seed in range(40)] for how in (True, False))
    assert median(paired) < 0.7 * median(apart)
    assert all(_watch_shadow(seed, drop=0.3)[0] is CanaryOutcome.HARM for seed in range(20))


def _trial(chance: random.Random, *, deployed: float, canary: float, share: float) -> CanaryOutcome:
    """A trial of binary scores that is looked at after every task."""
    tasks, right = [0, 0], [0, 0]
    for _ in range(2_000):
        side = chance.random() < share
        tasks[side] += 1
        right[side] += chance.random() < (canary if side else deployed)
        means = [one / max(count, 1) for one, count in zip(right, tasks, strict=True)]
        sides = [Arm(tasks=n, mean=mean, variance=mean * (1 - mean)) for n, mean in zip(tasks, means, strict=True)]
        outcome = judge_canary(*sides, margin=0.1).outcome
        if outcome is not CanaryOutcome.WATCHING:
            return outcome
    return CanaryOutcome.WATCHING


@pytest.mark.thorough
@pytest.mark.parametrize(("deployed", "share"), [(1.0, 0.5), (1.0, 0.1), (0.95, 0.2)])
def test_what_is_worse_by_the_whole_margin_hardly_passes_beside_what_is_nearly_always_right(
    deployed: float, share: float
) -> None:
    chance = random.Random(7)
    found = [_trial(chance, deployed=deployed, canary=deployed - 0.1, share=share) for _ in range(SIMULATIONS)]
    assert found.count(CanaryOutcome.SAFE) <= 0.05 * SIMULATIONS


def test_twenty_right_answers_do_not_show_that_a_canary_is_good_enough() -> None:
    """A canary that is right in 86 of 100 gives as many in one trial of twenty."""
    readings = [judge_canary(Arm(tasks=200, mean=1.0), Arm(tasks=n, mean=1.0), margin=0.1).outcome for n in (20, 60)]
    assert readings == [CanaryOutcome.WATCHING, CanaryOutcome.SAFE]


def test_a_shadow_that_never_errs_beside_what_never_errs_is_watched_for_some_tasks_first() -> None:
    readings = [judge_shadow([1.0] * tasks, [1.0] * tasks, margin=0.1).outcome for tasks in (30, 60)]
    assert readings == [CanaryOutcome.WATCHING, CanaryOutcome.SAFE]


def test_a_shadow_that_was_told_nothing_of_is_watched() -> None:
    assert judge_shadow([], [], margin=0.1).outcome is CanaryOutcome.WATCHING
    assert "0 of its tasks" in judge_shadow([], [], margin=0.1).words
    assert judge_shadow([1.0] * 19, [0.0] * 19, margin=0.1).outcome is CanaryOutcome.WATCHING


def test_an_equal_canary_is_called_safe_once_enough_was_seen() -> None:
    side = Arm(tasks=600, mean=0.7, variance=0.21)
    reading = judge_canary(side, side, margin=0.1)
    assert reading.outcome is CanaryOutcome.SAFE
    assert reading.low == pytest.approx(-reading.high)


def test_the_interval_is_the_one_worked_by_hand() -> None:
    """V = 2 * (0.21 * 88 + 3) / 100 / 88; reach^2 = 2 V (V + .01) / .01 * (ln 20 + ln((V + .01) / V) / 2)."""
    side = Arm(tasks=88, mean=0.5, variance=0.21)
    reading = judge_canary(side, side, margin=0.1)
    assert reading.high == pytest.approx(0.22721, abs=1e-5)


def test_nothing_is_said_of_a_few_tasks_however_bad() -> None:
    reading = judge_canary(Arm(tasks=500, mean=0.9, variance=0.09), Arm(tasks=19), margin=0.1)
    assert reading.outcome is CanaryOutcome.WATCHING
    assert "19 of its tasks" in reading.words


def test_the_same_task_always_goes_the_same_way_and_the_share_is_kept() -> None:
    chosen = [is_canary(f"7:{task}", percent=10) for task in range(20_000)]
    assert chosen == [is_canary(f"7:{task}", percent=10) for task in range(20_000)]
    assert 0.09 < fmean(chosen) < 0.11
    assert not any(is_canary(f"7:{task}", percent=0) for task in range(1000))


def test_more_than_half_is_no_canary() -> None:
    with pytest.raises(ValueError, match=r"0\.\.50, found 51"):
        is_canary("7:1", percent=51)
