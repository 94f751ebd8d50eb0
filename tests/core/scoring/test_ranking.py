"""Areas under the ROC curve by hand, their bootstrap, and what is refused."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.scoring.ranking import Scored, area_under_curve, compare_auc, compare_aucs, measure_auc


def test_the_area_is_the_share_of_pairs_in_order_and_ties_count_half() -> None:
    # good .9 .5 .5, bad .5 .1: pairs (.9>.5)(.9>.1) 2, (.5=.5)(.5>.1) 1.5 twice -> 5 of 6
    assert area_under_curve([0.9, 0.5, 0.5, 0.5, 0.1], [1, 1, 1, 0, 0]) == pytest.approx(5 / 6)
    assert area_under_curve([1.0, 2.0], [0, 1]) == 1.0
    assert area_under_curve([2.0, 1.0], [0, 1]) == 0.0


def test_without_items_of_both_kinds_there_is_no_area() -> None:
    assert area_under_curve([], []) is None
    assert area_under_curve([0.1, 0.9], [1.0, 0.5]) is None


@given(st.lists(st.tuples(st.integers(-5, 5), st.booleans()), max_size=40))
def test_the_area_is_what_counting_all_pairs_gives(items: list[tuple[int, bool]]) -> None:
    good = [score for score, is_good in items if is_good]
    bad = [score for score, is_good in items if not is_good]
    found = area_under_curve([score for score, _ in items], [float(is_good) for _, is_good in items])
    if not good or not bad:
        assert found is None
    else:
        won = sum((g > b) + (g == b) / 2 for g in good for b in bad)
        assert found == pytest.approx(won / (len(good) * len(bad)))


def make_items(*, better: float, groups: int = 60) -> list[Scored]:
    rng = random.Random(3)
    items = []
    for group in range(groups):
        for _ in range(4):
            truth = float(rng.random() < 0.5)
            items.append(Scored(group, truth, truth * better + rng.gauss(0, 1), truth * 0.5 + rng.gauss(0, 1)))
    return items


def test_a_better_scorer_has_an_interval_above_nothing_and_an_equal_one_does_not() -> None:
    better, alike = compare_auc(make_items(better=2.0), seed=1), compare_auc(make_items(better=0.5), seed=1)
    assert better is not None
    assert alike is not None
    assert 0.0 < better.low <= better.difference <= better.high
    assert alike.low < 0.0 < alike.high
    assert better.candidate_low < better.candidate
    assert (better.items, better.groups) == (240, 60)
    assert compare_auc(make_items(better=2.0), seed=1) == better


def test_a_scorer_beside_itself_differs_by_nothing_in_every_draw() -> None:
    items = [item._replace(reference=item.candidate) for item in make_items(better=1.0)]
    found = compare_auc(items, seed=0)
    assert found is not None
    assert (found.difference, found.low, found.high) == (0.0, 0.0, 0.0)


def test_what_cannot_be_ordered_is_refused() -> None:
    with pytest.raises(ScoringError, match="finite"):
        area_under_curve([float("nan"), 1.0], [0, 1])
    with pytest.raises(ScoringError, match="2 scores and 1 truths"):
        area_under_curve([0.0, 1.0], [0])
    with pytest.raises(ScoringError, match="confidence"):
        compare_auc(make_items(better=1.0), seed=0, confidence=1.0)
    assert compare_auc([], seed=0) is None


def test_an_auc_worked_by_hand() -> None:
    """Good .9 .4, bad .4 .1: wins 1 1 | 1/2 1 of 4 pairs = .875."""
    found = measure_auc([0.9, 0.4, 0.4, 0.1], [1, 1, 0, 0])
    assert (found.value, found.good, found.bad) == (0.875, 2, 2)
    # placements 1, .75 and .75, 1, each with pseudo-placements 0 and 1: variance of the mean .1888 / 3 = .0560 a side
    centre = (1 + 0.75 + 0 + 1) / 4
    variance = sum((value - centre) ** 2 for value in (1, 0.75, 0, 1)) / 12
    assert found.low == pytest.approx(0.875 - 1.6448536 * math.sqrt(2 * variance))
    assert found.high == 1.0


@pytest.mark.parametrize(("scores", "truths", "value"), [([0.9, 0.1], [1, 0], 1.0), ([0.1, 0.9], [1, 0], 0.0)])
def test_a_perfect_order_of_two_is_not_certain(scores: list[float], truths: list[float], value: float) -> None:
    found = measure_auc(scores, truths)
    assert found.value == value
    assert found.high - found.low > 0.5


@pytest.mark.parametrize("truths", [[1.0, 1.0], [0.0, 0.0], []])
def test_one_kind_of_item_alone_has_no_auc(truths: list[float]) -> None:
    found = measure_auc([0.5] * len(truths), truths)
    assert found.value is None
    assert (found.good, found.bad) == (truths.count(1.0), truths.count(0.0))
    assert (found.low, found.high) == (0.0, 1.0)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=30))
def test_an_auc_turns_round_with_the_scores_and_knows_only_their_order(pairs: list[tuple[float, bool]]) -> None:
    scores, truths = [score for score, _ in pairs], [float(good) for _, good in pairs]
    found = measure_auc(scores, truths)
    turned = measure_auc([-score for score in scores], truths)
    if found.value is None or turned.value is None:
        assert found == turned
    else:
        assert found.value + turned.value == pytest.approx(1.0)
        assert measure_auc([2 * score for score in scores], truths).value == found.value
        assert found.low <= found.value <= found.high


def test_the_same_scores_differ_by_nothing_and_the_interval_holds_zero() -> None:
    scores, truths = [0.9, 0.8, 0.3, 0.2], [1, 0, 1, 0]
    found = compare_aucs(scores, scores, truths)
    assert found.value == 0.0
    assert found.low < 0.0 < found.high


def test_a_difference_of_aucs_is_the_aucs_difference() -> None:
    one, other, truths = [0.9, 0.7, 0.3, 0.2], [0.2, 0.9, 0.3, 0.7], [1, 1, 0, 0]
    found = compare_aucs(one, other, truths)
    values = measure_auc(one, truths).value, measure_auc(other, truths).value
    assert values == (1.0, 0.5)
    assert found.value == 0.5
    assert found.low < 0.5 < found.high
