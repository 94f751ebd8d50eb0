"""Products with weights that never change, in the kernel that is quickest on this machine."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

logger = logging.getLogger(__name__)
AUTO = "auto"
PRECISIONS = (AUTO, "float32", "bfloat16")
SMALL_NUMBERS = 64_000_000
"""Up to so many weights a model is small: an adapter is merged into its own copy of the weights it touches (fastest;
memory grows by those weights with each adapter). Above it the low-rank product is added at run time (memory grows by
the adapter alone), and weights are laid out as products are quickest."""
_PACKED_FOR_ROWS = 32
"""What oneDNN lays a weight out for; it is no slower at other numbers of rows."""
_TRIED_SHAPE, _TRIED_ROWS, _TRIES = (4_096, 1_024), 8, 5


class Product(Protocol):
    """x W^T + b, (..., in) -> (..., out), in the weight's own precision."""

    def __call__(self, x: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Dense:
    """By whatever torch takes for it."""

    weight: Tensor  # out in
    bias: Tensor | None  # out

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Mergeable(Dense):
    """Whose weight an adapter is added to."""


class TwoHalves:
    """Float32 in and out of a bfloat16 weight, on a GPU.

    x goes in as two bfloat16 numbers, the second what the first left of it: 16 bits of mantissa, summed in float32.
    """

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        high = rows.to(self._weight.dtype)
        halves = torch.cat([high, (rows - high.float()).to(self._weight.dtype)])
        both = torch.mm(halves, self._weight.t(), out_dtype=torch.float32)
        return (both[: len(rows)] + both[len(rows) :]).view(*x.shape[:-1], -1)


class Packed:
    """By oneDNN, with the weight laid out for it once: as exact, and on some processors two to three times as fast."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _PACKED_FOR_ROWS)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        return found


LayOut = Callable[[Tensor, Tensor | None], Product]
"""A weight (out, in) and a bias (out) as a product."""


@lru_cache
def packs_well(precision: torch.dtype) -> bool:
    """Whether products of this process are quicker with packed weights, by trying it (some milliseconds, once)."""
    weight, x = torch.zeros(_TRIED_SHAPE, dtype=precision), torch.zeros(_TRIED_ROWS, _TRIED_SHAPE[1], dtype=precision)
    try:
        packed = Packed(weight, None)
        return _measure(lambda: packed(x)) < _measure(lambda: F.linear(x, weight))
    except (AttributeError, RuntimeError):  # a torch without oneDNN, or a processor that it does not know
        return False


def choose_precision(asked: str, *, device: str) -> torch.dtype:
    """What a model's linears compute in: "auto" is bfloat16 on a GPU, and float32 on a processor."""
    if asked == AUTO:
        return torch.bfloat16 if device == "cuda" else torch.float32
    if asked == "bfloat16" and device == "cpu" and not is_quicker_in_half():
        logger.warning("bfloat16 was asked for, but this processor multiplies no faster in it")
    return getattr(torch, asked)  # type: ignore[no-any-return]


@lru_cache
def is_quicker_in_half() -> bool:
    """Whether bfloat16 pays on this processor, by trying it: where it only imitates it, it does not."""
    times = []
    for precision in (torch.float32, torch.bfloat16):
        weight = torch.zeros(_TRIED_SHAPE, dtype=precision)
        x = torch.zeros(_TRIED_ROWS, _TRIED_SHAPE[1], dtype=precision)
        product = Packed(weight, None) if packs_well(precision) else Dense(weight, None)
        times.append(_measure(partial(product, x)))
    return times[1] < 0.75 * times[0]


def _measure(work: Callable[[], object]) -> float:
    """Seconds of the quickest of some tries."""
    times = []
    for _ in range(_TRIES + 1):
        began_s = time.perf_counter()
        work()
        times.append(time.perf_counter() - began_s)
    return min(times[1:])
