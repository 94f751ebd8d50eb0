"""Kernels for a GPU, in Triton: what a compiler makes of these chains reads and writes twice as much.

Only imported where `fusing.has_kernels` says so. Each computes in float32 what the plain functions beside its callers
compute, and is held to them.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

WORDS_AT_ONCE = 4096
GATES_AT_ONCE = 1024


def weigh_(logits: Tensor, *, writes: bool) -> tuple[Tensor, Tensor]:
    """Log-sum-exp and entropy in nats, float32 (n,), of logits (n, V), gathered in one pass from the largest so far.

    Args:
        writes: turn the logits into their distribution, where they lie: they are read once more and written once.
    """
    count, words = logits.shape
    sums = torch.empty(count, dtype=torch.float32, device=logits.device)
    entropies = torch.empty_like(sums)
    if count:
        _weigh[(count,)](logits, sums, entropies, words, logits.stride(0), writes, BLOCK=WORDS_AT_ONCE, num_warps=8)
    return sums, entropies


def run_gate(gate_up: Tensor) -> Tensor:
    """silu(gate) * up, of gate and up side by side (N, 2 D): (N, D)."""
    gate_up = gate_up.contiguous()
    count, inner = gate_up.shape[0], gate_up.shape[1] // 2
    gated = gate_up.new_empty(count, inner)
    if count:
        grid = (count, triton.cdiv(inner, GATES_AT_ONCE))
        _gate[grid](gate_up, gated, inner, BLOCK=GATES_AT_ONCE, num_warps=4)
    return gated


def run_gate_back(gate_up: Tensor, by_gated: Tensor) -> Tensor:
    """The gradient of the same by gate and up (N, 2 D), of that by what came out (N, D)."""
    gate_up, by_gated = gate_up.contiguous(), by_gated.contiguous()
    count, inner = by_gated.shape
    by_gate_up = torch.empty_like(gate_up)
    if count:
        grid = (count, triton.cdiv(inner, GATES_AT_ONCE))
        _gate_back[grid](gate_up, by_gated, by_gate_up, inner, BLOCK=GATES_AT_ONCE, num_warps=4)
    return by_gate_up


@triton.jit
def _weigh(logits, sums, entropies, words, stride, WRITES: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    places = tl.arange(0, BLOCK)
    most = tl.full([BLOCK], -1.0e30, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)  # of exp(x - most)
    mean = tl.zeros([BLOCK], tl.float32)  # of exp(x - most) * (x - most)
    coming = tl.load(logits + places, mask=places < words, other=-1.0e30)
    for start in range(0, words, BLOCK):
        x = coming.to(tl.float32)
        is_word = start + places < words
        ahead = start + BLOCK + places
        coming = tl.load(logits + ahead, mask=ahead < words, other=-1.0e30)  # under way while these are added
        is_more = x > most
        gap = tl.where(is_more, most - x, x - most)  # never above 0
        share = tl.exp(gap)
        counts = tl.where(is_word, 1.0, 0.0)
        mean = tl.where(is_more, (mean + total * gap) * share, mean + share * gap * counts)
        total = tl.where(is_more, total * share + 1.0, total + share * counts)
        most = tl.maximum(most, x)
    highest = tl.max(most, 0)
    gap = most - highest
    share = tl.exp(gap)
    whole = tl.sum(total * share, 0)
    deep = tl.sum((mean + total * gap) * share, 0)
    log_whole = tl.log(whole)
    log_sum = highest + log_whole
    tl.store(sums + row, log_sum)
    tl.store(entropies + row, log_whole - deep / whole)
    if WRITES:
        for start in range(0, words, BLOCK):
            is_word = start + places < words
            x = tl.load(logits + start + places, mask=is_word, other=0.0).to(tl.float32)
            tl.store(logits + start + places, tl.exp(x - log_sum), mask=is_word)


@triton.jit
def _gate(gate_up, gated, inner, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_inside = place < inner
    gate = tl.load(gate_up + row * 2 * inner + place, mask=is_inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * inner + inner + place, mask=is_inside, other=0.0).to(tl.float32)
    tl.store(gated + row * inner + place, gate * tl.sigmoid(gate) * up, mask=is_inside)


@triton.jit
def _gate_back(gate_up, by_gated, by_gate_up, inner, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_inside = place < inner
    gate = tl.load(gate_up + row * 2 * inner + place, mask=is_inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * inner + inner + place, mask=is_inside, other=0.0).to(tl.float32)
    by = tl.load(by_gated + row * inner + place, mask=is_inside, other=0.0).to(tl.float32)
    share = tl.sigmoid(gate)
    by_gate = by * up * share * (1.0 + gate * (1.0 - share))
    tl.store(by_gate_up + row * 2 * inner + place, by_gate, mask=is_inside)
    tl.store(by_gate_up + row * 2 * inner + inner + place, by * gate * share, mask=is_inside)
