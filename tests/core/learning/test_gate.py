import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.checked import FieldError
from tentalis.core.learning.collapse import Alarm
from tentalis.core.learning.gate import (
    AnchorOutcome,
    Confirmation,
    Direction,
    GateError,
    GatePolicy,
    PairedComparison,
    compare_paired,
    find_direction,
    judge_progress,
    judge_serving,
    minimum_detectable_effect,
    spend_alpha,
)

outcomes = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=60)


def test_a_comparison_worked_by_hand() -> None:
    # 10 items: 4 gained, 1 lost. Padded to 12: centre 3/12 = .25, variance (5+1)/12 - .0625 = .4375, se .19094
    candidate, reference = [1] * 4 + [0] + [1] * 5, [0] * 4 + [1] + [1] * 5
    comparison = compare_paired(candidate, reference, confidence=0.9)
    assert comparison.difference == pytest.approx(0.3)
    assert (comparison.low, comparison.high) == pytest.approx(
        (0.25 - 1.64485 * 0.19094, 0.25 + 1.64485 * 0.19094), abs=1e-4
    )


def test_no_disagreement_still_leaves_an_interval() -> None:
    comparison = compare_paired([1] * 20, [1] * 20)
    assert comparison.low < 0 < comparison.high
    assert comparison.difference == 0


@given(outcomes)
def test_swapping_the_adapters_mirrors_the_interval(pairs: list[tuple[float, float]]) -> None:
    candidate, reference = [a for a, _ in pairs], [b for _, b in pairs]
    one, other = compare_paired(candidate, reference), compare_paired(reference, candidate)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert one.low <= one.high


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = random.Random(3)
    covered = 0
    for _ in range(400):
        reference = [float(rng.random() < 0.5) for _ in range(60)]
        candidate = [float(rng.random() < (0.75 if item else 0.35)) for item in reference]  # truth: .55 - .50
        comparison = compare_paired(candidate, reference, confidence=0.9)
        covered += comparison.low <= 0.05 <= comparison.high
    assert 0.86 <= covered / 400 <= 0.95


def test_more_items_resolve_smaller_effects() -> None:
    assert minimum_detectable_effect(items=300, std=0.6) == pytest.approx(0.0861, abs=1e-3)
    assert minimum_detectable_effect(items=1200, std=0.6) == pytest.approx(0.0431, abs=1e-3)


@pytest.mark.parametrize(
    ("candidate", "reference", "confidence", "message"),
    [
        ([], [], 0.9, "found 0 and 0"),
        ([1.0], [1.0, 0.0], 0.9, "found 1 and 2"),
        ([1.5], [1.0], 0.9, "candidate outcome 0 must lie in"),
        ([1.0], [float("nan")], 0.9, "reference outcome 0 must lie in"),
        ([1.0], [1.0], 1.0, "confidence must lie in"),
    ],
)
def test_a_comparison_of_the_wrong_things_is_refused(
    candidate: list[float], reference: list[float], confidence: float, message: str
) -> None:
    with pytest.raises(GateError, match=message):
        compare_paired(candidate, reference, confidence=confidence)


def make_pair(gained: int, lost: int, same: int) -> tuple[list[float], list[float]]:
    return [1.0] * gained + [0.0] * lost + [1.0] * same, [0.0] * gained + [1.0] * lost + [1.0] * same


def test_a_small_gain_is_safe_to_serve_and_says_so() -> None:
    verdict = judge_serving(compare_paired(*make_pair(20, 13, 267)), against="desk@v3-abc", policy=GatePolicy())
    assert verdict.is_safe
    assert verdict.words == "+2.3 points [−0.9, +5.5] against desk@v3-abc: safe to serve"


def test_what_may_be_too_much_worse_is_refused_with_the_number() -> None:
    verdict = judge_serving(compare_paired(*make_pair(10, 40, 250)), against="desk@v3", policy=GatePolicy(margin=0.1))
    assert not verdict.is_safe
    assert "refused: it may be 13.7 points worse, 10.0 are allowed" in verdict.words


def test_a_worse_second_metric_refuses() -> None:
    fine, worse = compare_paired(*make_pair(20, 10, 270)), compare_paired(*make_pair(0, 60, 240))
    verdict = judge_serving(fine, against="desk", policy=GatePolicy(), second=worse, second_name="greedy accuracy")
    assert not verdict.is_safe
    assert "greedy accuracy may be" in verdict.words


def test_an_alarm_refuses_whatever_the_accuracy() -> None:
    alarm = Alarm(detector="broken_tags", found=0.2, allowed=0.02, words="broken tags in 20.0% of answers")
    verdict = judge_serving(compare_paired(*make_pair(90, 0, 210)), against="desk", policy=GatePolicy(), alarms=[alarm])
    assert not verdict.is_safe
    assert verdict.words.endswith("refused: broken tags in 20.0% of answers")


def confirm(gained: int, lost: int, *, look: int = 1, second: PairedComparison | None = None) -> Confirmation:
    error = spend_alpha(look, confidence=0.9)
    found = compare_paired(*make_pair(gained, lost, 300 - gained - lost), confidence=1 - 2 * error)
    return Confirmation(look=look, comparison=found, second=second or found)


@pytest.mark.parametrize(
    ("panel", "drawn", "updates", "outcome", "words"),
    [
        ((60, 10), (50, 12), 3, AnchorOutcome.PROVED, "improved by +12.7 [+7.6, +17.5] points against anchor desk@v1"),
        ((60, 10), (30, 25), 3, AnchorOutcome.TOO_EARLY, "on the kept panel, not confirmed by +1.7 points"),
        ((60, 10), (30, 25), 12, AnchorOutcome.INCONCLUSIVE, "inconclusive after 12 updates"),
        ((60, 10), (10, 60), 3, AnchorOutcome.TOO_EARLY, "not confirmed by −16.7 points"),
        ((60, 10), None, 3, AnchorOutcome.TOO_EARLY, "too few tasks to draw for a confirmation"),
        ((10, 60), (10, 60), 3, AnchorOutcome.WORSE, "on 300 tasks drawn anew: worse, roll back"),
        ((10, 60), (25, 30), 3, AnchorOutcome.TOO_EARLY, "on the kept panel, not confirmed by −1.7 points"),
        ((12, 10), None, 3, AnchorOutcome.TOO_EARLY, "too early to say; with 300 tasks, differences under"),
        ((12, 10), None, 12, AnchorOutcome.INCONCLUSIVE, "inconclusive after 12 updates"),
    ],
)
def test_the_anchor_question_is_decided_by_tasks_nobody_looked_at_before(
    panel: tuple[int, int], drawn: tuple[int, int] | None, updates: int, outcome: AnchorOutcome, words: str
) -> None:
    verdict = judge_progress(
        compare_paired(*make_pair(*panel, 300 - sum(panel))),
        against="desk@v1",
        policy=GatePolicy(),
        updates_since_anchor=updates,
        confirmation=confirm(*drawn) if drawn else None,
    )
    assert verdict.outcome is outcome
    assert words in verdict.words


def test_a_claim_is_what_the_confirmation_measured_and_not_what_made_somebody_look() -> None:
    shown = compare_paired(*make_pair(60, 10, 230))
    asked = confirm(50, 12)
    verdict = judge_progress(shown, against="desk@v1", policy=GatePolicy(), updates_since_anchor=2, confirmation=asked)
    assert verdict.comparison == asked.comparison


def test_better_on_the_reward_alone_is_not_proved() -> None:
    better, level = compare_paired(*make_pair(60, 10, 230)), compare_paired(*make_pair(20, 20, 260))
    policy = GatePolicy()
    assert find_direction(better, policy=policy, second=level) is Direction.NEITHER, "nothing to confirm"
    verdict = judge_progress(
        better,
        against="desk@v1",
        policy=policy,
        updates_since_anchor=2,
        second=better,
        confirmation=confirm(60, 10, second=level),
    )
    assert verdict.outcome is AnchorOutcome.TOO_EARLY


def test_worse_on_the_second_metric_rolls_back() -> None:
    better, worse = compare_paired(*make_pair(60, 10, 230)), compare_paired(*make_pair(10, 60, 230))
    verdict = judge_progress(
        better,
        against="desk@v1",
        policy=GatePolicy(),
        updates_since_anchor=2,
        second=worse,
        second_name="step scores",
        confirmation=confirm(60, 10, second=worse),
    )
    assert verdict.outcome is AnchorOutcome.WORSE
    assert "on step scores: worse, roll back" in verdict.words


def test_a_small_loss_that_is_sure_is_no_reason_to_go_back() -> None:
    """The first question lets a loss within its margin serve; the second does not contradict it for a trifle."""
    trifle = compare_paired(*make_pair(0, 4, 296))
    assert trifle.high < 0
    assert find_direction(trifle, policy=GatePolicy()) is Direction.NEITHER
    assert find_direction(trifle, policy=GatePolicy(anchor_margin=0.0001)) is Direction.WORSE


def test_all_confirmations_together_have_the_error_of_one_look() -> None:
    shares = [spend_alpha(look, confidence=0.9) for look in range(1, 5_000)]
    assert shares[:3] == pytest.approx([0.025, 0.05 / 6, 0.05 / 12])
    assert 0.0499 < sum(shares) < 0.05
    with pytest.raises(GateError, match="look must be at least 1, found 0"):
        spend_alpha(0, confidence=0.9)


@pytest.mark.thorough
def test_weights_that_only_answer_with_other_seeds_are_seldom_proved_better_however_often_they_are_looked_at() -> None:
    """200 lines of 64 versions: one look at the panel alone would call a third of them better."""
    policy, rng = GatePolicy(panel_size=100, confirm_size=100), random.Random(12)
    chances = [rng.random() for _ in range(100)]

    def draw() -> list[float]:
        return [float(rng.random() < chance) for chance in chances]

    false = by_panel = 0
    for _ in range(200):
        anchor, looks, is_proved, is_shown = draw(), 0, False, False
        for version in range(1, 65):
            shown = compare_paired(draw(), anchor)
            if find_direction(shown, policy=policy) is Direction.NEITHER:
                continue
            is_shown |= shown.low > 0
            looks += 1
            confidence = 1 - 2 * spend_alpha(looks, confidence=policy.confidence)
            asked = Confirmation(look=looks, comparison=compare_paired(draw(), draw(), confidence=confidence))
            verdict = judge_progress(shown, against="", policy=policy, updates_since_anchor=version, confirmation=asked)
            is_proved |= verdict.outcome is AnchorOutcome.PROVED
        false, by_panel = false + is_proved, by_panel + is_shown
    assert false <= 10
    assert by_panel >= 60


@pytest.mark.parametrize("size", [0, 29, 2_001])
def test_a_confirmation_wants_enough_tasks_and_not_too_many(size: int) -> None:
    with pytest.raises(FieldError, match="confirm_size: wanted a whole number from 30 to 2,000"):
        GatePolicy(confirm_size=size)


@pytest.mark.parametrize(
    "field", ["margin", "second_margin", "anchor_margin", "confidence", "power", "anchor_patience"]
)
def test_a_policy_out_of_range_names_its_field(field: str) -> None:
    with pytest.raises(FieldError, match=f"{field}: wanted"):
        GatePolicy(**{field: 0})


@pytest.mark.parametrize(
    ("both", "mine", "theirs", "neither", "outcome"),
    [
        (5, 3, 2, 10, "undecided"),
        (5, 2, 2, 10, "undecided"),
        (5, 2, 3, 10, "refused"),
        (5, 0, 12, 3, "refused"),
        (15, 7, 5, 4, "refused"),
    ],
)
def test_few_items_refuse_nothing_that_did_as_well_on_them(
    both: int, mine: int, theirs: int, neither: int, outcome: str
) -> None:
    candidate = [1.0] * (both + mine) + [0.0] * (theirs + neither)
    reference = [1.0] * both + [0.0] * mine + [1.0] * theirs + [0.0] * neither
    found = compare_paired(candidate, reference)
    assert judge_serving(found, against="it", policy=GatePolicy(), leaves_few=True).outcome == outcome
    assert judge_serving(found, against="it", policy=GatePolicy()).outcome == "refused"
    assert judge_serving(found, against="it", policy=GatePolicy(), leaves_few=True, faults=["bad"]).outcome == "refused"
