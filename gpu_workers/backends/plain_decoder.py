"""Qwen2 and Llama as a handful of differentiable operations over packed rows: the trainer's fast path.

It computes what Hugging Face's module computes, with fewer and larger operations: one product for queries, keys and
values, one for gate and up, one fused norm. The engine's `PlainModel` is the same model with a cache and no gradient.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from gpu_workers.engine.checkpoint import ModelShape
from gpu_workers.learning.shared_prefix import SharedBatch

MERGE_UP_TO = 2**18
"""Weights of at most this many numbers are adapted by computing W + scale * B A; for larger ones the low-rank product
is added to the output, which spares the gradient of a whole weight."""


@dataclass(frozen=True)
class LowRank:
    """A weight's change, W + scale * b @ a, with gradient."""

    a: Tensor  # r in
    b: Tensor  # out r
    scale: float

    def merge(self, weight: Tensor) -> Tensor:
        """The changed weight (out, in)."""
        return torch.addmm(weight, self.b, self.a, alpha=self.scale)


class PlainDecoder:
    """The decoder of a frozen model, without its head.

    Args:
        shape: from `gpu_workers.engine.checkpoint.plain_shape`, one that `is_basic`.
        weights: every tensor of the model, by Hugging Face's name, on one device.
        merge_up_to: see `MERGE_UP_TO`.
    """

    def __init__(self, shape: ModelShape, weights: Mapping[str, Tensor], *, merge_up_to: int = MERGE_UP_TO) -> None:
        self._shape = shape
        self._merge_up_to = merge_up_to
        self._weights = weights
        one = next(iter(weights.values()))
        device, self._precision = one.device, one.dtype
        half = shape.head_width // 2
        inverse = 1.0 / shape.rope_theta ** (torch.arange(0, shape.head_width, 2, device=device).float() / (2 * half))
        angles = torch.outer(torch.arange(shape.context_length, device=device).float(), inverse).repeat(1, 2)  # S hd
        sines = torch.cat([-angles.sin()[:, :half], angles.sin()[:, half:]], -1)  # with rotate_half's sign
        self._cos, self._sin = angles.cos().to(one.dtype), sines.to(one.dtype)

    def __call__(self, batch: SharedBatch, changes: Mapping[str, LowRank]) -> Tensor:
        """Final hidden states (M, D) of the tokens that predict the batch's completions.

        Args:
            changes: full module name -> its change; others are as they are.
        """
        s = self._shape
        count = batch.token_ids.shape[0]
        cos, sin = self._cos[batch.positions][:, None], self._sin[batch.positions][:, None]  # N 1 hd
        x = F.embedding(batch.token_ids, self._weights["model.embed_tokens.weight"])  # N D
        for index in range(s.layers):
            layer = f"model.layers.{index}"
            normed = self._norm(x, f"{layer}.input_layernorm")
            joined = self._apply(normed, [f"{layer}.self_attn.{part}_proj" for part in "qkv"], changes)
            heads = joined.view(count, s.heads + 2 * s.kv_heads, s.head_width)  # N H hd
            turning, values = torch.split(heads, [s.heads + s.kv_heads, s.kv_heads], 1)
            turned = torch.addcmul(turning * cos, turning.roll(s.head_width // 2, -1), sin)
            queries, keys = torch.split(turned, [s.heads, s.kv_heads], 1)
            attended = batch.attend(queries, keys, values)  # N H*hd
            if index == s.layers - 1:  # nobody reads the others any more
                x, attended = x.index_select(0, batch.predictors), attended.index_select(0, batch.predictors)
            x = x + self._apply(attended, [f"{layer}.self_attn.o_proj"], changes)
            normed = self._norm(x, f"{layer}.post_attention_layernorm")
            gate, up = self._apply(normed, [f"{layer}.mlp.gate_proj", f"{layer}.mlp.up_proj"], changes).chunk(2, -1)
            x = x + self._apply(F.silu(gate) * up, [f"{layer}.mlp.down_proj"], changes)
        return self._norm(x, "model.norm")

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return F.rms_norm(x, (self._shape.width,), self._weights[f"{name}.weight"], self._shape.norm_epsilon)

    def _apply(self, x: Tensor, names: Sequence[str], changes: Mapping[str, LowRank]) -> Tensor:
        """Linear modules that read the same input, their outputs side by side."""
        weights = [self._weights[f"{name}.weight"] for name in names]
        biases = [self._weights.get(f"{name}.bias") for name in names]
        is_small = max(weight.numel() for weight in weights) <= self._merge_up_to
        if is_small and self._precision == torch.float32:  # a small change is lost in a sum of coarser numbers
            merged = [
                changes[name].merge(weight) if name in changes else weight
                for name, weight in zip(names, weights, strict=True)
            ]
            return F.linear(x, _join(merged), _join_biases(biases, weights))
        outputs = []
        for name, weight, bias in zip(names, weights, biases, strict=True):
            y = F.linear(x, weight, bias)
            if (change := changes.get(name)) is not None:
                y = y + F.linear(F.linear(x, change.a.to(x.dtype)), change.b.to(x.dtype)) * change.scale
            outputs.append(y)
        return torch.cat(outputs, -1) if len(outputs) > 1 else outputs[0]


def _join(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts)) if len(parts) > 1 else parts[0]


def _join_biases(biases: Sequence[Tensor | None], weights: Sequence[Tensor]) -> Tensor | None:
    if all(bias is None for bias in biases):
        return None
    return _join([w.new_zeros(w.shape[0]) if b is None else b for b, w in zip(biases, weights, strict=True)])
