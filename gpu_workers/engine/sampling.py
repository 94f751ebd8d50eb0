"""Choosing tokens: one random number per (seed, choice, position), so that batching never changes what is drawn."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
LARGE_VOCABULARY = 8_192
"""Above so many tokens a row is sampled by itself, in one reading: up to it a whole batch at once is faster."""
_BLOCK = 512
_FIRST_KEPT = 256


def mix_bits(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser, a bijection on 64 bits (Steele, Lea and Flood, OOPSLA 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def derive_keys(seeds: Iterable[int], choices: Iterable[int]) -> NDArray[np.uint64]:
    """(B,) keys of the rows' random streams, from the seed of each one's request and its index there."""
    starts = mix_bits(np.array([seed & _ALL_BITS for seed in seeds], dtype=np.uint64) + _GOLDEN)
    return mix_bits(starts + (np.array([*choices], dtype=np.uint64) + np.uint64(1)) * _GOLDEN)


def draw_uniforms(keys: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.float32]:
    """(B,) numbers in [0, 1 - 2**-23], one per row; the same key and position always give the same number.

    Twenty-three bits, so that times any float32 total it stays below the total: no token of probability 0 is drawn.
    """
    bits = mix_bits(keys + (positions.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    return ((bits >> np.uint64(41)).astype(np.float32) * np.float32(2**-23)).astype(np.float32)


def to_device(values: NDArray[Any], device: torch.device) -> Tensor:
    """The same numbers there; a GPU is not waited for."""
    found = torch.from_numpy(values)
    return found if device.type == "cpu" else found.pin_memory().to(device, non_blocking=True)


class Knobs(NamedTuple):
    """How each row of a batch samples; `None` for a filter nobody in the batch asked for.

    Args:
        temperature: (B,) > 0; None when all are 1.
        top_k: (B,) tokens kept, vocabulary size for all.
        top_p: (B,) in (0, 1].
        is_greedy: (B,) True takes the most likely token.
    """

    temperature: Tensor | None
    top_k: Tensor | None
    top_p: Tensor | None
    is_greedy: Tensor | None


def sample_tokens(logits: Tensor, uniforms: Tensor, knobs: Knobs) -> tuple[Tensor, Tensor, Tensor]:
    """Draw one token a row by inverse CDF.

    Args:
        logits: (B, V) float32.
        uniforms: (B,) in [0, 1).
    Returns:
        tokens (B,) int64; scores (B, V) and totals (B,), of which the log-prob of a token is score - total, at the
        row's temperature before any filter: without one they are exactly the distribution that was sampled, which is
        what a ratio is taken to (vLLM's `processed_logprobs`). Greedy rows tell them at temperature 1.
    """
    if logits.device.type != "cpu":
        return sample_rows(logits, uniforms, knobs)
    if knobs.temperature is not None:
        logits = logits / knobs.temperature[:, None]
    if logits.shape[-1] > LARGE_VOCABULARY:
        drawn = [_sample_row(row, float(uniforms[index]), knobs, index) for index, row in enumerate(logits)]
        tokens = torch.tensor([token for token, _ in drawn], device=logits.device)
        return tokens, logits, torch.tensor([total for _, total in drawn], device=logits.device)
    logprobs = logits.log_softmax(-1)  # B V
    weights = logprobs.exp()
    if knobs.top_k is not None or knobs.top_p is not None:
        weights = _filter_probabilities(weights, knobs)
    cumulative = weights.cumsum_(-1)  # B V
    threshold = uniforms[:, None] * cumulative[:, -1:]  # B 1
    tokens = torch.searchsorted(cumulative, threshold, right=True)[:, 0].clamp_(max=logits.shape[-1] - 1)  # B
    if knobs.is_greedy is not None:
        tokens = torch.where(knobs.is_greedy, logits.argmax(-1), tokens)
    return tokens, logprobs, logprobs.new_zeros(len(tokens))


def add_up(logits: Tensor) -> Tensor:
    """(...,) the logarithm of what the weights exp(logits) (..., V) add up to.

    Float32 within a block, float64 over the blocks: over a large vocabulary torch's float32 `log_softmax` loses so much
    of a long tail that log-probs come out some 1e-5 to 1e-4 too high.
    """
    rest = -logits.shape[-1] % _BLOCK
    return _weigh(F.pad(logits, (0, rest), value=-math.inf) if rest else logits, _BLOCK)[1]


def _weigh(logits: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Weights (..., V / width, width) up to a factor, and the logarithm (...,) of what they add up to with it."""
    best = logits.amax(-1, keepdim=True)
    weights = (logits - best).exp_().view(*logits.shape[:-1], -1, width)
    return weights, best[..., 0] + weights.sum(-1).double().sum(-1).log().float()


def sample_rows(logits: Tensor, uniforms: Tensor, knobs: Knobs) -> tuple[Tensor, Tensor, Tensor]:
    """`sample_tokens` for all rows at once, without asking a GPU for a number in between."""
    if knobs.temperature is not None:
        logits = logits / knobs.temperature[:, None]
    count, size = logits.shape
    width = next(width for width in (512, 256, 128, 64, 32, 1) if size % width == 0)
    weights, totals = _weigh(logits, width)
    if knobs.top_k is not None or knobs.top_p is not None:
        whole = weights.view(count, size)
        weights = _filter_probabilities(whole / whole.sum(-1, keepdim=True), knobs).view(count, -1, width)
    ends = weights.sum(-1).double().cumsum(-1)  # B blocks
    wanted = uniforms.double()[:, None] * ends[:, -1:]
    block = torch.searchsorted(ends, wanted, right=True).clamp_(max=ends.shape[1] - 1)
    before = torch.where(block > 0, ends.gather(-1, (block - 1).clamp_(min=0)), 0.0)
    chosen = weights.gather(1, block[:, :, None].expand(-1, 1, width))[:, 0]  # B width
    place = torch.searchsorted(chosen.double().cumsum(-1), wanted - before, right=True)
    last = torch.where(chosen > 0, torch.arange(width, device=logits.device), 0).amax(-1, keepdim=True)
    tokens = (block * width + torch.minimum(place, last))[:, 0]
    if knobs.is_greedy is not None:
        tokens = torch.where(knobs.is_greedy, logits.argmax(-1), tokens)
    return tokens, logits, totals


def _sample_row(logits: Tensor, uniform: float, knobs: Knobs, index: int) -> tuple[int, float]:
    """One token of a large vocabulary (V,), and the logarithm of what its weights add up to.

    Each weight is read once, for the sums of blocks: float32 within a block, float64 over them, so that a long tail of
    small weights is not rounded away. Then the block is found in which the token lies, and the token there. What a
    filter keeps is selected, never sorted out of the whole row.
    """
    best, size = logits.max(), len(logits)
    if knobs.is_greedy is not None and bool(knobs.is_greedy[index]):
        return int(logits.argmax(-1)), float(torch.logsumexp(logits, -1))
    weights = logits.new_zeros(-(-size // _BLOCK), _BLOCK)  # the last block may end in zeros
    torch.exp(logits - best, out=weights.view(-1)[:size])
    sums = weights.sum(-1).double()
    total = float(sums.sum())
    log_total = float(best) + math.log(total) if total > 0 else math.nan
    if math.isnan(log_total):
        return 0, log_total
    most = size if knobs.top_k is None else int(knobs.top_k[index])
    share = 1.0 if knobs.top_p is None else float(knobs.top_p[index])
    if most < size or share < 1:
        kept, ids = _keep_likeliest(weights.view(-1)[:size], total, most, share)
        return int(ids[_find(kept, uniform * float(kept.sum()))]), log_total
    cumulative = sums.cumsum(-1)
    threshold = uniform * total
    block = _find(sums, threshold)
    before = float(cumulative[block - 1]) if block else 0.0
    return block * _BLOCK + _find(weights[block].double(), threshold - before), log_total


def _find(weights: Tensor, threshold: float) -> int:
    """The first place up to which weights (N,) add up to more than the threshold; the last that weighs anything where
    rounding left none."""
    place = int(torch.searchsorted(weights.cumsum(-1), weights.new_tensor(threshold), right=True))
    return place if place < len(weights) else int(weights.nonzero()[-1])


def _keep_likeliest(weights: Tensor, total: float, most: int, share: float) -> tuple[Tensor, Tensor]:
    """The weights (float64) and ids, heaviest first, of the `most` likeliest tokens, and of these of the fewest that
    have `share` of their probability."""
    count = most if most < len(weights) else _FIRST_KEPT
    kept, ids = weights.topk(count)
    summed = kept.double()
    whole = float(summed.sum()) if most < len(weights) else total
    while count < most and float(summed.sum()) < share * whole:
        count = min(most, 8 * count)
        kept, ids = weights.topk(count)
        summed = kept.double()
    if share < 1:
        fewest = int((summed.cumsum(-1) - summed < share * whole).sum())
        summed, ids = summed[:fewest], ids[:fewest]
    return summed, ids


def _filter_probabilities(probabilities: Tensor, knobs: Knobs) -> Tensor:
    ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
    drops = torch.zeros_like(ordered, dtype=torch.bool)
    if knobs.top_k is not None:
        drops |= torch.arange(ordered.shape[-1], device=ordered.device) >= knobs.top_k[:, None]
    if knobs.top_p is not None:
        kept = ordered.masked_fill(drops, 0.0)
        kept /= kept.sum(-1, keepdim=True)
        drops |= kept.cumsum(-1) - kept >= knobs.top_p[:, None]
    return torch.zeros_like(ordered).scatter_(-1, order, ordered.masked_fill_(drops, 0.0))
