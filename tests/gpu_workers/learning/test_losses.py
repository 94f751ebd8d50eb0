import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gpu_workers.learning.losses import (
    cispo,
    clipped_surrogate,
    combine_losses,
    k3_divergence,
    mean_entropy,
    measure_drift,
    sequence_surrogate,
    top_k_distillation,
    truncated_importance,
    weighted_imitation,
)
from tentalis.core.opd import token_opd_advantages, top_k_advantages
from tests.gpu_workers.learning.gradient_check import assert_loss_learns, gradient_of

pytestmark = pytest.mark.torch
GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "golden" / "policy_losses.json").read_text())


def logs(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


def every(values: Tensor) -> Tensor:
    return torch.ones_like(values, dtype=torch.bool)


@pytest.mark.parametrize("case", GOLDEN["clipped_surrogate"])
def test_the_clipped_surrogate_worked_by_hand(case: dict[str, float]) -> None:
    current, old = logs(case["current"]), logs(case["old"])
    found = clipped_surrogate(current, old, torch.tensor([case["advantage"]]), every(current))
    assert found.item() == pytest.approx(case["loss"])
    drift = measure_drift(current, old, every(current))
    assert drift.max_ratio.item() == pytest.approx(case["ratio"])
    assert drift.clipped.item() == (case["ratio"] > 1.28 or case["ratio"] < 0.8)


@pytest.mark.parametrize("case", GOLDEN["dual_clip"])
def test_the_dual_clip_caps_only_bad_tokens(case: dict[str, float]) -> None:
    current, old = logs(case["current"]), logs(case["old"])
    found = clipped_surrogate(current, old, torch.tensor([case["advantage"]]), every(current), dual_clip=case["cap"])
    assert found.item() == pytest.approx(case["loss"])


@pytest.mark.parametrize("case", GOLDEN["cispo"])
def test_cispo_worked_by_hand(case: dict[str, float]) -> None:
    current, old = logs(case["current"]), logs(case["old"])
    found = cispo(current, old, torch.tensor([case["advantage"]]), every(current))
    assert found.item() == pytest.approx(case["loss"], abs=1e-5)


@pytest.mark.parametrize("case", GOLDEN["sequence"], ids=lambda case: str(case["about"]))
def test_one_ratio_an_answer_worked_by_hand(case: dict[str, Any]) -> None:
    current, old = logs(*case["current"]).requires_grad_(), logs(*case["old"])
    advantages = torch.full_like(old, case["advantage"])
    low, high = case["clip"]
    found = sequence_surrogate(current, old, advantages, every(old), [len(old)], clip_low=low, clip_high=high)
    assert found.item() == pytest.approx(case["loss"], abs=1e-5)
    ratio = math.exp(float((current - old).mean().detach()))
    is_clipped = ratio > 1 + high if case["advantage"] > 0 else ratio < 1 - low
    slope = 0.0 if is_clipped else -case["advantage"] * ratio / len(old)  # by eq. 5: the same for each of its tokens
    assert gradient_of(found, current).tolist() == pytest.approx([slope] * len(old))


def test_each_answer_counts_alike_and_only_by_its_sampled_tokens() -> None:
    torch.manual_seed(1)
    old, advantages = -torch.rand(7, dtype=torch.float64), torch.tensor([1.0] * 3 + [-1.0] * 4, dtype=torch.float64)
    current = (old + 0.1 * torch.randn(7, dtype=torch.float64)).requires_grad_()
    counts = torch.tensor([True, True, False, True, False, True, True])
    whole = sequence_surrogate(current, old, advantages, counts, [3, 4], clip_low=0.5, clip_high=0.5)
    alone = [
        sequence_surrogate(
            current[of], old[of], advantages[of], counts[of], [of.stop - of.start], clip_low=0.5, clip_high=0.5
        )
        for of in (slice(0, 3), slice(3, 7))
    ]
    assert whole.item() == pytest.approx(sum(one.item() for one in alone) / 2)
    assert gradient_of(whole, current)[~counts].tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="sizes must sum to 7 tokens, found 6"):
        sequence_surrogate(current, old, advantages, counts, [3, 3])


@pytest.mark.parametrize("case", GOLDEN["k3"])
def test_k3_worked_by_hand(case: dict[str, float]) -> None:
    current, reference = logs(case["current"]), logs(case["reference"])
    assert k3_divergence(current, reference, every(current)).item() == pytest.approx(case["divergence"], abs=1e-5)


def test_token_distillation_and_reward_add_up_as_worked_by_hand() -> None:
    case = GOLDEN["token_opd"]
    current = old = logs(case["old"])
    (gap,) = token_opd_advantages(logs(case["teacher"]).tolist(), old.tolist(), [True])
    assert gap == pytest.approx(case["opd_advantage"], abs=1e-4)
    reward_loss = clipped_surrogate(current, old, torch.tensor([case["reward_advantage"]]), every(old))
    hint_loss = clipped_surrogate(current, old, torch.tensor([gap]), every(old))
    combined = combine_losses(reward_loss, hint_loss, w_rl=1.0, w_opd=1.0)
    assert -combined.item() == pytest.approx(case["combined"], abs=1e-4)


def test_top_k_distillation_worked_by_hand() -> None:
    case = GOLDEN["top_k"]
    old, teacher, current = logs(*case["old"]), logs(*case["teacher"]), logs(*case["current"])
    tokens = top_k_advantages(old.tolist(), teacher.tolist())
    advantages = torch.tensor([token.advantage for token in tokens])
    whole = top_k_distillation(current[None], old[None], advantages[None], torch.tensor([True]))
    assert whole.item() == pytest.approx(case["sum"], abs=1e-4)
    single = [
        top_k_distillation(current[None, k : k + 1], old[None, k : k + 1], advantages[None, k : k + 1], every(old[:1]))
        for k in range(4)
    ]
    assert [loss.item() for loss in single] == pytest.approx(case["per_token"], abs=1e-4)


def sequence_loss(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, counts: Tensor) -> Tensor:
    """Each row an answer."""
    sizes = [logprobs.shape[1]] * logprobs.shape[0]
    return sequence_surrogate(logprobs.flatten(), old_logprobs.flatten(), advantages.flatten(), counts.flatten(), sizes)


def test_our_losses_learn() -> None:
    assert_loss_learns(lambda *tokens: clipped_surrogate(*tokens))
    assert_loss_learns(lambda *tokens: clipped_surrogate(*tokens, dual_clip=3.0))
    assert_loss_learns(lambda *tokens: cispo(*tokens))
    assert_loss_learns(sequence_loss)


def scalar_logprob_loss(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, counts: Tensor) -> Tensor:
    """The loss this replaced: one scalar log-prob for a whole batch, against every advantage of it."""
    ratio = torch.exp(logprobs[counts].mean() - old_logprobs[counts].mean())
    gain = advantages[:, 0]
    return -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.28) * gain).mean()


def test_one_scalar_log_prob_for_a_batch_turns_the_check_red() -> None:
    with pytest.raises(AssertionError, match="does not follow the advantages"):
        assert_loss_learns(scalar_logprob_loss)


def test_a_scalar_log_prob_is_refused_outright() -> None:
    one = torch.tensor(0.0)
    with pytest.raises(ValueError, match="found a scalar"):
        clipped_surrogate(one, one, one, torch.tensor(True))


def test_a_token_beyond_the_clip_has_no_gradient_when_it_would_go_further() -> None:
    current = logs(0.3, 0.3, 0.1, 0.1).requires_grad_()
    old = logs(0.2, 0.2, 0.2, 0.2)
    gradient = gradient_of(clipped_surrogate(current, old, torch.tensor([1.0, -1.0, 1.0, -1.0]), every(old)), current)
    assert [value == 0 for value in gradient.tolist()] == [True, False, False, True]


def test_cispo_keeps_the_gradient_of_a_clipped_token() -> None:
    current = logs(0.9).requires_grad_()
    gradient = gradient_of(cispo(current, logs(0.2), torch.tensor([1.0]), torch.tensor([True])), current)
    assert gradient.item() == pytest.approx(-1.28)


def test_the_divergence_pulls_towards_the_reference() -> None:
    current = logs(0.6, 0.1).requires_grad_()
    gradient = gradient_of(k3_divergence(current, logs(0.3, 0.3), every(current)), current)
    assert gradient[0] > 0 > gradient[1]


def test_imitation_raises_what_was_done_in_proportion_to_its_weight() -> None:
    current = logs(0.6, 0.1, 0.5).requires_grad_()
    gradient = gradient_of(
        weighted_imitation(current, torch.tensor([2.0, 1.0, 9.0]), torch.tensor([True, True, False])), current
    )
    assert gradient.tolist() == pytest.approx([-1.0, -0.5, 0.0])


tokens = st.lists(
    st.tuples(st.floats(-5, -0.01), st.floats(-5, -0.01), st.floats(-3, 3), st.booleans()), min_size=1, max_size=12
)


def as_tensors(rows: list[tuple[float, float, float, bool]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    columns = list(zip(*rows, strict=True))
    numbers = [torch.tensor(column, dtype=torch.float64) for column in columns[:3]]
    return numbers[0], numbers[1], numbers[2], torch.tensor(columns[3])


@given(tokens)
def test_padding_of_any_content_changes_neither_loss_nor_gradient(rows: list[tuple[float, float, float, bool]]) -> None:
    nan = float("nan")
    padding = [(nan, nan, nan, False), (-1e30, 5.0, 1e30, False)]
    for surrogate in (clipped_surrogate, cispo):
        results = []
        for content in (rows, [*rows, *padding]):
            logprobs, *others = as_tensors(content)
            logprobs.requires_grad_()
            loss = surrogate(logprobs, *others)
            gradient = gradient_of(loss, logprobs)
            results.append([loss.item(), *gradient[: len(rows)].tolist()])
        assert results[0] == pytest.approx(results[1], abs=1e-12)


@given(tokens, st.randoms(use_true_random=False))
def test_the_order_of_tokens_does_not_matter(rows: list[tuple[float, float, float, bool]], rng: Any) -> None:
    shuffled = rng.sample(rows, len(rows))
    one, other = clipped_surrogate(*as_tensors(rows)), clipped_surrogate(*as_tensors(shuffled))
    assert one.item() == pytest.approx(other.item(), abs=1e-9)


@given(tokens, st.integers(0, 12))
def test_micro_batches_add_up_to_the_whole(rows: list[tuple[float, float, float, bool]], cut: int) -> None:
    total = float(max(1, sum(counts for *_, counts in rows)))
    whole = clipped_surrogate(*as_tensors(rows)).item()
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    assert sum(clipped_surrogate(*as_tensors(part), total=total).item() for part in parts) == pytest.approx(whole)


@given(tokens)
def test_the_surrogate_is_never_below_the_unclipped_loss(rows: list[tuple[float, float, float, bool]]) -> None:
    logprobs, old, advantages, counts = as_tensors(rows)
    plain = -torch.where(counts, (logprobs - old).exp() * advantages, 0).sum() / max(1, int(counts.sum()))
    assert clipped_surrogate(logprobs, old, advantages, counts) >= plain - 1e-12


@given(tokens)
def test_the_divergence_is_never_negative(rows: list[tuple[float, float, float, bool]]) -> None:
    logprobs, reference, _, counts = as_tensors(rows)
    assert k3_divergence(logprobs, reference, counts).item() >= -1e-12


def test_nothing_counted_is_a_loss_of_zero() -> None:
    values = torch.zeros(3)
    nothing = torch.zeros(3, dtype=torch.bool)
    assert clipped_surrogate(values, values, values, nothing) == 0
    assert [value.item() for value in measure_drift(values, values, nothing)] == [0, 0, 0]
    assert mean_entropy(values, nothing) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"old_logprobs": torch.zeros(3)}, r"old_logprobs must have shape \(2,\), found \(3,\)"),
        ({"advantages": torch.tensor(1.0)}, r"advantages must have shape \(2,\), found \(\)"),
        ({"counts": torch.ones(2)}, "counts must be bool, found torch.float32"),
    ],
)
def test_wrong_shapes_are_refused_by_name(change: dict[str, Tensor], message: str) -> None:
    values = {"old_logprobs": torch.zeros(2), "advantages": torch.zeros(2), "counts": torch.ones(2, dtype=torch.bool)}
    changed = values | change
    with pytest.raises(ValueError, match=message):
        clipped_surrogate(torch.zeros(2), changed["old_logprobs"], changed["advantages"], changed["counts"])


def test_top_k_wants_two_axes() -> None:
    values = torch.zeros(3)
    with pytest.raises(ValueError, match=r"wanted logprobs \(N, K\)"):
        top_k_distillation(values, values, values, every(values))


def test_truncated_importance_worked_by_hand() -> None:
    # an old policy gave .1 .4 .2 what the starting one gives .3 .2 .2: ratios 3 .5 1, capped at 2
    weights = truncated_importance(logs(0.3, 0.2, 0.2), logs(0.1, 0.4, 0.2), torch.tensor([True, True, False]), cap=2.0)
    assert weights.tolist() == pytest.approx([2.0, 0.5, 0.0])


def test_importance_scales_each_tokens_loss_and_gradient() -> None:
    old, advantages = logs(0.2, 0.2), torch.tensor([1.0, -1.0], dtype=torch.float64)
    current = old.clone().requires_grad_()
    plain = gradient_of(clipped_surrogate(current, old, advantages, every(old)), current)
    weights = torch.tensor([2.0, 0.5], dtype=torch.float64)
    weighed = gradient_of(clipped_surrogate(current, old, advantages, every(old), importance=weights), current)
    assert weighed.tolist() == pytest.approx([plain[0].item() * 2.0, plain[1].item() * 0.5])
    assert_loss_learns(lambda *tokens: clipped_surrogate(*tokens, importance=torch.full_like(tokens[0], 0.7)))


def test_the_top_k_loss_moves_the_policy_towards_what_the_teacher_prefers() -> None:
    case = GOLDEN["top_k"]
    old, teacher = logs(*case["old"]), logs(*case["teacher"])
    advantages = torch.tensor([[token.advantage for token in top_k_advantages(old.tolist(), teacher.tolist())]])
    current = old[None].clone().requires_grad_()
    gradient = gradient_of(top_k_distillation(current, old[None], advantages, torch.tensor([True])), current)
    wanted = (teacher - old).sign()
    assert all(
        pull * want > 0 or want == 0 for pull, want in zip((-gradient[0]).tolist(), wanted.tolist(), strict=True)
    )


far = st.floats(-900, -0.01)


@given(st.lists(st.tuples(far, far, st.floats(-3, 3)), min_size=1, max_size=8))
def test_no_token_however_far_makes_a_loss_or_a_gradient_infinite(rows: list[tuple[float, float, float]]) -> None:
    """The gradient of a clipped token is zero, and so not zero times an infinite ratio; the others keep theirs."""
    columns = [torch.tensor(column, dtype=torch.float32) for column in zip(*rows, strict=True)]
    current, old, advantages = columns
    current.requires_grad_()
    for loss in (
        clipped_surrogate(current, old, advantages, every(current)),
        clipped_surrogate(current, old, advantages, every(current), dual_clip=3.0),
        cispo(current, old, advantages, every(current)),
        k3_divergence(current, old, every(current)),
    ):
        gradient = gradient_of(loss, current)
        assert loss.isfinite()
        assert gradient.isfinite().all()
    assert all(value.isfinite() for value in measure_drift(current, old, every(current)))


def test_a_far_token_is_clipped_away_and_its_neighbour_still_learns() -> None:
    current = torch.tensor([-0.1, -1.0]).requires_grad_()
    old = torch.tensor([-200.0, -1.0])
    gradient = gradient_of(clipped_surrogate(current, old, torch.tensor([1.0, 1.0]), every(old)), current)
    assert gradient.tolist() == pytest.approx([0.0, -0.5])


def test_a_token_the_policy_has_lost_is_drawn_back_to_the_reference_and_never_pushed_on() -> None:
    current = torch.tensor([-10.0, -60.0, -400.0]).requires_grad_()
    gradient = gradient_of(k3_divergence(current, torch.full((3,), -0.1), every(current)), current)
    assert (gradient < 0).all()
    assert gradient[0] > gradient[1]
    assert gradient[1] == gradient[2]


def test_the_drift_is_the_divergence_that_tokens_of_the_old_policy_are_samples_of() -> None:
    """Mean over what the old policy samples, here all four tokens by how often it does."""
    old, current = logs(0.4, 0.3, 0.2, 0.1), logs(0.1, 0.2, 0.3, 0.4)
    found = sum(
        float(probability) * float(measure_drift(current[index : index + 1], old[index : index + 1], every(old[:1]))[2])
        for index, probability in enumerate(old.exp())
    )
    assert found == pytest.approx(float((old.exp() * (old - current)).sum()))


def test_a_bad_token_that_became_far_too_likely_is_pushed_back_as_hard_as_at_the_limit() -> None:
    logprobs = torch.tensor([0.0, 0.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([-19.0, -20.0, -21.0, -900.0], dtype=torch.float64)
    counts = torch.ones(4, dtype=torch.bool)
    for sign in (-1.0, 1.0):
        loss = clipped_surrogate(logprobs, old, torch.full_like(old, sign), counts, total=1.0)
        (gradient,) = torch.autograd.grad(loss, logprobs)
        assert torch.isfinite(loss)
        limit = math.exp(20) if sign < 0 else 0.0
        assert gradient.tolist() == pytest.approx([math.exp(19) if sign < 0 else 0.0, limit, limit, limit])
