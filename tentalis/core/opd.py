"""On-policy distillation as pure functions: how a teacher who reads the hint moves each token."""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple


class SupportToken(NamedTuple):
    """One token of the top-K support at one position.

    Args:
        weight: the behaviour policy's probability renormalised over the support; sums to 1 at a position.
        advantage: weight times the clipped gap, dimensionless.
    """

    weight: float
    advantage: float


def token_opd_advantages(
    teacher_logprobs: Sequence[float], old_logprobs: Sequence[float], sampled: Sequence[bool], *, gap_max: float = 3.0
) -> list[float]:
    """How much likelier the hinted teacher finds each sampled token: A_t = clip(l_teacher - l_old, +-gap_max).

    Args:
        teacher_logprobs: (T,) nats, of the tokens taken, given prompt and hint.
        old_logprobs: (T,) nats, behaviour policy, given the prompt alone.
        sampled: (T,) False for tool results, which get 0.
        gap_max: nats.
    Returns:
        (T,) nats.
    Raises:
        ValueError: the lengths differ or gap_max is not positive.
    Source:
        On-policy distillation as a per-token advantage, OpenClaw-RL, arXiv:2603.10165; the clip is ours.
    """
    if not len(teacher_logprobs) == len(old_logprobs) == len(sampled):
        raise ValueError(
            "teacher_logprobs, old_logprobs and sampled must be of one length, "
            f"found {len(teacher_logprobs)}, {len(old_logprobs)} and {len(sampled)}"
        )
    if gap_max <= 0:
        raise ValueError(f"gap_max must be positive, found {gap_max}")
    return [
        min(gap_max, max(-gap_max, teacher - old)) if counts else 0.0
        for teacher, old, counts in zip(teacher_logprobs, old_logprobs, sampled, strict=True)
    ]


def top_k_advantages(
    old_logprobs: Sequence[float], teacher_logprobs: Sequence[float], *, gap_max: float = 1.0
) -> list[SupportToken]:
    """Advantages over the behaviour policy's top-k tokens at one position: A_v = clip(l_T - l_old, +-gap_max) * w_v.

    Args:
        old_logprobs: (K,) nats, behaviour policy on its own top-k tokens S.
        teacher_logprobs: (K,) nats, hinted teacher on the same tokens.
    Returns:
        (K,) in the order given.
    Raises:
        ValueError: the lengths differ, or S is empty.
    Source:
        The top-K hybrid of OpenClaw-RL, arXiv:2603.10165 v2.
    """
    if not old_logprobs or len(old_logprobs) != len(teacher_logprobs):
        raise ValueError(
            "old_logprobs and teacher_logprobs must be of one length above 0, "
            f"found {len(old_logprobs)} and {len(teacher_logprobs)}"
        )
    highest = max(old_logprobs)
    exps = [math.exp(value - highest) for value in old_logprobs]
    total = sum(exps)
    return [
        SupportToken(exp / total, min(gap_max, max(-gap_max, teacher - old)) * exp / total)
        for exp, old, teacher in zip(exps, old_logprobs, teacher_logprobs, strict=True)
    ]


def choose_hint(old_top: Sequence[Collection[int]], teacher_tops: Sequence[Sequence[Collection[int]]]) -> int:
    """The hint whose teacher stays nearest to what the policy would say: argmax_h sum_t |S_old,t ∩ S_h,t|.

    Args:
        old_top: (T,) top-k token ids of the behaviour policy.
        teacher_tops: (H, T) top-k token ids of the teacher under each candidate hint.
    Returns:
        Index of the hint; the first of equals.
    Raises:
        ValueError: there is no hint, or one covers another number of positions than `old_top`.
    """
    if not teacher_tops:
        raise ValueError("choose_hint wants at least one candidate hint, found none")
    for index, tops in enumerate(teacher_tops):
        if len(tops) != len(old_top):
            raise ValueError(f"hint {index} covers {len(tops)} positions, the policy {len(old_top)}")
    overlaps = [sum(len(set(old) & set(top)) for old, top in zip(old_top, tops, strict=True)) for tops in teacher_tops]
    return overlaps.index(max(overlaps))
