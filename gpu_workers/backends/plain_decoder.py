"""Decoders of the Llama kind as a handful of differentiable operations over flat tokens: the trainer's fast path.

It computes what Hugging Face's module computes, with fewer and larger operations: one product for queries, keys and
values, one for gate and up, each with its low-rank change. What sets a family apart is data: `checkpoint.ModelShape`.
The engine's `PlainModel` is the same model with a cache and no gradient.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gpu_workers.backends.low_rank import Joined, LowRank, apply_changed, join, join_biases, join_changes
from gpu_workers.engine.checkpoint import EMBEDDING, ModelShape, Rope
from gpu_workers.learning.fusing import fused
from gpu_workers.learning.gating import gate_silu
from gpu_workers.learning.packing import PackedRow
from gpu_workers.learning.shared_prefix import SharedBatch, share_prefixes

MERGE_UP_TO = 2**18
"""Weights of at most this many numbers are adapted by computing W + scale * B A; for larger ones the low-rank product
is added to the output, which spares the gradient of a whole weight."""
FIRST_POSITIONS = 512
LINEARS = (
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"),
    ("mlp.down_proj",),
)
"""A layer's linear modules; those in a row read the same input."""

Turn = tuple[Tensor, Tensor]
"""Cosines and sines of each token's position (N, 1, hd); the sines carry the sign of the rotated half."""


class PlainDecoder:
    """The decoder of a frozen model, without its head.

    Args:
        shape: from `gpu_workers.engine.checkpoint.plain_shape`.
        weights: what `ModelShape.choose_tensors` names, on one device.
        merge_up_to: see `MERGE_UP_TO`.
    """

    is_plain = True
    widest_row = math.inf

    def __init__(self, shape: ModelShape, weights: Mapping[str, Tensor], *, merge_up_to: int = MERGE_UP_TO) -> None:
        self._shape = shape
        self._merge_up_to = merge_up_to
        self._weights = weights
        self.head = shape.find_head(weights)
        self.linears = {name: weights[f"{name}.weight"] for name in shape.linears}
        self.weight_numbers = sum(weight.numel() for weight in weights.values())
        one = weights[EMBEDDING]
        self._device, self._precision = one.device, one.dtype
        self._embedding_scale = float(torch.tensor(shape.width**0.5, dtype=one.dtype))
        self._tables: dict[Rope, Turn] = {}
        self._norms = {name: self._find_norm(f"{name}.weight") for name in shape.norms}
        self._head_norms = [self._find_head_norm(f"model.layers.{index}.self_attn") for index in range(shape.layers)]

    def lay_out(self, rows: Sequence[PackedRow]) -> SharedBatch:
        """Prompts and completions as it reads them."""
        return share_prefixes(rows)

    def __call__(self, batch: SharedBatch, changes: Mapping[str, LowRank], *, recomputes: bool = False) -> Tensor:
        """Final hidden states (M, D) of the tokens that predict the batch's completions.

        Args:
            changes: full module name -> its change; others are as they are.
            recomputes: keep only what goes into each layer, and compute the layer again in the backward pass.
        """
        x = F.embedding(batch.token_ids, self._weights[EMBEDDING])  # N D
        if self._shape.family.scales_embedding:
            x = x * self._embedding_scale
        turns, linears = self._turn(batch), self._join_linears(changes)
        more: Tensor | None = None
        for index in range(self._shape.layers):
            if recomputes and torch.is_grad_enabled():
                x = x if more is None else x + more
                found = checkpoint(self._read_layer, index, x, None, batch, linears[index], turns, use_reentrant=False)
                assert isinstance(found, tuple)
                x, more = found
            else:
                x, more = self._read_layer(index, x, more, batch, linears[index], turns)
        return self._add_and_norm(x, more, "model.norm")[1]

    def _read_layer(
        self,
        index: int,
        x: Tensor,
        more: Tensor | None,
        batch: SharedBatch,
        linears: Sequence[Callable[[Tensor], Tensor]],
        turns: Mapping[Rope | None, Turn],
    ) -> tuple[Tensor, Tensor]:
        """What goes out of a layer, in two parts: the next norm adds them in passing.

        Args:
            x, more: the same of the layer before; None: x is the sum.
        """
        s, layer = self._shape, f"model.layers.{index}"
        x, normed = self._add_and_norm(x, more, f"{layer}.input_layernorm")
        ask, answer, widen, narrow = linears
        heads = ask(normed).view(x.shape[0], -1, s.head_width)  # N H+2KV hd
        queries, keys, values = _turn_heads(
            heads, s.heads, s.kv_heads, turns.get(s.ropes[index]), self._head_norms[index], s.norm_epsilon
        )
        attended = batch.attend(queries, keys, values, scale=s.attention_scale, window=s.windows[index])  # N H*hd
        if index == s.layers - 1:  # nobody reads the others any more
            x, attended = x.index_select(0, batch.predictors), attended.index_select(0, batch.predictors)
        put_out = answer(attended)
        norms_outputs = s.family.norms_outputs
        if norms_outputs:
            put_out = self._norm(put_out, f"{layer}.post_attention_layernorm")
        second = f"{layer}.{'pre_feedforward' if norms_outputs else 'post_attention'}_layernorm"
        x, normed = self._add_and_norm(x, put_out, second)
        gate_up = widen(normed)
        gated = gate_silu(gate_up) if s.family.activation[1] == "silu" else _gate_gelu(gate_up)
        put_out = narrow(gated)
        if norms_outputs:
            put_out = self._norm(put_out, f"{layer}.post_feedforward_layernorm")
        return x, put_out

    def _turn(self, batch: SharedBatch) -> dict[Rope | None, Turn]:
        """Of each of the batch's tokens, by rope."""
        longest = max(batch.read_sizes)
        found: dict[Rope | None, Turn] = {}
        for rope in {rope for rope in self._shape.ropes if rope is not None}:
            if rope not in self._tables or len(self._tables[rope][0]) < longest:
                length = min(self._shape.context_length, max(longest, FIRST_POSITIONS))
                half = self._shape.head_width // 2
                frequencies = rope.frequencies(2 * half).to(self._device)
                places = torch.arange(max(longest, length), device=self._device)
                angles = torch.outer(places.float(), frequencies).repeat(1, 2)  # S hd
                sines = torch.cat([-angles.sin()[:, :half], angles.sin()[:, half:]], -1)
                self._tables[rope] = angles.cos().to(self._precision), sines.to(self._precision)
            cos, sin = self._tables[rope]
            found[rope] = cos[batch.positions][:, None], sin[batch.positions][:, None]
        return found

    def _find_norm(self, name: str) -> Tensor:
        """What a norm multiplies by; where the family adds to its weight, in single precision: the sum is no number of
        half."""
        weight, offset = self._weights[name], self._shape.family.norm_offset
        return weight.float() + offset if offset else weight

    def _find_head_norm(self, attention: str) -> Tensor | None:
        """The same of queries and keys (H + KV, hd); None where the family has none."""
        s = self._shape
        if not s.family.norms_heads:
            return None
        query, key = (self._norms[f"{attention}.{part}_norm"] for part in "qk")
        return torch.cat([query.expand(s.heads, -1), key.expand(s.kv_heads, -1)])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return _norm(x, self._norms[name], self._shape.norm_epsilon)

    def _add_and_norm(self, x: Tensor, more: Tensor | None, name: str) -> tuple[Tensor, Tensor]:
        """The sum, and its norm."""
        if more is None:
            return x, self._norm(x, name)
        return _add_and_norm(x, more, self._norms[name], self._shape.norm_epsilon)

    def _join_linears(self, changes: Mapping[str, LowRank]) -> list[list[Callable[[Tensor], Tensor]]]:
        """Of each layer the linear modules of `LINEARS`, those that read the same input as one, with their changes."""
        columns: list[list[Callable[[Tensor], Tensor]]] = []
        for parts in LINEARS:
            names = [[f"model.layers.{index}.{part}" for part in parts] for index in range(self._shape.layers)]
            weights = [[self._weights[f"{name}.weight"] for name in layer] for layer in names]
            biases = [[self._weights.get(f"{name}.bias") for name in layer] for layer in names]
            mine = [[changes.get(name) for name in layer] for layer in names]
            is_small = max(weight.numel() for weight in weights[0]) <= self._merge_up_to
            if is_small and self._precision == torch.float32:  # a small change is lost in a sum of coarser numbers
                columns.append([partial(_apply_merged, *one) for one in zip(weights, biases, mine, strict=True)])
            else:
                joined = join_changes(mine, [weight.shape[0] for weight in weights[0]], self._precision)
                columns.append([partial(_apply_beside, *one) for one in zip(weights, biases, joined, strict=True)])
        return [list(layer) for layer in zip(*columns, strict=True)]


def _apply_merged(
    weights: Sequence[Tensor], biases: Sequence[Tensor | None], changes: Sequence[LowRank | None], x: Tensor
) -> Tensor:
    """Linear modules that read the same input, their outputs side by side, by their changed weights."""
    merged = [w if change is None else change.merge(w) for w, change in zip(weights, changes, strict=True)]
    return F.linear(x, join(merged), join_biases(biases, weights))


def _apply_beside(
    weights: Sequence[Tensor], biases: Sequence[Tensor | None], joined: Joined | None, x: Tensor
) -> Tensor:
    """The same with their changes beside the weights."""
    return apply_changed(x, weights, biases, joined)


@fused
def _turn_heads(
    heads: Tensor, asking: int, answering: int, turn: Turn | None, norm: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (N, H, hd), keys and values (N, KV, hd) of what their product put out (N, H + 2 KV, hd).

    Args:
        asking, answering: heads of queries and of keys.
        turn: None: the layer does not turn. norm: (H + KV, hd), of queries and keys; None: they have none.
    """
    turning, values = torch.split(heads, [asking + answering, answering], 1)
    if norm is not None:
        turning = (F.rms_norm(turning.float(), (heads.shape[-1],), None, epsilon) * norm).to(heads.dtype)
    if turn is not None:
        turning = torch.addcmul(turning * turn[0], turning.roll(heads.shape[-1] // 2, -1), turn[1])
    queries, keys = torch.split(turning, [asking, answering], 1)
    return queries, keys, values


@fused
def _gate_gelu(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, -1)
    return F.gelu(gate, approximate="tanh") * up


def _norm_plainly(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """A norm; its weight may be finer than what it norms."""
    if weight.dtype == x.dtype:
        return F.rms_norm(x, (x.shape[-1],), weight, epsilon)
    return (F.rms_norm(x.float(), (x.shape[-1],), None, epsilon) * weight).to(x.dtype)


_norm = fused(_norm_plainly)


@fused
def _add_and_norm(x: Tensor, more: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The sum, and its norm."""
    x = x + more
    return x, _norm_plainly(x, weight, epsilon)
