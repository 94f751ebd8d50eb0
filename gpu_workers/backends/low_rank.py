"""Linear modules of a frozen model with a low-rank change each: products and gradients in few large operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


@dataclass(frozen=True)
class LowRank:
    """A weight's change, W + scale * b @ a, with gradient."""

    a: Tensor  # r in
    b: Tensor  # out r
    scale: float

    def merge(self, weight: Tensor) -> Tensor:
        """The changed weight (out, in)."""
        return torch.addmm(weight, self.b, self.a, alpha=self.scale)

    def add(self, y: Tensor, x: Tensor) -> Tensor:
        """What a module puts out (..., out) of x (..., in), changed."""
        return y + F.linear(F.linear(x, self.a.to(x.dtype)), self.b.to(x.dtype)) * self.scale


def apply_changed(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None], changes: Sequence[LowRank | None]
) -> Tensor:
    """What linear modules put out that read the same input, side by side.

    Args:
        x: (N, in); weights: (out, in) each, frozen; biases: (out,) each.
        changes: of each module; None: it is as it is.
    Returns:
        (N, sum of outs).
    """
    bias = join_biases(biases, weights)
    factors = [factor for change in changes if change is not None for factor in (change.a, change.b)]
    if not factors:
        return F.linear(x, join(weights), bias)
    scales = tuple(None if change is None else change.scale for change in changes)
    found: Tensor = _Changed.apply(x, tuple(weights), bias, scales, *factors)  # type: ignore[no-untyped-call]
    return found


class _Changed(torch.autograd.Function):
    """W x + B A x without a gradient of W, all modules in one product.

    The wide side of a product is the costly one to read and write. So where more goes out than comes in, A x stands
    beside x and B beside W, in one product; else A stands below W, and x is read once for both. Backwards the same the
    other way round. Only x and A x are kept.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weights: tuple[Tensor, ...],
        bias: Tensor | None,
        scales: tuple[float | None, ...],
        *factors: Tensor,
    ) -> Tensor:
        whole, down, up = join(weights), _stack_downs(factors, x.dtype), _place_ups(weights, scales, factors, x.dtype)
        outs, ins = whole.shape
        if outs > ins:
            read = x.new_empty(x.shape[0], ins + down.shape[0])
            read[:, :ins] = x
            torch.mm(x, down.T, out=read[:, ins:])
            y = F.linear(read, torch.cat([whole, up], 1), bias)
            ctx.save_for_backward(read, *factors)
        else:
            both = F.linear(x, torch.cat([whole, down]))
            low = both[:, outs:].contiguous()  # a view would keep the whole
            y = both[:, :outs].addmm_(low, up.T)
            if bias is not None:
                y.add_(bias)
            ctx.save_for_backward(x, low, *factors)
        ctx.weights, ctx.scales = weights, scales
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_y: Tensor) -> tuple[Tensor | None, ...]:
        whole = join(ctx.weights)
        outs, ins = whole.shape
        by_x = None
        if outs > ins:
            read, *factors = ctx.saved_tensors
            x, low = read[:, :ins], read[:, ins:]
        else:
            x, low, *factors = ctx.saved_tensors
        down, up = _stack_downs(factors, x.dtype), _place_ups(ctx.weights, ctx.scales, factors, x.dtype)
        if outs > ins:
            both = by_y @ torch.cat([whole, up], 1)
            by_low = both[:, ins:]
            by_x = both[:, :ins].addmm_(by_low, down) if ctx.needs_input_grad[0] else None
        else:
            by_low = by_y @ up
            if ctx.needs_input_grad[0]:
                by_x = torch.cat([by_y, by_low], 1) @ torch.cat([whole, down])
        by_down, by_up = by_low.T @ x, by_y.T @ low  # R in, out R
        found: list[Tensor] = []
        row = column = 0
        rest = iter(factors)
        for weight, scale in zip(ctx.weights, ctx.scales, strict=True):
            if scale is not None:
                a, b = next(rest), next(rest)
                rank = a.shape[0]
                found.append(by_down[column : column + rank].to(a.dtype))
                found.append(by_up[row : row + weight.shape[0], column : column + rank].to(b.dtype) * scale)
                column += rank
            row += weight.shape[0]
        return by_x, None, None, None, *found


def join(parts: Sequence[Tensor]) -> Tensor:
    """Tensors one below the other; a single one as it is."""
    return torch.cat(list(parts)) if len(parts) > 1 else parts[0]


def join_biases(biases: Sequence[Tensor | None], weights: Sequence[Tensor]) -> Tensor | None:
    """The biases of these weights end to end, 0 where one has none; None where none has one."""
    if all(bias is None for bias in biases):
        return None
    return join([w.new_zeros(w.shape[0]) if b is None else b for b, w in zip(biases, weights, strict=True)])


def _stack_downs(factors: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """The changed modules' A, one below the other (R, in)."""
    return join(factors[::2]).to(dtype)


def _place_ups(
    weights: Sequence[Tensor], scales: Sequence[float | None], factors: Sequence[Tensor], dtype: torch.dtype
) -> Tensor:
    """The changed modules' scaled B, each at its module's rows and its A's place (sum of outs, R)."""
    ups = factors[1::2]
    if len(weights) == 1 and scales[0] is not None:
        return (ups[0] * scales[0]).to(dtype)
    found = ups[0].new_zeros(sum(weight.shape[0] for weight in weights), sum(up.shape[1] for up in ups), dtype=dtype)
    row = column = 0
    rest = iter(ups)
    for weight, scale in zip(weights, scales, strict=True):
        if scale is not None:
            up = next(rest)
            found[row : row + weight.shape[0], column : column + up.shape[1]] = up * scale
            column += up.shape[1]
        row += weight.shape[0]
    return found
