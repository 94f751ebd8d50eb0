"""The gate's course: which tasks are asked for, in which order, and when it ends."""

from collections.abc import Sequence

import pytest

from tentalis.core.learning.collapse import AnswerProfile
from tentalis.core.learning.gate import Direction, GatePolicy
from tentalis.core.learning.gate_course import Answers, Course, Known, Pairs, confirm

WELL = AnswerProfile(
    answers=300, broken_tag_rate=0.0, missing_end_rate=0.0, entropy_nats=1.0, length_tokens=20.0, self_overlap=0.0
)


def draw(right: Sequence[float], served: Sequence[float]) -> Pairs:
    return Pairs(mine=right, theirs=served, my_steps=right, their_steps=served)


def repeat(pattern: str, count: int) -> list[float]:
    return [float(pattern[place % len(pattern)]) for place in range(count)]


def run(
    kept: Pairs, drawn: Pairs, *, profiles: dict[int, AnswerProfile] | None = None, asks_leak: bool = True
) -> tuple[Answers, list[tuple[int, int]]]:
    asked: list[tuple[int, int]] = []

    def measure(first: int, second: int) -> Known:
        asked.append((first, second))
        profile = (profiles or {}).get(first, WELL)
        return Known(kept=kept.first(first), drawn=drawn.first(second), profile=profile, base=WELL)

    course = Course(policy=GatePolicy(), kept=len(kept), drawn=len(drawn), asks_leak=asks_leak)
    return course.run(measure, measure_more=lambda _: None), asked


def test_what_is_surely_worse_is_tried_on_one_block_alone() -> None:
    found, asked = run(draw(repeat("0", 300), repeat("1", 300)), draw(repeat("0", 300), repeat("1", 300)))
    assert asked == [(100, 20)]
    assert found.outcomes.high < -0.1


def test_what_is_as_good_is_asked_of_no_more_than_tells_that() -> None:
    same = repeat("1101", 300)
    found, asked = run(draw(same, same), draw(same, same))
    assert found.outcomes.low > -0.1
    assert asked[0] == (100, 20)
    assert asked[-1][0] == 100
    assert found.leaks == ()


def test_what_lies_near_the_margin_is_asked_of_everything() -> None:
    mine, theirs = repeat("1" * 8 + "00", 300), repeat("1" * 8 + "10", 300)
    found, asked = run(draw(mine, theirs), draw(mine, theirs))
    assert asked[-1] == (300, 300)
    assert (found.outcomes.items, found.planned) == (600, 600)


def test_tasks_drawn_anew_are_asked_as_long_as_a_leak_may_be_found() -> None:
    kept, drawn = draw(repeat("1", 300), repeat("0111", 300)), draw(repeat("0111", 300), repeat("1110", 300))
    found, asked = run(kept, drawn)
    assert [one.check for one in found.leaks] == ["leak"]
    assert [count for _, count in asked] == [20, 40, 60, 90, 135], "each look is at half as many again"
    unasked, other = run(kept, drawn, asks_leak=False)
    assert (unasked.leaks, other) == ((), [(100, 0)])


def test_an_alarm_that_may_be_noise_is_asked_of_the_whole_panel() -> None:
    same = repeat("10", 300)
    doubtful = AnswerProfile(**vars(WELL) | {"answers": 100, "broken_tag_rate": 0.03})
    found, asked = run(draw(same, same), draw(same, same), profiles={100: doubtful})
    assert asked[-1][0] == 300
    assert found.alarms == ()
    sure = AnswerProfile(**vars(WELL) | {"answers": 100, "broken_tag_rate": 0.3})
    found, asked = run(draw(same, same), draw(same, same), profiles={100: sure})
    assert asked == [(100, 20)]
    assert [one.detector for one in found.alarms] == ["broken_tags"]


@pytest.mark.parametrize(
    ("mine", "shown", "counts", "is_confirmed"),
    [
        ("1", Direction.BETTER, [100], True),
        ("0", Direction.BETTER, [100], False),
        ("0", Direction.WORSE, [100], True),
        ("1011", Direction.BETTER, [100], True),
    ],
)
def test_a_confirmation_ends_when_it_shows_it_or_hardly_will(
    mine: str, shown: Direction, counts: list[int], is_confirmed: bool
) -> None:
    asked: list[int] = []
    pairs = draw(repeat(mine, 300), repeat("0110", 300))

    def measure(count: int) -> Pairs:
        asked.append(count)
        return pairs.first(count)

    found = confirm(shown, look=1, policy=GatePolicy(), items=300, measure=measure)
    assert asked == counts
    better, worse = found.comparison.low > 0, found.comparison.high < -0.02
    assert (better if shown is Direction.BETTER else worse) is is_confirmed
