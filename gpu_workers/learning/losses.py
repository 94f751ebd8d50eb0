"""Policy losses over single tokens. Each takes tensors and numbers, returns tensors, and knows no model.

`counts` is True where a token is part of the loss: the policy sampled it. Values elsewhere may be anything, NaN too;
they reach neither the loss nor a gradient. Sums are divided by `total`, the counted tokens of the whole update, so that
micro-batches add up; it defaults to the counted tokens given.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

LARGEST_LOG_RATIO = 20.0
"""Nats. Beyond it a ratio goes on as a straight line: its exponential would soon be infinite, and where the clip
lets nothing through, zero times infinity is NaN; a constant has no gradient where a bad token is to be pushed back."""


class PolicyDrift(NamedTuple):
    """How far the policy has moved from the one that sampled, over counted tokens.

    Args:
        clipped: () number of tokens whose ratio lies outside the clip range.
        max_ratio: () the largest ratio; 0 when nothing counts.
        divergence: () sum in nats of the k3 estimate of KL(behaviour || current), whose samples these are.
    """

    clipped: Tensor
    max_ratio: Tensor
    divergence: Tensor


def clipped_surrogate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    counts: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float | None = None,
    importance: Tensor | None = None,
    total: float | None = None,
) -> Tensor:
    """-min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A) per token, rho = exp(logprobs - old_logprobs).

    Args:
        logprobs: (..., T) nats, current policy, with gradient.
        old_logprobs: same shape, nats, as the engine returned them when it sampled.
        advantages: same shape; of the reward, or the teacher's gap for on-policy distillation.
        counts: same shape, bool.
        dual_clip: cap the loss of a token with A < 0 at dual_clip * |A|; None for no cap.
        importance: same shape, >= 0, without gradient: how much each token counts; None: all 1. See
            `truncated_importance`; `old_logprobs` are then those of the policy it was taken from.
    Source:
        PPO's clip (arXiv:1707.06347) per token with DAPO's higher upper clip and token mean (arXiv:2503.14476); dual
        clip from arXiv:1912.09729.
    """
    _require_tokens(logprobs, old_logprobs=old_logprobs, advantages=advantages, counts=counts)
    ratio = _ratio(logprobs, old_logprobs, counts)
    gain = torch.where(counts, advantages, 0.0)
    clipped_ratio = ratio.clamp(1 - clip_low, 1 + clip_high)
    loss = -torch.minimum(ratio * gain, clipped_ratio * gain)
    if dual_clip is not None:
        loss = torch.where(gain < 0, torch.minimum(loss, -dual_clip * gain), loss)
    if importance is not None:
        _require_tokens(logprobs, importance=importance)
        loss = loss * torch.where(counts, importance, 0.0).detach()
    return loss.sum() / _total(counts, total)


def truncated_importance(start_logprobs: Tensor, behaviour_logprobs: Tensor, counts: Tensor, *, cap: float) -> Tensor:
    """min(exp(start - behaviour), cap) per token: what a token sampled by an older policy counts; 0 where not counted.

    Args:
        start_logprobs: (..., T) nats, of the policy that the update starts from.
        behaviour_logprobs: same shape, nats, of the policy that sampled.
        cap: C >= 1.
    Source:
        Truncated importance sampling, Ionides 2008; per token beside a clipped loss as in decoupled PPO,
        arXiv:2110.00641, and AReaL, arXiv:2505.24298.
    """
    _require_tokens(start_logprobs, behaviour_logprobs=behaviour_logprobs, counts=counts)
    return torch.where(counts, _ratio(start_logprobs, behaviour_logprobs, counts).clamp(max=cap), 0.0)


def cispo(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    counts: Tensor,
    *,
    clip_high: float = 0.28,
    total: float | None = None,
) -> Tensor:
    """-stop_gradient(clip(rho, 0, 1 + clip_high)) * A * logprobs: clips the weight, never a token's gradient.

    Source:
        MiniMax-M1, arXiv:2506.13585.
    """
    _require_tokens(logprobs, old_logprobs=old_logprobs, advantages=advantages, counts=counts)
    ratio = _ratio(logprobs, old_logprobs, counts).detach()
    gain = torch.where(counts, advantages, 0.0)
    loss = -ratio.clamp(max=1 + clip_high) * gain * torch.where(counts, logprobs, 0.0)
    return loss.sum() / _total(counts, total)


def sequence_surrogate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    counts: Tensor,
    sizes: Sequence[int],
    *,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
    total: float | None = None,
) -> Tensor:
    """-min(s A, clip(s, 1 - clip_low, 1 + clip_high) A) per sequence, s = exp(mean of logprobs - old_logprobs).

    Args:
        logprobs, old_logprobs, advantages, counts: (N,), sequences end to end, as in `clipped_surrogate`. Where
            advantages differ within a sequence, each token's is multiplied by the sequence's s.
        sizes: tokens of each sequence; they sum to N.
        total: sequences of the whole update; None: those given that have a counted token.
    Source:
        GSPO, arXiv:2507.18071, eq. 5 and 7, by its token-level form (eq. 13 and 14), which has the same value and
        gradient where the advantages of a sequence are one number. Its clip range is the default.
    """
    _require_tokens(logprobs, old_logprobs=old_logprobs, advantages=advantages, counts=counts)
    if sum(sizes) != logprobs.shape[0]:
        raise ValueError(f"sizes must sum to {logprobs.shape[0]} tokens, found {sum(sizes)}")
    owners = torch.repeat_interleave(torch.tensor(sizes)).to(logprobs.device)  # N
    counted = logprobs.new_zeros(len(sizes)).index_add(0, owners, counts.to(logprobs.dtype))  # S
    gaps = torch.where(counts, logprobs - old_logprobs, 0.0)
    means = logprobs.new_zeros(len(sizes)).index_add(0, owners, gaps.detach()) / counted.clamp(min=1.0)
    gap = means[owners] + gaps - gaps.detach()  # the value of the sequence's, the gradient of the token's own
    near = gap.clamp(max=LARGEST_LOG_RATIO)
    ratio = near.exp() * (1 + gap - near)
    gain = torch.where(counts, advantages, 0.0)
    loss = (
        -torch.minimum(ratio * gain, ratio.clamp(1 - clip_low, 1 + clip_high) * gain) / counted.clamp(min=1.0)[owners]
    )
    return loss.sum() / (max(1.0, float((counted > 0).sum())) if total is None else max(1.0, total))


def weighted_imitation(logprobs: Tensor, weights: Tensor, counts: Tensor, *, total: float | None = None) -> Tensor:
    """-w * logprobs: supervised learning on what was done, weighted by how well it went.

    Args:
        weights: same shape as `logprobs`, >= 0, constant along an answer.
    """
    _require_tokens(logprobs, weights=weights, counts=counts)
    loss = -torch.where(counts, weights, 0.0) * torch.where(counts, logprobs, 0.0)
    return loss.sum() / _total(counts, total)


def k3_divergence(
    logprobs: Tensor, reference_logprobs: Tensor, counts: Tensor, *, total: float | None = None
) -> Tensor:
    """KL(policy || reference) by the k3 estimator, exp(d) - d - 1 with d = reference - current; never negative.

    It is an estimate where `logprobs` are those of the policy that sampled. Beyond d = LARGEST_LOG_RATIO it goes on as
    a straight line, so that a far token pulls back as hard as there and never infinitely.

    Source:
        J. Schulman, "Approximating KL divergence", 2020; used by GRPO, arXiv:2402.03300, which like us lets the
        gradient flow through it: on average the one of KL(reference || policy).
    """
    _require_tokens(logprobs, reference_logprobs=reference_logprobs, counts=counts)
    gap = torch.where(counts, reference_logprobs - logprobs, 0.0)
    near = gap.clamp(max=LARGEST_LOG_RATIO)
    return (near.exp() * (1 + gap - near) - gap - 1).sum() / _total(counts, total)


def mean_entropy(entropies: Tensor, counts: Tensor, *, total: float | None = None) -> Tensor:
    """Mean entropy in nats of the distributions the counted tokens were taken from."""
    _require_tokens(entropies, counts=counts)
    return torch.where(counts, entropies, 0.0).sum() / _total(counts, total)


def top_k_distillation(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    counts: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    importance: Tensor | None = None,
    total: float | None = None,
) -> Tensor:
    """The top-K hybrid: sum over the support of max(-A rho, -A clip(rho)), mean over counted positions.

    Args:
        importance: (N, K) as in `clipped_surrogate`; `old_logprobs` are then those of the policy it starts from.
        logprobs, old_logprobs, advantages: (N, K) on the behaviour policy's top-k tokens; advantages from
            `tentalis.core.opd.top_k_advantages`.
        counts: (N,) bool.
    Source:
        OpenClaw-RL, arXiv:2603.10165 v2.
    """
    if logprobs.dim() != 2 or counts.shape != logprobs.shape[:1]:
        raise ValueError(
            f"wanted logprobs (N, K) and counts (N,), found {tuple(logprobs.shape)} and {tuple(counts.shape)}"
        )
    spread_counts = counts[:, None].expand_as(logprobs)  # N K
    return clipped_surrogate(
        logprobs,
        old_logprobs,
        advantages,
        spread_counts,
        clip_low=clip_low,
        clip_high=clip_high,
        importance=importance,
        total=_total(counts, total),
    )


@torch.no_grad()
def measure_drift(
    logprobs: Tensor, old_logprobs: Tensor, counts: Tensor, *, clip_low: float = 0.2, clip_high: float = 0.28
) -> PolicyDrift:
    """What to watch about an update; the ratio is exp(logprobs - old_logprobs)."""
    _require_tokens(logprobs, old_logprobs=old_logprobs, counts=counts)
    ratio = torch.where(counts, _ratio(logprobs, old_logprobs, counts), 0.0)
    outside = counts & ((ratio < 1 - clip_low) | (ratio > 1 + clip_high))
    highest = ratio.max() if ratio.numel() else ratio.new_zeros(())
    return PolicyDrift(outside.sum(), highest, k3_divergence(old_logprobs, logprobs, counts, total=1.0))


def combine_losses(reward_loss: Tensor, hint_loss: Tensor, *, w_rl: float, w_opd: float) -> Tensor:
    """w_rl * reward_loss + w_opd * hint_loss; each is a mean over its own tokens."""
    return w_rl * reward_loss + w_opd * hint_loss


def _ratio(logprobs: Tensor, old_logprobs: Tensor, counts: Tensor) -> Tensor:
    """exp(logprobs - old_logprobs); from LARGEST_LOG_RATIO on its tangent, which stays finite and has a gradient."""
    gap = torch.where(counts, logprobs - old_logprobs, 0.0)
    near = gap.clamp(max=LARGEST_LOG_RATIO)
    return near.exp() * (1 + gap - near)


def _total(counts: Tensor, total: float | None) -> float:
    return max(1.0, float(counts.sum()) if total is None else total)


def _require_tokens(values: Tensor, **others: Tensor) -> None:
    """Refuse anything but one value per token: a scalar for a whole batch has no gradient to speak of."""
    if values.dim() == 0:
        raise ValueError("wanted one log-prob per token, found a scalar")
    for name, other in others.items():
        if other.shape != values.shape:
            raise ValueError(f"{name} must have shape {tuple(values.shape)}, found {tuple(other.shape)}")
    if "counts" in others and others["counts"].dtype != torch.bool:
        raise ValueError(f"counts must be bool, found {others['counts'].dtype}")
