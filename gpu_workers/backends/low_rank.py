"""Linear modules of a frozen model with a low-rank change each: products and gradients in few large operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

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


class Joined(NamedTuple):
    """The changes of linear modules that read the same input, side by side: y is changed by up @ down @ x.

    Args:
        down: (R, in), the modules' A one below the other. up: (sum of outs, R), their scaled B, each at its module's
            rows and its A's columns.
    """

    down: Tensor
    up: Tensor


def join_changes(
    changes: Sequence[Sequence[LowRank | None]], outs: Sequence[int], dtype: torch.dtype
) -> list[Joined | None]:
    """Of the same modules in several layers: in few operations, whatever the number of layers.

    Args:
        changes: of each layer its modules', None of one that is as it is. outs: what each module puts out.
    """
    masks = {tuple(change is not None for change in layer) for layer in changes}
    if len(masks) > 1:
        return [joined for layer in changes for joined in join_changes([layer], outs, dtype)]
    changed = [place for place, is_changed in enumerate(masks.pop()) if is_changed]
    if not changed:
        return [None] * len(changes)
    columns = [[one for one in (layer[place] for layer in changes) if one is not None] for place in changed]
    downs = [torch.stack([change.a for change in column]) for column in columns]  # L r in
    ups = [torch.stack([change.b for change in column]) * column[0].scale for column in columns]  # L out r
    if len(outs) == 1:
        down, up = downs[0].to(dtype), ups[0].to(dtype)
    else:
        down = torch.cat(downs, 1).to(dtype)
        starts, ranks = [0, *accumulate(outs)], [part.shape[2] for part in ups]
        whole, behind = starts[-1], sum(ranks)
        parts, before = [], 0
        for place, part, rank in zip(changed, ups, ranks, strict=True):
            left, below = before, whole - starts[place + 1]
            parts.append(F.pad(part.to(dtype), (left, behind - left - rank, starts[place], below)))
            before += rank
        up = torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]
    return [Joined(*both) for both in zip(down.unbind(), up.unbind(), strict=True)]


def apply_changed(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None], joined: Joined | None
) -> Tensor:
    """What linear modules put out that read the same input, side by side.

    Args:
        x: (N, in); weights: (out, in) each, frozen; biases: (out,) each. joined: their changes; None: they have none.
    Returns:
        (N, sum of outs).
    """
    bias = join_biases(biases, weights)
    if joined is None:
        return F.linear(x, join(weights), bias)
    found: Tensor = _Changed.apply(x, tuple(weights), bias, joined.down, joined.up)  # type: ignore[no-untyped-call]
    return found


class _Changed(torch.autograd.Function):
    """W x + B A x without a gradient of W, all modules in one product.

    The wide side of a product is the costly one to read and write. So where more goes out than comes in, A x stands
    beside x and B beside W, in one product; else A stands below W, and x is read once for both. Backwards the same the
    other way round. Only x and A x are kept.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weights: tuple[Tensor, ...], bias: Tensor | None, down: Tensor, up: Tensor
    ) -> Tensor:
        outs, ins = up.shape[0], down.shape[1]
        if outs > ins:
            read = x.new_empty(x.shape[0], ins + down.shape[0])
            read[:, :ins] = x
            torch.mm(x, down.T, out=read[:, ins:])
            y = F.linear(read, torch.cat([join(weights), up], 1), bias)
            ctx.save_for_backward(read, down, up)
        else:
            both = F.linear(x, torch.cat([*weights, down]))
            low = both[:, outs:].contiguous()  # a view would keep the whole
            y = both[:, :outs].addmm_(low, up.T)
            if bias is not None:
                y.add_(bias)
            ctx.save_for_backward(x, low, down, up)
        ctx.weights = weights
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_y: Tensor) -> tuple[Tensor | None, ...]:
        *kept, down, up = ctx.saved_tensors
        outs, ins = up.shape[0], down.shape[1]
        by_x = None
        if outs > ins:
            x, low = kept[0][:, :ins], kept[0][:, ins:]
            both = by_y @ torch.cat([join(ctx.weights), up], 1)
            by_low = both[:, ins:]
            by_x = both[:, :ins].addmm_(by_low, down) if ctx.needs_input_grad[0] else None
        else:
            x, low = kept
            by_low = by_y @ up
            if ctx.needs_input_grad[0]:
                by_x = torch.cat([by_y, by_low], 1) @ torch.cat([*ctx.weights, down])
        return by_x, None, None, by_low.T @ x, by_y.T @ low


def join(parts: Sequence[Tensor]) -> Tensor:
    """Tensors one below the other; a single one as it is."""
    return torch.cat(list(parts)) if len(parts) > 1 else parts[0]


def join_biases(biases: Sequence[Tensor | None], weights: Sequence[Tensor]) -> Tensor | None:
    """The biases of these weights end to end, 0 where one has none; None where none has one."""
    if all(bias is None for bias in biases):
        return None
    return join([w.new_zeros(w.shape[0]) if b is None else b for b, w in zip(biases, weights, strict=True)])
