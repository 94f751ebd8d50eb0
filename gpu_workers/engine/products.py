"""Products with weights that never change, in the kernel that is quickest on this machine."""

import ctypes
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, Protocol

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
_TRIED_SHAPE, _TRIED_ROWS, _TRIES = (16_384, 1_024), 8, 7
"""Of a product that is tried: no cache holds its weight, as none holds a model's."""
_MUCH = 0.75
"""Of float32's time, which bfloat16 takes at most where it pays."""
_WHOLE, _HALF = 3, 2
"""Numbers of bfloat16's 8 bits that hold the 24 of a float32, and 16 of them."""
_BLOCK, _GROUP, _MOST_ROWS, _TILE = 64, 1_024, 64, 16
"""`InParts`: columns that its kernel takes at a time; columns and rows that are added up while they are near; rows
of a tile of the processor's, so that few numbers of rows want a kernel of their own."""
_HIGH_BITS = -(2**16)
"""Of a float32, those that a bfloat16 has."""
_SYMBOLS = {
    "multiply": "_ZN2at6native7cpublas6brgemmEllllllbPKN3c108BFloat16ES5_Pfb",
    "release": "_ZN2at6native7cpublas14brgemm_releaseEb",
    "is_known": "_ZN2at6native7cpublas10could_packEN3c1010ScalarTypeE",
}
_BFLOAT16 = 15
"""c10::ScalarType::BFloat16."""


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


class Kernel(NamedTuple):
    """at::native::cpublas::brgemm of bfloat16 into float32 (ATen/native/CPUBlas.h), and what ends a series of it."""

    multiply: Callable[..., None]
    release: Callable[..., None]


@lru_cache
def find_kernel() -> Kernel | None:
    """oneDNN's product of bfloat16 numbers whose sums stay float32, which torch uses inside and lends by no operator.

    None where this torch has none of that name, or not for this processor.
    """
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        found = {name: library[symbol] for name, symbol in _SYMBOLS.items()}
    except (OSError, AttributeError):
        return None
    size, place, flag = ctypes.c_int64, ctypes.c_void_p, ctypes.c_bool
    found["multiply"].argtypes, found["multiply"].restype = [*[size] * 6, flag, place, place, place, flag], None
    found["release"].argtypes, found["release"].restype = [flag], None
    found["is_known"].argtypes, found["is_known"].restype = [ctypes.c_int8], flag
    return Kernel(found["multiply"], found["release"]) if found["is_known"](_BFLOAT16) else None


class InParts:
    """Float32 in and out of a bfloat16 weight, on a processor that multiplies bfloat16 numbers.

    x goes in as several bfloat16 numbers, each what those before left of it; each product of two bfloat16 numbers is a
    float32, and so are the sums. Three parts are all of x, and as exact as float32; two are 16 bits of it. The weight
    is read as it is stored.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, kernel: Kernel, parts: int = _WHOLE) -> None:
        out, self._padding = weight.shape[0], weight.shape[1] % 2
        blocks, width = -(-out // _BLOCK), weight.shape[1] + self._padding
        filled = torch.zeros(blocks * _BLOCK, width, dtype=torch.bfloat16)
        filled[:out, : weight.shape[1]] = weight
        # columns of a block side by side, two of their numbers at a time: blocks, in / 2, 64, 2
        self._blocks = filled.view(blocks, _BLOCK, width // 2, 2).transpose(1, 2).contiguous()
        places = [ctypes.c_void_p(block.data_ptr()) for block in self._blocks]
        together = _GROUP // _BLOCK
        self._groups = [places[start : start + together] for start in range(0, blocks, together)]
        self._bias, self._kernel, self._parts, self._out, self._width = bias, kernel, parts, out, width

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if self._padding:
            rows = F.pad(rows, (0, self._padding))
        y = rows.new_empty(len(rows), self._out)
        for start in range(0, len(rows), _MOST_ROWS):
            self._multiply(rows[start : start + _MOST_ROWS], y[start : start + _MOST_ROWS])
        self._kernel.release(True)
        if self._bias is not None:
            y += self._bias
        return y.view(*x.shape[:-1], self._out)

    def _multiply(self, x: Tensor, y: Tensor) -> None:
        count, width = len(x), self._width
        used = -(-self._parts * count // _TILE) * _TILE  # what comes of the rows behind those that count is not read
        parts, sums = x.new_empty(used, width, dtype=torch.bfloat16), x.new_empty(used, _GROUP)
        for last, part in zip(range(self._parts - 1, -1, -1), torch.split(parts, count), strict=False):
            begin = _cut(x) if last else x
            part.copy_(begin)
            x = x - begin if last else x
        terms = sums[: self._parts * count].view(self._parts, count, _GROUP)
        multiply = partial(
            self._kernel.multiply, *map(ctypes.c_int64, (used, _BLOCK, width, width, _BLOCK, _GROUP)),
            ctypes.c_bool(False), ctypes.c_void_p(parts.data_ptr()),
        )  # fmt: skip
        written = [ctypes.c_void_p(sums.data_ptr() + 4 * column) for column in range(0, _GROUP, _BLOCK)]
        is_packed = ctypes.c_bool(True)
        for columns, blocks in zip(torch.split(y, _GROUP, 1), self._groups, strict=True):
            for block, place in zip(blocks, written, strict=False):
                multiply(block, place, is_packed)
            first, second, *rest = terms[:, :, : columns.shape[1]]
            torch.add(first, second, out=columns)
            for term in rest:
                columns += term


def _cut(x: Tensor) -> Tensor:
    """What a bfloat16 holds of each float32, without rounding."""
    return x.view(torch.int32).bitwise_and(_HIGH_BITS).view(torch.float32)


LayOut = Callable[[Tensor, Tensor | None, torch.dtype], Product]
"""A weight (out, in) as it is stored and a bias (out) as a product in a precision."""


def lay_out_plainly(make: Callable[[Tensor, Tensor | None], Product]) -> LayOut:
    """Made of a weight in the product's own precision."""
    return lambda weight, bias, precision: make(weight.to(precision), bias)


def lay_out_well(weight: Tensor, bias: Tensor | None, precision: torch.dtype) -> Product:
    """As is quickest on this processor; see `flows_in`."""
    if torch.bfloat16 in (weight.dtype, precision) and (kernel := choose_kernel()) is not None:
        return InParts(weight.bfloat16(), bias, kernel, _HALF if precision == torch.bfloat16 else _WHOLE)
    return lay_out_plainly(_choose_whole(precision))(weight, bias, precision)


def flows_in(precision: torch.dtype, lay_out: LayOut) -> torch.dtype:
    """What products with weights of a precision read and put out on this processor."""
    return torch.float32 if lay_out is lay_out_well and choose_kernel() is not None else precision


@lru_cache
def packs_well(precision: torch.dtype) -> bool:
    """Whether products of this process are quicker with packed weights, by trying it (a tenth of a second, once)."""
    weight, x = torch.zeros(_TRIED_SHAPE, dtype=precision), torch.zeros(_TRIED_ROWS, _TRIED_SHAPE[1], dtype=precision)
    try:
        packed = Packed(weight, None)
        return _is_quicker(lambda: packed(x), lambda: F.linear(x, weight))
    except (AttributeError, RuntimeError):  # a torch without oneDNN, or a processor that it does not know
        return False


def _choose_whole(precision: torch.dtype) -> Callable[[Tensor, Tensor | None], Product]:
    """What is quickest of those that take weights in their own precision."""
    return Packed if packs_well(precision) else Dense


@lru_cache
def choose_kernel() -> Kernel | None:
    """What `InParts` is computed by, where that is quicker than float32 weights, by trying it once as above."""
    if (kernel := find_kernel()) is None:
        return None
    weight, x = torch.zeros(_TRIED_SHAPE), torch.zeros(_TRIED_ROWS, _TRIED_SHAPE[1])
    whole = _choose_whole(torch.float32)(weight, None)
    split = InParts(weight.bfloat16(), None, kernel)
    return kernel if _is_quicker(lambda: split(x), lambda: whole(x)) else None


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
    products = []
    for precision in (torch.bfloat16, torch.float32):
        weight = torch.zeros(_TRIED_SHAPE, dtype=precision)
        x = torch.zeros(_TRIED_ROWS, _TRIED_SHAPE[1], dtype=precision)
        products.append(partial(_choose_whole(precision)(weight, None), x))
    return _is_quicker(products[0], products[1], share=_MUCH)


def _is_quicker(one: Callable[[], object], other: Callable[[], object], *, share: float = 1.0) -> bool:
    """Whether it takes less than a share of the other's time, by the quickest of some tries in turns.

    A single thread is timed by what it computes: a machine with other work makes it wait.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times: tuple[list[float], list[float]] = [], []
    for _ in range(_TRIES + 1):
        for work, taken in zip((one, other), times, strict=True):
            began_s = clock()
            work()
            taken.append(clock() - began_s)
    return min(times[0][1:]) < share * min(times[1][1:])
