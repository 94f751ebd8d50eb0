"""Scores that only count, worked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.scoring.effort import StepCounts, count_steps, diff_size_score, efficiency_score, effort_score
from tentalis.core.scoring.protocol import ScoringError, Unscored
from tentalis.core.steps import parse_steps


def test_steps_said_again_and_blank_steps_are_counted() -> None:
    parsed = parse_steps("<step>Add 3  and 4</step><step>add 3 and 4</step><step> </step><step>so 7</step>")
    assert count_steps(parsed.steps) == StepCounts(used=4, blank=1, repeated=1)


def test_the_same_call_with_another_result_is_no_repetition() -> None:
    parsed = parse_steps("".join(f"<call>poll</call><result>{result}</result>" for result in "aab"))
    assert count_steps(parsed.steps) == StepCounts(used=3, repeated=1)


@pytest.mark.parametrize(
    ("counts", "effort", "efficiency"),
    [
        (StepCounts(4), 1.0, 1.0),
        (StepCounts(2), 0.5, 1.0),
        (StepCounts(8), 1.0, 0.5),
        (StepCounts(8, blank=2, repeated=2), 0.5, 0.25),
        (StepCounts(4, repeated=2), 0.25, 0.5),
        (StepCounts(3, blank=3), 0.0, 0.0),
    ],
)
def test_effort_and_efficiency_worked_by_hand_for_four_expected_steps(
    counts: StepCounts, effort: float, efficiency: float
) -> None:
    assert effort_score(counts, expected=4) == pytest.approx(effort)
    assert efficiency_score(counts, expected=4) == pytest.approx(efficiency)


def test_doing_nothing_is_no_effort_and_has_no_efficiency() -> None:
    assert effort_score(StepCounts(0), expected=4) == 0.0
    assert efficiency_score(StepCounts(0), expected=4) == Unscored("the attempt has no steps")


def test_a_small_change_scores_full_and_a_large_one_its_share() -> None:
    assert diff_size_score(changed_lines=5, expected_lines=10) == 1.0
    assert diff_size_score(changed_lines=40, expected_lines=10) == 0.25
    assert diff_size_score(changed_lines=0, expected_lines=10) == Unscored("the attempt changed nothing")


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(1, 20))
def test_scores_stay_in_range_and_padding_never_pays(useful: int, blank: int, repeated: int, expected: int) -> None:
    counts = StepCounts(useful + blank + repeated, blank, repeated)
    padded = StepCounts(counts.used + 1, blank, repeated + 1)
    assert 0.0 <= effort_score(padded, expected=expected) <= effort_score(counts, expected=expected) <= 1.0
    before, after = efficiency_score(counts, expected=expected), efficiency_score(padded, expected=expected)
    if not isinstance(before, Unscored) and not isinstance(after, Unscored):
        assert 0.0 <= after <= before <= 1.0


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ScoringError, match="blank 2"):
        StepCounts(1, blank=2)
    with pytest.raises(ScoringError, match="expected steps: wanted 1 or more, found 0"):
        effort_score(StepCounts(1), expected=0)
    with pytest.raises(ScoringError, match="expected steps"):
        efficiency_score(StepCounts(1), expected=0)
    with pytest.raises(ScoringError, match="changed lines: wanted 0 or more, found -1"):
        diff_size_score(changed_lines=-1, expected_lines=1)
