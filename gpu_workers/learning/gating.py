"""SwiGLU's middle: silu of one half times the other."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from gpu_workers.learning.fusing import fused, has_kernels


def gate_silu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up, of gate and up side by side (N, 2 D): (N, D)."""
    if not has_kernels(gate_up):
        return _gate_plainly(gate_up)
    found: Tensor = _Gating.apply(gate_up)  # type: ignore[no-untyped-call]
    return found


@fused
def _gate_plainly(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate) * up


class _Gating(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        from gpu_workers.learning import kernels  # Triton is only where a GPU is

        ctx.save_for_backward(gate_up)
        found: Tensor = kernels.run_gate(gate_up)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_gated: Tensor) -> Tensor:
        from gpu_workers.learning import kernels

        (gate_up,) = ctx.saved_tensors
        found: Tensor = kernels.run_gate_back(gate_up, by_gated)
        return found
