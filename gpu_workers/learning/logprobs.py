"""Log-probabilities and entropies of chosen tokens, read off hidden states without all logits at once."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from gpu_workers.learning.fusing import fused, has_kernels
from tentalis.core.sizes import SINGLE_BYTES

MOST_LOGITS = 2**26
"""Logits that are there at a time: at 150,000 words, those of 440 tokens in a quarter of a gigabyte."""
FEW_LOGITS = 2**21
"""Of these, log-probs that are there at a time on a processor: what is computed of a few rows fits its cache, and
logits turn into chances where they lie."""
GPU_BYTES_A_LOGIT = 160
"""Of a GPU's memory, so that its blocks are large enough to be products of full speed: they take a 25th of it."""


def find_most_logits(device: torch.device) -> int:
    """Logits that are there at a time on this device."""
    if device.type != "cuda":
        return MOST_LOGITS
    return int(torch.cuda.get_device_properties(device).total_memory // GPU_BYTES_A_LOGIT)


def count_reading_bytes(count: int, head: Tensor) -> int:
    """What `token_logprobs` takes for a moment to read so many tokens, about."""
    logits, number_bytes = count * head.shape[0], head.element_size()
    there = min(find_most_logits(head.device), logits)
    if head.device.type == "cuda":
        return there * (2 * SINGLE_BYTES + 2 * number_bytes)
    return there * number_bytes + 3 * SINGLE_BYTES * min(FEW_LOGITS, logits)


class TokenLogprobs(NamedTuple):
    """Per token, in nats.

    Args:
        logprobs: (N,) natural log-probability of the token that was taken.
        entropies: (N,) entropy of the distribution it was taken from.
        support: (N, K) log-probabilities of the tokens asked for beside it; None where none were.
    """

    logprobs: Tensor
    entropies: Tensor
    support: Tensor | None = None


def token_logprobs(
    hidden: Tensor,
    head: Tensor,
    token_ids: Tensor,
    *,
    support_ids: Tensor | None = None,
    entropy_has_gradient: bool = False,
    most_logits: int | None = None,
) -> TokenLogprobs:
    """Log-probs of the taken tokens and entropies, of the softmax over the states' plain logits.

    Args:
        hidden: (N, D), the states that predict the tokens.
        head: (V, D), frozen: no gradient flows to it.
        token_ids: (N,) int64.
        support_ids: (N, K) int64, further tokens to read at each position.
        entropy_has_gradient: False when entropies are only looked at.
        most_logits: numbers of an (n, V) block; the results do not depend on it. None: as the device likes.
    Raises:
        ValueError: the shapes do not fit, or the head wants a gradient.
    """
    if hidden.dim() != 2 or head.shape[1:] != hidden.shape[1:] or token_ids.shape != hidden.shape[:1]:
        raise ValueError(
            f"wanted hidden (N, D), head (V, D) and token_ids (N,), found {tuple(hidden.shape)}, {tuple(head.shape)} "
            f"and {tuple(token_ids.shape)}"
        )
    if head.requires_grad:
        raise ValueError("the head must be frozen, found one that wants a gradient")
    most_logits = find_most_logits(hidden.device) if most_logits is None else most_logits
    found: tuple[Tensor, Tensor, Tensor | None] = _Reading.apply(  # type: ignore[no-untyped-call]
        hidden, head, token_ids, support_ids, entropy_has_gradient, max(1, most_logits // head.shape[0])
    )
    return TokenLogprobs(*found)


class _Reading(torch.autograd.Function):
    """Blocks of rows, of which only (N, D) is kept for the backward pass.

    With p the distribution at a token, W the head and m = p W, the gradients by the hidden state are W[y] - m for the
    log-prob of token y, and -((p log p) W + H m) for the entropy H: products of the size of the forward one, made while
    the block is there.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        head: Tensor,
        token_ids: Tensor,
        support_ids: Tensor | None,
        entropy_has_gradient: bool,
        rows: int,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        learns, count, (words, width) = ctx.needs_input_grad[0], len(hidden), head.shape
        exact = torch.promote_types(hidden.dtype, torch.float32)
        taken, entropy = hidden.new_empty(count, dtype=exact), hidden.new_empty(count, dtype=exact)
        support = None if support_ids is None else hidden.new_empty(support_ids.shape, dtype=exact)
        means = hidden.new_empty(count, width, dtype=exact) if learns else None
        slopes = hidden.new_empty(count, width, dtype=exact) if learns and entropy_has_gradient else None
        is_fused = hidden.is_cuda and slopes is None
        spaces = hidden.new_empty(0 if is_fused else 1 if slopes is None else 2, min(rows, count), words)
        for start in range(0, count, rows):
            block = slice(start, min(start + rows, count))
            if is_fused:
                logits = F.linear(hidden[block], head)
                picked = logits.gather(-1, token_ids[block, None])[:, 0]
                asked = None if support_ids is None else logits.gather(-1, support_ids[block])
                sums, entropy[block], weights = _weigh(logits, is_wanted=means is not None)
                taken[block] = picked - sums
                if support is not None and asked is not None:
                    support[block] = asked - sums[:, None]
                if means is not None:
                    means[block] = weights @ head
                continue
            chances, *weighted = spaces[:, : block.stop - start]  # one memory for all blocks
            torch.mm(hidden[block], head.T, out=chances)
            few = rows if hidden.is_cuda else max(1, FEW_LOGITS // words)
            for first in range(start, block.stop, few):
                part = slice(first, min(first + few, block.stop))
                here = slice(first - start, part.stop - start)
                logprobs = torch.log_softmax(chances[here], -1, dtype=exact)
                taken[part] = logprobs.gather(-1, token_ids[part, None])[:, 0]
                if support is not None and support_ids is not None:
                    support[part] = logprobs.gather(-1, support_ids[part])
                exps = logprobs.exp()
                chances[here] = exps
                products = exps.mul_(logprobs)
                entropy[part] = -products.sum(-1)
                for one in weighted:
                    one[here] = products
            if means is not None:
                means[block] = chances @ head
            if means is not None and slopes is not None:
                slopes[block] = -((weighted[0] @ head) + entropy[block, None] * means[block])
        ctx.save_for_backward(head, token_ids, support_ids, means, slopes)
        ctx.dtype = hidden.dtype
        if not entropy_has_gradient:
            ctx.mark_non_differentiable(entropy)
        return taken, entropy, support

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *wanted: Tensor | None) -> tuple[Tensor | None, ...]:
        by_taken, by_entropy, by_support = wanted
        head, token_ids, support_ids, means, slopes = ctx.saved_tensors
        gradient = torch.zeros_like(means)
        if by_taken is not None:
            gradient.addcmul_(by_taken[:, None], head[token_ids] - means)
        if by_support is not None:
            for place, of_place in zip(support_ids.T, by_support.T, strict=True):  # one at a time: (N, K, D) is large
                gradient.addcmul_(of_place[:, None], head[place] - means)
        if slopes is not None and by_entropy is not None:
            gradient.addcmul_(by_entropy[:, None], slopes)
        return gradient.to(ctx.dtype), None, None, None, None, None


def _weigh(logits: Tensor, *, is_wanted: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Log-sum-exp and entropy in nats of logits (n, V), float32 (n,), and, where it is wanted, the distribution in
    their precision, for which the logits may be given up."""
    if not has_kernels(logits):
        return _weigh_plainly(logits)
    from gpu_workers.learning import kernels  # Triton is only where a GPU is

    sums, entropies = kernels.weigh_(logits, writes=is_wanted)
    return sums, entropies, logits


@fused
def _weigh_plainly(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    exact = logits.float()
    most = exact.amax(-1, keepdim=True)
    shares = (exact - most).exp()
    total = shares.sum(-1, keepdim=True)
    mean = (shares * (exact - most)).sum(-1) / total[:, 0]
    return most[:, 0] + total[:, 0].log(), total[:, 0].log() - mean, (shares / total).to(logits.dtype)


@torch.inference_mode()
def rank_tokens(
    hidden: Tensor, head: Tensor, support_ids: Tensor, k: int, *, most_logits: int | None = None
) -> tuple[Tensor, Tensor]:
    """Log-probs of some tokens, and which are the likeliest.

    Args:
        hidden: (N, D); head: (V, D); support_ids: (N, K) int64.
    Returns:
        (N, K) in nats, and (N, k) int64, most likely first; all of them where there are fewer than k.
    """
    told, top = [], []
    most_logits = find_most_logits(hidden.device) if most_logits is None else most_logits
    rows, k = max(1, most_logits // head.shape[0]), min(k, head.shape[0])
    for states, asked in zip(torch.split(hidden, rows), torch.split(support_ids, rows), strict=True):
        logprobs = F.linear(states, head).to(torch.promote_types(hidden.dtype, torch.float32)).log_softmax(-1)
        told.append(logprobs.gather(-1, asked))
        top.append(logprobs.topk(k, -1).indices)
    return torch.cat(told), torch.cat(top)
