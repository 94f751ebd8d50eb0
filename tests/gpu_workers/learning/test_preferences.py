import math
from collections.abc import Callable
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gpu_workers.learning.preferences import (
    balance_sides,
    count_right,
    dpo,
    estimate_drift,
    imitation,
    ipo,
    kto,
    share_of_good,
    sum_answers,
)
from tests.gpu_workers.learning.gradient_check import gradient_of

pytestmark = pytest.mark.torch
PairLoss = Callable[..., Tensor]


def numbers(*values: float, grad: bool = False) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


@pytest.mark.parametrize(
    ("chosen", "rejected", "beta", "expected"),
    [
        (0.0, 0.0, 0.1, 0.693147),  # nothing learnt: log 2
        (2.0, -1.0, 0.1, 0.554355),  # -log sigmoid(.3): sigmoid(.3) = .574443
        (-1.0, 2.0, 0.1, 0.854355),  # -log sigmoid(-.3)
        (5.0, 0.0, 0.2, 0.313262),  # -log sigmoid(1)
    ],
)
def test_dpo_worked_by_hand(chosen: float, rejected: float, beta: float, expected: float) -> None:
    found = dpo(numbers(chosen), numbers(rejected), numbers(1.0), beta=beta, total=1.0)
    assert found.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("chosen", "rejected", "beta", "expected"),
    [(0.0, 0.0, 0.1, 25.0), (3.0, -2.0, 0.1, 0.0), (4.0, -2.0, 0.1, 1.0), (1.0, 0.0, 0.5, 0.0), (0.0, 1.0, 0.5, 4.0)],
)
def test_ipo_worked_by_hand(chosen: float, rejected: float, beta: float, expected: float) -> None:
    found = ipo(numbers(chosen), numbers(rejected), numbers(1.0), beta=beta, total=1.0)
    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gain", "is_good", "drift", "expected"),
    [
        (0.0, True, 0.0, 0.5),
        (10.0, True, 0.0, 0.268941),  # 1 - sigmoid(1)
        (10.0, True, 10.0, 0.5),  # no more than the policy drifted anyway
        (10.0, False, 0.0, 0.731059),  # 1 - sigmoid(-1)
        (-10.0, False, 0.0, 0.268941),
    ],
)
def test_kto_worked_by_hand(gain: float, is_good: bool, drift: float, expected: float) -> None:
    found = kto(numbers(gain), torch.tensor([is_good]), numbers(1.0), drift=drift, beta=0.1, total=1.0)
    assert found.item() == pytest.approx(expected, abs=1e-6)


def test_imitation_worked_by_hand() -> None:
    logprobs = numbers(math.log(0.5), math.log(0.25))
    assert imitation(logprobs, numbers(1.0, 0.5), total=3.0).item() == pytest.approx(math.log(2) * 2 / 3)


@pytest.mark.parametrize("loss", [dpo, ipo])
def test_a_gradient_step_parts_the_two_answers(loss: PairLoss) -> None:
    chosen, rejected = numbers(0.0, -2.0, grad=True), numbers(0.0, 1.0, grad=True)
    value = loss(chosen, rejected, numbers(1.0, 0.5), beta=0.1, total=2.0)
    up, down = torch.autograd.grad(value, (chosen, rejected))
    assert bool((up < 0).all())
    assert bool((down > 0).all())
    assert up.tolist() == pytest.approx((-down).tolist())


def test_ipo_pulls_back_a_margin_that_went_too_far_and_dpo_never_does() -> None:
    chosen, rejected = numbers(9.0, grad=True), numbers(0.0)
    assert gradient_of(ipo(chosen, rejected, numbers(1.0), beta=0.1, total=1.0), chosen).item() > 0
    assert gradient_of(dpo(chosen, rejected, numbers(1.0), beta=0.1, total=1.0), chosen).item() < 0


def test_kto_raises_good_answers_and_lowers_bad_ones() -> None:
    gains = numbers(0.5, 0.5, grad=True)
    is_good = torch.tensor([True, False])
    gradient = gradient_of(kto(gains, is_good, numbers(1.0, 1.0), drift=0.2, beta=0.1, total=2.0), gains)
    assert gradient[0].item() < 0 < gradient[1].item()


@given(st.lists(st.tuples(*[st.floats(-20, 20)] * 2, st.floats(0, 1)), min_size=1, max_size=6), st.randoms())
def test_order_does_not_matter_and_micro_batches_add_up(
    pairs: list[tuple[float, float, float]], random: Random
) -> None:
    def measure(some: list[tuple[float, float, float]], loss: PairLoss) -> float:
        columns = [numbers(*column) for column in zip(*some, strict=True)]
        return float(loss(*columns, beta=0.1, total=float(len(pairs))))

    shuffled = random.sample(pairs, len(pairs))
    for loss in (dpo, ipo):
        whole = measure(pairs, loss)
        assert measure(shuffled, loss) == pytest.approx(whole, abs=1e-9)
        assert sum(measure([pair], loss) for pair in pairs) == pytest.approx(whole, abs=1e-9)


def test_what_does_not_count_reaches_neither_sum_nor_gradient() -> None:
    values = torch.tensor([1.0, math.nan, 2.0, 4.0], requires_grad=True)
    counts = torch.tensor([True, False, True, True])
    found = sum_answers(values, counts, [2, 1, 1])
    assert found.tolist() == [1.0, 2.0, 4.0]
    assert gradient_of(found.sum(), values).tolist() == [1.0, 0.0, 1.0, 1.0]


def test_padding_at_the_end_of_an_answer_changes_nothing() -> None:
    plain = sum_answers(numbers(1.0, 2.0, 3.0), torch.tensor([True] * 3), [2, 1])
    padded = sum_answers(numbers(1.0, 2.0, -9.0, 3.0, -9.0), torch.tensor([True, True, False, True, False]), [3, 2])
    assert padded.tolist() == plain.tolist()


def test_the_drift_is_the_mean_of_what_is_not_negative() -> None:
    assert estimate_drift(numbers(1.0, 2.0)) == 1.5
    assert estimate_drift(numbers(-1.0, 0.5)) == 0.0
    assert estimate_drift(numbers()) == 0.0


def test_both_sides_weigh_the_same() -> None:
    good, bad = balance_sides(1.0, 3.0)
    assert (good, bad) == pytest.approx((2.0, 2 / 3))
    assert share_of_good(1.0, 3.0, weights=(good, bad)) == pytest.approx(0.5)
    assert balance_sides(2.0, 0.0) == (1.0, 1.0)
    assert balance_sides(1.0, 1.0, desirable=1.5, undesirable=0.5) == (1.5, 0.5)


def test_a_tie_is_half_a_pair() -> None:
    assert count_right(numbers(1.0, 0.0, 0.0), numbers(0.0, 0.0, 1.0)) == 1.5


def test_wrong_shapes_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"wanted one number an answer \(B,\), found shape \(\)"):
        dpo(torch.tensor(1.0), torch.tensor(1.0), torch.tensor(1.0), beta=0.1, total=1.0)
    with pytest.raises(ValueError, match=r"weights must have shape \(2,\), found \(1,\)"):
        ipo(numbers(1, 2), numbers(1, 2), numbers(1), beta=0.1, total=1.0)
    with pytest.raises(ValueError, match="sizes that sum to N"):
        sum_answers(numbers(1, 2), torch.tensor([True, True]), [1])
