"""Log-probabilities and entropies of chosen tokens."""

from typing import NamedTuple

import torch
from torch import Tensor


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
    logits: Tensor, token_ids: Tensor, *, support_ids: Tensor | None = None, entropy_has_gradient: bool = False
) -> TokenLogprobs:
    """Read the taken tokens' log-probs and the entropies off the logits that predicted them.

    Args:
        logits: (N, V) at temperature 1.
        token_ids: (N,) int64.
        support_ids: (N, K) int64, further tokens to read at each position.
        entropy_has_gradient: False when entropies are only looked at; nothing is kept for a backward pass then.
    Raises:
        ValueError: the shapes do not fit.
    """
    if logits.dim() != 2 or token_ids.shape != logits.shape[:1]:
        raise ValueError(
            f"wanted logits (N, V) and token_ids (N,), found {tuple(logits.shape)} and {tuple(token_ids.shape)}"
        )
    all_logprobs = logits.float().log_softmax(-1)  # N V
    taken = all_logprobs.gather(-1, token_ids[:, None])[:, 0]  # N
    support = None if support_ids is None else all_logprobs.gather(-1, support_ids)  # N K
    if entropy_has_gradient:
        entropies = -(all_logprobs.exp() * all_logprobs).sum(-1)
    else:
        seen = all_logprobs.detach()
        entropies = -seen.exp().mul_(seen).sum(-1)  # in place: a second (N, V) costs more than the sums
    return TokenLogprobs(taken, entropies, support)


def top_tokens(logits: Tensor, k: int) -> Tensor:
    """(N, V) -> (N, k) int64: the likeliest tokens, most likely first; all of them where there are fewer than k."""
    return logits.topk(min(k, logits.shape[-1]), -1).indices


def read_predictions(hidden: Tensor, head: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Logits of the tokens that the hidden states at (row, column) predict.

    Args:
        hidden: (B, T, D) final hidden states.
        head: (V, D).
        rows, columns: (N,) int64, where each predicting position lies.
    Returns:
        (N, V).
    """
    return torch.nn.functional.linear(hidden[rows, columns], head)
