"""Decoders of the Llama kind as a handful of tensor operations over a static KV cache: the engine's fast path.

What sets a family apart is data: `checkpoint.ModelShape`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from gpu_workers.engine.checkpoint import ModelShape, Rope
from gpu_workers.engine.errors import ModelUnreadableError
from gpu_workers.engine.lora import LoraPair

MERGE_UP_TO_PARAMETERS = 64_000_000
"""Up to this size an adapter is merged into its own copy of the weights it touches (fastest; memory grows by those
weights with each adapter); above it the low-rank product is added at run time (memory grows by the adapter alone)."""
_SLOT_BLOCK = 32
_FIRST_POSITIONS = 512


@dataclass(frozen=True)
class Linear:
    """y = x W^T + b, plus (x A^T) B^T for an adapter that is not merged; B carries the scale."""

    weight: Tensor  # out in
    bias: Tensor | None  # out
    lora_a: Tensor | None = None  # r in
    lora_b: Tensor | None = None  # out r

    def __call__(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        if self.lora_a is None or self.lora_b is None:
            return y
        return y + F.linear(F.linear(x, self.lora_a), self.lora_b)


@dataclass(frozen=True)
class Layer:
    """Norms of what attention and MLP read, of queries and keys (H + KV, 1, hd), and of what attention and MLP put out:
    None where the family has none.
    """

    norm_1: Tensor
    norm_2: Tensor
    head_norm: Tensor | None
    out_norm_1: Tensor | None
    out_norm_2: Tensor | None
    qkv: Linear
    out: Linear
    gate_up: Linear
    down: Linear


class Turns:
    """Cosines and sines of the positions met so far, by rope; the sines carry the sign of the rotated half."""

    def __init__(self, shape: ModelShape) -> None:
        self._shape = shape
        self._length = 0
        self._tables: dict[Rope | None, tuple[Tensor, Tensor]] = {}

    def tables(self, length: int) -> Mapping[Rope | None, tuple[Tensor, Tensor]]:
        """(S, hd) each, of at least this many positions."""
        if length > self._length:
            self._length = min(self._shape.context_length, max(length, 2 * self._length, _FIRST_POSITIONS))
            half = self._shape.head_width // 2
            for rope in {rope for rope in self._shape.ropes if rope is not None}:
                angles = torch.outer(torch.arange(self._length).float(), rope.frequencies(2 * half)).repeat(1, 2)
                sines = torch.cat([-angles.sin()[:, :half], angles.sin()[:, half:]], -1)
                self._tables[rope] = angles.cos(), sines
        return self._tables


def _stack_diagonally(blocks: Sequence[Tensor]) -> Tensor:
    """One matrix with the blocks along its diagonal; a block may have no columns."""
    width = sum(block.shape[1] for block in blocks)
    padded, start = [], 0
    for block in blocks:
        padded.append(F.pad(block, (start, width - start - block.shape[1])))
        start += block.shape[1]
    return torch.cat(padded)


class PlainCache:
    """Keys and values of the rows of one batch; row b's position p lies in slot p.

    Rows live in [0, rows) of preallocated tensors, (capacity, 2 * kv_heads, slots, head_width) a layer, keys first.
    """

    def __init__(self, layers: list[Tensor], positions: Tensor) -> None:
        self.layers = layers
        self.positions = positions  # B int64, the next free position of each row

    @property
    def rows(self) -> int:
        return self.positions.shape[0]

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order."""
        count = rows.shape[0]
        if count <= self.layers[0].shape[0]:
            for layer in self.layers:
                layer[:count] = layer[rows]
        else:
            self.layers = [layer[rows] for layer in self.layers]
        self.positions = self.positions[rows]

    def absorb(self, other: "PlainCache") -> None:
        """Append another cache's rows behind ours."""
        used = int(other.positions.max())
        self._reserve(self.rows + other.rows, used)
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            mine[self.rows : self.rows + other.rows, :, :used] = theirs[: other.rows, :, :used]
        self.positions = torch.cat([self.positions, other.positions])

    def reserve_slot(self) -> int:
        """Make room for one more token a row; the number of slots then in use."""
        needed = int(self.positions.max()) + 1
        self._reserve(self.rows, needed)
        return needed

    def _reserve(self, rows: int, slots: int) -> None:
        capacity, _, most_slots, _ = self.layers[0].shape
        if rows <= capacity and slots <= most_slots:
            return
        new_capacity = capacity if rows <= capacity else max(rows, 2 * capacity)
        new_slots = (
            most_slots if slots <= most_slots else -(-max(slots, most_slots * 3 // 2) // _SLOT_BLOCK) * _SLOT_BLOCK
        )
        for index, layer in enumerate(self.layers):
            bigger = layer.new_zeros(new_capacity, layer.shape[1], new_slots, layer.shape[3])
            bigger[: self.rows, :, :most_slots] = layer[: self.rows]
            self.layers[index] = bigger


class PlainModel:
    """The base model, or the base with one adapter. Immutable; adapters share every tensor they do not change."""

    merges_batches = True
    keeps_prefixes = True
    _embedding: Tensor
    _head: Tensor
    _norm: Tensor
    _turns: Turns

    def __init__(
        self, shape: ModelShape, weights: Mapping[str, Tensor], *, merges_adapters: bool | None = None
    ) -> None:
        """Raises ModelUnreadableError when a tensor is missing or has another shape than the config says."""
        self.shape = shape
        self._weights = weights
        size = sum(tensor.numel() for tensor in weights.values())
        self._merges_adapters = size <= MERGE_UP_TO_PARAMETERS if merges_adapters is None else merges_adapters
        self._pairs: Mapping[str, LoraPair] = {}
        self._lay_out()

    @property
    def vocabulary_size(self) -> int:
        return self.shape.vocabulary_size

    @property
    def context_length(self) -> int:
        return self.shape.context_length

    @property
    def width(self) -> int:
        """Of a hidden state."""
        return self.shape.width

    @property
    def adaptable(self) -> dict[str, tuple[int, int]]:
        """Weights an adapter may change: name -> (out, in)."""
        return {
            name: (tensor.shape[0], tensor.shape[1])
            for name, tensor in self._weights.items()
            if name.endswith("_proj.weight")
        }

    def adapt(self, pairs: Mapping[str, LoraPair]) -> Self:
        """The same base with an adapter on; `pairs` has been checked against `adaptable`."""
        adapted = object.__new__(type(self))
        adapted.shape = self.shape
        adapted._merges_adapters = self._merges_adapters
        adapted._weights = self._weights
        adapted._pairs = pairs
        adapted._lay_out(base=self)
        return adapted

    def _tensor(self, name: str, *shape: int) -> Tensor:
        found = self._weights.get(name)
        if found is None:
            raise ModelUnreadableError(f"the weights lack {name}")
        if tuple(found.shape) != shape:
            raise ModelUnreadableError(f"{name} must have shape {shape} by the config, found {tuple(found.shape)}")
        return found

    def _norm_weight(self, name: str, width: int) -> Tensor:
        weight, offset = self._tensor(f"{name}.weight", width), self.shape.family.norm_offset
        return weight + offset if offset else weight

    def _head_norm(self, attention: str) -> Tensor:
        s = self.shape
        query, key = (self._norm_weight(f"{attention}.{part}_norm", s.head_width) for part in "qk")
        return torch.cat([query.expand(s.heads, -1), key.expand(s.kv_heads, -1)])[:, None]

    def _join(self, names: Sequence[str], outs: Sequence[int], inner: int) -> Linear:
        """One linear of several that read the same input."""
        weights = [self._tensor(f"{name}.weight", out, inner) for name, out in zip(names, outs, strict=True)]
        biases = [self._weights.get(f"{name}.bias") for name in names]
        bias = None
        if any(found is not None for found in biases):
            bias = torch.cat(
                [w.new_zeros(w.shape[0]) if b is None else b for w, b in zip(weights, biases, strict=True)]
            )
        pairs = [self._pairs.get(f"{name}.weight") for name in names]
        if self._merges_adapters:
            merged = [w if p is None else w + p.delta() for w, p in zip(weights, pairs, strict=True)]
            return Linear(torch.cat(merged).contiguous() if len(merged) > 1 else merged[0].contiguous(), bias)
        joined = Linear(torch.cat(weights) if len(weights) > 1 else weights[0], bias)
        present = [pair for pair in pairs if pair is not None]
        if not present:
            return joined
        ups = [w.new_zeros(w.shape[0], 0) if p is None else p.b * p.scale for w, p in zip(weights, pairs, strict=True)]
        return replace(joined, lora_a=torch.cat([pair.a for pair in present]), lora_b=_stack_diagonally(ups))

    def _lay_out(self, base: "PlainModel | None" = None) -> None:
        s = self.shape
        self._is_silu = s.family.activation[1] == "silu"
        query, key, four = s.heads * s.head_width, s.kv_heads * s.head_width, s.family.norms_outputs
        if base is not None:
            self._embedding, self._head, self._norm = base._embedding, base._head, base._norm
            self._turns = base._turns
        else:
            self._embedding = self._tensor("model.embed_tokens.weight", s.vocabulary_size, s.width)
            tied = s.ties_embeddings or "lm_head.weight" not in self._weights
            self._head = self._embedding if tied else self._tensor("lm_head.weight", s.vocabulary_size, s.width)
            self._norm = self._norm_weight("model.norm", s.width)
            self._turns = Turns(s)
        self._layers: list[Layer] = []
        for index in range(s.layers):
            name = f"model.layers.{index}"
            attention, mlp = f"{name}.self_attn", f"{name}.mlp"
            inner = self._weights.get(f"{mlp}.gate_proj.weight", self._embedding).shape[0]
            old = base._layers[index] if base is not None else None

            def joined(names: Sequence[str], outs: Sequence[int], width: int, old_linear: Linear | None) -> Linear:
                changes = any(f"{name}.weight" in self._pairs for name in names)
                return old_linear if old_linear is not None and not changes else self._join(names, outs, width)

            self._layers.append(
                Layer(
                    norm_1=self._norm_weight(f"{name}.input_layernorm", s.width),
                    norm_2=self._norm_weight(
                        f"{name}.{'pre_feedforward' if four else 'post_attention'}_layernorm", s.width
                    ),
                    head_norm=self._head_norm(attention) if s.family.norms_heads else None,
                    out_norm_1=self._norm_weight(f"{name}.post_attention_layernorm", s.width) if four else None,
                    out_norm_2=self._norm_weight(f"{name}.post_feedforward_layernorm", s.width) if four else None,
                    qkv=joined(
                        [f"{attention}.{part}_proj" for part in "qkv"],
                        [query, key, key],
                        s.width,
                        old.qkv if old else None,
                    ),
                    out=joined([f"{attention}.o_proj"], [s.width], query, old.out if old else None),
                    gate_up=joined(
                        [f"{mlp}.gate_proj", f"{mlp}.up_proj"], [inner, inner], s.width, old.gate_up if old else None
                    ),
                    down=joined([f"{mlp}.down_proj"], [s.width], inner, old.down if old else None),
                )
            )

    def _embed(self, tokens: Tensor) -> Tensor:
        x = F.embedding(tokens, self._embedding)
        return x * self.shape.width**0.5 if self.shape.family.scales_embedding else x

    def _split_heads(self, layer: Layer, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Queries (B, H, T, hd) and keys before values (B, 2 KV, T, hd) of one layer's input."""
        s = self.shape
        batch, length, _ = x.shape
        normed = F.rms_norm(x, (s.width,), layer.norm_1, s.norm_epsilon)
        heads = layer.qkv(normed).view(batch, length, s.heads + 2 * s.kv_heads, s.head_width).transpose(1, 2)
        turning = heads[:, : s.heads + s.kv_heads]
        if layer.head_norm is not None:
            turning = F.rms_norm(turning, (s.head_width,), None, s.norm_epsilon) * layer.head_norm
        if turn is not None:
            cos, sin = turn
            turning = torch.addcmul(turning * cos, turning.roll(s.head_width // 2, -1), sin)
        return turning[:, : s.heads], torch.cat([turning[:, s.heads :], heads[:, s.heads + s.kv_heads :]], 1)

    def _finish_layer(self, layer: Layer, x: Tensor, attended: Tensor) -> Tensor:
        s = self.shape
        put_out = layer.out(attended)
        if layer.out_norm_1 is not None:
            put_out = F.rms_norm(put_out, (s.width,), layer.out_norm_1, s.norm_epsilon)
        x = x + put_out
        gate, up = layer.gate_up(F.rms_norm(x, (s.width,), layer.norm_2, s.norm_epsilon)).chunk(2, -1)
        put_out = layer.down((F.silu(gate) if self._is_silu else F.gelu(gate, approximate="tanh")) * up)
        if layer.out_norm_2 is not None:
            put_out = F.rms_norm(put_out, (s.width,), layer.out_norm_2, s.norm_epsilon)
        return x + put_out

    @torch.inference_mode()
    def prefill(
        self, prompts: Sequence[Sequence[int]], known: Sequence[Tensor | None] = ()
    ) -> tuple[Tensor, PlainCache]:
        """Read prompts, each from behind what is known of it.

        Args:
            known: keys and values of each prompt's first tokens, (layers, 2 KV, tokens, head width); None of one that
                is read from its start, () where all are.
        Returns:
            final hidden states (P, T, D) of what was read now, right-padded to the longest, and the prompts' cache.
        """
        s = self.shape
        starts = [0 if part is None else part.shape[2] for part in known] or [0] * len(prompts)
        has_known = max(starts) > 0
        unread = [prompt[start:] for prompt, start in zip(prompts, starts, strict=True)]
        longest = max(map(len, unread))
        used = max(starts) + longest
        ids = torch.tensor([[*rest, *[0] * (longest - len(rest))] for rest in unread])  # P T
        places = torch.tensor(starts)[:, None] + torch.arange(longest)  # P T
        slots = -(-(used + 1) // _SLOT_BLOCK) * _SLOT_BLOCK
        x = self._embed(ids)  # P T D
        turned = places.clamp(max=s.context_length - 1)[:, None]  # P 1 T; the padding may lie behind the context
        tables = self._turns.tables(used).items()
        turns = {
            rope: (cos[turned], sin[turned]) if has_known else (cos[:longest], sin[:longest])
            for rope, (cos, sin) in tables
        }
        windows = {window: _seen(places, used, window, has_known=has_known) for window in {*s.windows}}
        rows = torch.arange(len(prompts))[:, None]
        caches: list[Tensor] = []
        for index, (layer, rope, window) in enumerate(zip(self._layers, s.ropes, s.windows, strict=True)):
            queries, keys_values = self._split_heads(layer, x, turns.get(rope))
            cache = x.new_zeros(len(prompts), 2 * s.kv_heads, slots, s.head_width)
            for row, part in enumerate(known):
                if part is not None:
                    cache[row, :, : part.shape[2]] = part[index]
            if has_known:
                cache[rows, :, places] = keys_values.transpose(1, 2)
                keys_values = cache[:, :, :used]
            else:
                cache[:, :, :longest] = keys_values
            caches.append(cache)
            keys, values = keys_values.chunk(2, 1)
            attended = F.scaled_dot_product_attention(
                queries,
                keys,
                values,
                attn_mask=(sees := windows[window]),
                is_causal=sees is None,
                scale=s.attention_scale,
                enable_gqa=s.heads != s.kv_heads,
            )
            x = self._finish_layer(layer, x, attended.transpose(1, 2).reshape(len(prompts), longest, -1))
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        return F.rms_norm(x, (s.width,), self._norm, s.norm_epsilon), PlainCache(caches, lengths)

    @torch.inference_mode()
    def decode(self, cache: PlainCache, tokens: Tensor) -> Tensor:
        """Append one token a row (B,); the logits (B, V) that follow it."""
        s = self.shape
        batch = tokens.shape[0]
        used = cache.reserve_slot()
        positions = cache.positions
        rows = torch.arange(batch)
        tables = self._turns.tables(used)
        turns = {
            rope: (cos[positions][:, None, None], sin[positions][:, None, None]) for rope, (cos, sin) in tables.items()
        }
        bias = {window: _bias(positions, used, window) for window in {*s.windows}}  # B 1 1 S
        x = self._embed(tokens)[:, None]  # B 1 D
        for layer, rope, window, stored in zip(self._layers, s.ropes, s.windows, cache.layers, strict=True):
            queries, keys_values = self._split_heads(layer, x, turns.get(rope))
            stored[rows, :, positions] = keys_values[:, :, 0]
            keys, values = stored[:batch, : s.kv_heads, :used], stored[:batch, s.kv_heads :, :used]
            grouped = queries.reshape(batch, s.kv_heads, s.heads // s.kv_heads, s.head_width)
            attended = F.scaled_dot_product_attention(
                grouped, keys, values, attn_mask=bias[window], scale=s.attention_scale
            )
            x = self._finish_layer(layer, x, attended.reshape(batch, 1, -1))
        cache.positions = positions + 1
        return self.project(F.rms_norm(x[:, 0], (s.width,), self._norm, s.norm_epsilon))

    @torch.inference_mode()
    def states(self, prompts: Sequence[Sequence[int]], hidden: Tensor) -> Tensor:
        """Final hidden states (P, T, D) of prompts that `prefill` just read, right-padded."""
        return hidden

    def project(self, hidden: Tensor) -> Tensor:
        """Logits (..., V) of final hidden states (..., D)."""
        return F.linear(hidden, self._head)


def _seen(places: Tensor, used: int, window: int | None, *, has_known: bool) -> Tensor | None:
    """Where a token at `places` (P, T) sees a slot, (P or 1, 1, T, S): its own and those before it, of a window only
    the last; None: all before it, and nothing was known.
    """
    if not has_known and (window is None or window >= used):
        return None
    slots, own = torch.arange(used), (places if has_known else places[:1])[:, None, :, None]
    sees = slots <= own
    return sees if window is None else sees & (slots > own - window)


def _bias(positions: Tensor, used: int, window: int | None) -> Tensor:
    """(B, 1, 1, S) added to a row's scores: 0 where its newest token sees the slot, else -inf."""
    slots = torch.arange(used)
    sees = slots <= positions[:, None]
    if window is not None:
        sees &= slots > positions[:, None] - window
    return torch.zeros(sees.shape).masked_fill_(~sees, float("-inf"))[:, None, None]
