"""Losses over whole answers: pairs (DPO, IPO), single judged answers (KTO), demonstrations (SFT). They know no model.

An answer's `gain` is the log-probability it won since the reference policy, in nats, summed over the tokens that count:
sum_t log pi(a_t) - log pi_ref(a_t). Losses are weighted sums divided by `total`, the examples of the whole update, so
that micro-batches add up and who is trusted less moves less.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def sum_answers(values: Tensor, counts: Tensor, sizes: Sequence[int]) -> Tensor:
    """Sums of the counted values of each answer.

    Args:
        values: (N,) of all answers end to end; what does not count may be anything, NaN too.
        counts: (N,) bool.
        sizes: tokens of each of the C answers; they sum to N.
    Returns:
        (C,).
    Raises:
        ValueError: the shapes do not fit.
    """
    if values.dim() != 1 or counts.shape != values.shape or sum(sizes) != values.shape[0]:
        raise ValueError(
            f"wanted values and counts (N,) and sizes that sum to N, found {tuple(values.shape)}, "
            f"{tuple(counts.shape)} and {sum(sizes)}"
        )
    lengths = torch.tensor(sizes, device=values.device)
    owners = torch.repeat_interleave(torch.arange(len(sizes), device=values.device), lengths)  # N
    return values.new_zeros(len(sizes)).index_add(0, owners, torch.where(counts, values, 0.0))


def dpo(chosen: Tensor, rejected: Tensor, weights: Tensor, *, beta: float, total: float) -> Tensor:
    """-log sigmoid(beta (chosen - rejected)), weighted.

    Args:
        chosen, rejected: (B,) gains of the two answers of each pair, with gradient.
        weights: (B,) trust in each pair, >= 0.
        beta: > 0, per nat; the smaller, the farther the policy may go from the reference.
    Source:
        Direct preference optimization, arXiv:2305.18290, equation 7.
    """
    _require_answers(chosen, rejected=rejected, weights=weights)
    return -(weights * F.logsigmoid(beta * (chosen - rejected))).sum() / total


def ipo(chosen: Tensor, rejected: Tensor, weights: Tensor, *, beta: float, total: float) -> Tensor:
    """((chosen - rejected) - 1 / (2 beta))^2, weighted: the margin is drawn to a value, never to infinity.

    Args:
        chosen, rejected, weights: (B,), as for `dpo`.
        beta: tau of the paper.
    Source:
        A general theoretical paradigm to understand learning from human preferences, arXiv:2310.12036, equation 17.
        Log-probabilities are summed over an answer, as there; others average them.
    """
    _require_answers(chosen, rejected=rejected, weights=weights)
    return (weights * (chosen - rejected - 1 / (2 * beta)).square()).sum() / total


def kto(gains: Tensor, is_good: Tensor, weights: Tensor, *, drift: float, beta: float, total: float) -> Tensor:
    """w (1 - sigmoid(beta (gain - drift))) for good answers, w (1 - sigmoid(beta (drift - gain))) for bad ones.

    Args:
        gains: (B,) of single answers, with gradient.
        is_good: (B,) bool.
        weights: (B,) lambda of the answer's side times trust in its judgement, >= 0.
        drift: z_0, nats: how far the policy went from the reference on answers that belong to other prompts; see
            `estimate_drift`. It has no gradient.
    Source:
        KTO: model alignment as prospect theoretic optimization, arXiv:2402.01306, equation 8.
    """
    _require_answers(gains, is_good=is_good, weights=weights)
    return (weights * (1 - torch.sigmoid(beta * torch.where(is_good, gains - drift, drift - gains)))).sum() / total


def estimate_drift(mismatched: Tensor) -> float:
    """z_0 of KTO: max(0, mean gain) in nats of answers after prompts that are not theirs; 0 of none.

    Args:
        mismatched: (M,) gains.
    Source:
        arXiv:2402.01306, section 4.1.
    """
    return max(0.0, float(mismatched.mean())) if mismatched.numel() else 0.0


def balance_sides(good: float, bad: float, *, desirable: float = 1.0, undesirable: float = 1.0) -> tuple[float, float]:
    """lambda_D and lambda_U: both sides weigh the same in sum, times what was asked of each; else as much as before.

    A side that has nobody leaves the other at its own weight.

    Args:
        good, bad: sums of the trust in each side's judgements, which multiplies a lambda in the loss: a judgement that
            is trusted by half is half a one.
    Source:
        arXiv:2402.01306, section 4.2: lambda_D n_D / (lambda_U n_U) lies about 1.
    """
    if not good or not bad:
        return desirable, undesirable
    return desirable * (good + bad) / (2 * good), undesirable * (good + bad) / (2 * bad)


def share_of_good(good: float, bad: float, *, weights: tuple[float, float]) -> float:
    """Share of all weight that good answers have: lambda_D n_D / (lambda_D n_D + lambda_U n_U), in [0, 1].

    Args:
        good, bad: n_D and n_U, each judgement as it is trusted, not both 0; weights: lambda_D and lambda_U.
    """
    return weights[0] * good / (weights[0] * good + weights[1] * bad)


def imitation(logprobs: Tensor, weights: Tensor, *, total: float) -> Tensor:
    """-w log pi(answer).

    Args:
        logprobs: (B,) nats, summed over an answer, or their mean a token, with gradient.
        weights: (B,) >= 0.
        total: counted tokens of the update for sums, answers for means.
    """
    _require_answers(logprobs, weights=weights)
    return -(weights * logprobs).sum() / total


def count_right(chosen: Tensor, rejected: Tensor) -> float:
    """How many pairs the gains order as people did; a tie is half a pair."""
    _require_answers(chosen, rejected=rejected)
    return float((chosen > rejected).sum() + 0.5 * (chosen == rejected).sum())


def _require_answers(values: Tensor, **others: Tensor) -> None:
    if values.dim() != 1:
        raise ValueError(f"wanted one number an answer (B,), found shape {tuple(values.shape)}")
    for name, other in others.items():
        if other.shape != values.shape:
            raise ValueError(f"{name} must have shape {tuple(values.shape)}, found {tuple(other.shape)}")
