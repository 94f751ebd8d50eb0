"""Decoders of the Llama kind as a handful of tensor operations over a static KV cache: the engine's fast path.

What sets a family apart is data: `checkpoint.ModelShape`.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from gpu_workers.engine.caches import PlainCache, Record, StaticCache, record_graphs, round_slots
from gpu_workers.engine.checkpoint import EMBEDDING, ModelShape, Rope
from gpu_workers.engine.lora import LoraPair
from gpu_workers.engine.products import (
    SMALL_NUMBERS,
    Dense,
    LayOut,
    Mergeable,
    Product,
    TwoHalves,
    flows_in,
    lay_out_plainly,
    lay_out_well,
)

_FIRST_POSITIONS = 512
_PART, _PARTS, _PARTS_ON_GPU, _PART_WORK = 64, 16_384, 2_048, 70_000_000_000
"""Tokens of a part at least and at most, on a GPU, and how many tokens x weights a core reads in some second."""
_LINEARS = ("qkv", "out", "gate_up", "down")
_STACKED = 128
"""Ranks that adapters side by side have at most: a step that needs one of them reads them all."""


class LoraPart(NamedTuple):
    """What an adapter changes of one weight in a linear of several.

    Args:
        start: first of the linear's outputs that it adds to.
    """

    start: int
    a: Tensor  # r in
    b: Tensor  # out r, with the scale

    def pad(self, rank: int) -> "LoraPart":
        """The same change with more ranks, which are 0."""
        more = rank - len(self.a)
        return LoraPart(self.start, F.pad(self.a, (0, 0, 0, more)), F.pad(self.b, (0, more)))


class Among(NamedTuple):
    """Which n rows of a batch are whose, of O adapters side by side.

    Args:
        places: (O, m), the rows of each adapter; where another has more, any row fills up.
        own: (n,), which of `places`, one line behind the other, are no filling.
        rows: (n,), the row of each of those.
    """

    places: Tensor
    own: Tensor
    rows: Tensor

    @classmethod
    def find(cls, owners: Sequence[int | None], count: int, device: torch.device) -> "Among | None":
        """Of each row's adapter among so many, None where it has none of these; None: no row has one."""
        rows = [[row for row, owner in enumerate(owners) if owner == number] for number in range(count)]
        most = max(map(len, rows))
        if not most:
            return None
        places = [[*some, *[0] * (most - len(some))] for some in rows]
        own = [number * most + place for number, some in enumerate(rows) for place in range(len(some))]
        return cls(*(torch.tensor(found, device=device) for found in (places, own, [*chain(*rows)])))


@dataclass(frozen=True)
class Lora:
    """What adapters that are not merged add to a linear: (x A^T) B^T.

    Those side by side have parts and ranks in common: what one lacks of another's is 0.

    Args:
        a: of all parts of an adapter, one below the other.
        ups: first output and B of each part, in the same order.
        among: the rows of a batch that it is added to, or the tokens that are read; None: all, of one adapter.
    """

    a: Tensor  # O (parts r) in
    ups: tuple[tuple[int, Tensor], ...]  # O out r
    among: Among | slice | None = None

    @classmethod
    def join(cls, adapters: Sequence[Sequence[LoraPart]]) -> Self:
        """Of each adapter's parts; one has some at least."""
        met = {part.start: part for parts in adapters for part in parts}
        rank = max(len(part.a) for parts in adapters for part in parts)
        lacking = {start: LoraPart(start, part.a[:0], part.b[:, :0]) for start, part in met.items()}
        filled = [
            [part.pad(rank) for part in (lacking | {part.start: part for part in parts}).values()] for parts in adapters
        ]
        return cls(
            torch.stack([torch.cat([part.a for part in parts]) for parts in filled]),
            tuple((some[0].start, torch.stack([part.b for part in some])) for some in zip(*filled, strict=True)),
        )

    def split(self) -> Iterator[LoraPart]:
        """The parts of one that is alone."""
        for (start, b), a in zip(self.ups, self.a[0].chunk(len(self.ups)), strict=True):
            yield LoraPart(start, a, b[0])

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """To what the weight itself makes of x, which is changed."""
        if isinstance(self.among, Among):
            parts = torch.bmm(x[:, 0][self.among.places], self.a.mT).chunk(len(self.ups), -1)
            for (start, b), part in zip(self.ups, parts, strict=True):
                found = torch.bmm(part, b.mT).flatten(0, 1)[self.among.own]
                y[:, 0, start : start + b.shape[1]].index_add_(0, self.among.rows, found)
            return y
        tokens = slice(None) if self.among is None else self.among
        parts = F.linear(x[:, tokens], self.a[0]).chunk(len(self.ups), -1)
        for (start, b), part in zip(self.ups, parts, strict=True):
            y[:, tokens, start : start + b.shape[1]] += F.linear(part, b[0])
        return y


@dataclass(frozen=True)
class Linear:
    """y = x W^T + b, and what adapters add that are not merged.

    Args:
        parts: names of the weights that lie in it one below the other, with the rows of each.
    """

    parts: tuple[tuple[str, int], ...]
    product: Product
    loras: tuple[Lora, ...] = ()

    def __call__(self, x: Tensor) -> Tensor:
        y = self.product(x)
        for lora in self.loras:
            y = lora.add(x, y)
        return y

    def adapt(self, pairs: Mapping[str, LoraPair], like: Tensor) -> "Linear":
        """With what an adapter changes of it: merged where the weight is at hand, else beside it, of `like`'s type."""
        own = [(pairs.get(name), rows) for name, rows in self.parts]
        present = [pair for pair, _ in own if pair is not None]
        if not present:
            return self
        if isinstance(self.product, Mergeable):
            weight = self.product.weight
            deltas = [torch.zeros(rows, weight.shape[1]) if pair is None else pair.delta() for pair, rows in own]
            return replace(self, product=replace(self.product, weight=weight + torch.cat(deltas)))
        starts = accumulate((rows for _, rows in own), initial=0)
        parts = [
            LoraPart(start, pair.a.to(like), (pair.b * pair.scale).to(like))
            for start, (pair, _) in zip(starts, own, strict=False)
            if pair is not None
        ]
        return replace(self, loras=(Lora.join([parts]),))


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

    def adapt(self, pairs: Mapping[str, LoraPair], like: Tensor) -> "Layer":
        return replace(self, **{name: getattr(self, name).adapt(pairs, like) for name in _LINEARS})

    @classmethod
    def stack(cls, layers: Sequence["Layer"]) -> "Layer":
        """One whose adapters are those of all, each linear's side by side."""
        linears = {}
        for name in _LINEARS:
            parts = [[part for lora in getattr(layer, name).loras for part in lora.split()] for layer in layers]
            linears[name] = replace(getattr(layers[0], name), loras=(Lora.join(parts),) if any(parts) else ())
        return replace(layers[0], **linears)

    def mix(self, others: Sequence[tuple["Layer", Among | slice]]) -> "Layer":
        """With what others of the same base add, stacks each to its rows and single ones each to its tokens."""
        linears = {}
        for name in _LINEARS:
            loras = [replace(lora, among=among) for layer, among in others for lora in getattr(layer, name).loras]
            linears[name] = replace(getattr(self, name), loras=tuple(loras))
        return replace(self, **linears)


class Stack(NamedTuple):
    """Adapters side by side, so that a batch meets them in one product."""

    models: Sequence["PlainModel"]
    layers: Sequence[Layer]


def _stack(models: Sequence["PlainModel"]) -> list[Stack]:
    """Adapted models of one base in stacks of up to `_STACKED` ranks, or of one that has more."""
    groups, ranks = [list[PlainModel]()], 0
    for model in models:
        if groups[-1] and ranks + model._rank > _STACKED:
            groups.append([])
            ranks = 0
        groups[-1].append(model)
        ranks += model._rank
    return [
        Stack(group, [Layer.stack(layers) for layers in zip(*(model._layers for model in group), strict=True)])
        for group in groups
    ]


class Turns:
    """Cosines and sines of the positions met so far, by rope; the sines carry the sign of the rotated half."""

    def __init__(self, shape: ModelShape, device: torch.device) -> None:
        self._shape = shape
        self._device = device
        self._length = 0
        self._tables: dict[Rope | None, tuple[Tensor, Tensor]] = {}

    def tables(self, length: int) -> Mapping[Rope | None, tuple[Tensor, Tensor]]:
        """(S, hd) each, of at least this many positions, or of all that the context has.

        Who asks for more, as a step of rounded size does, gets the same tensors: a recorded step goes on reading them.
        """
        length = min(length, self._shape.context_length)
        if length > self._length:
            wanted = max(length, 2 * self._length, _FIRST_POSITIONS)
            stays = self._device.type == "cuda"  # a recorded step finds them where they were
            self._length = self._shape.context_length if stays else min(self._shape.context_length, wanted)
            half = self._shape.head_width // 2
            for rope in {rope for rope in self._shape.ropes if rope is not None}:
                angles = torch.outer(torch.arange(self._length).float(), rope.frequencies(2 * half)).repeat(1, 2)
                sines = torch.cat([-angles.sin()[:, :half], angles.sin()[:, half:]], -1)
                self._tables[rope] = angles.cos().to(self._device), sines.to(self._device)
        return self._tables


class PlainModel:
    """The base model, or the base with one adapter. No tensor changes, and adapters share all that they do not touch.

    In bfloat16 the linears' weights, what they read and put out, keys and values are of it; norms, turns, the sum along
    the layers and the logits stay float32. Where products come in parts (`products.InParts`), all but the weights is
    float32, of which they read 16 bits.

    Attributes:
        adaptable: weights an adapter may change, name -> (out, in).
        precision: of what linears read and put out.
        part_tokens: so many of a prompt are read while others wait for their next token.
        lane: what all have in common whose rows may decode in one batch, by `mix`.
    """

    keeps_prefixes = True

    def __init__(
        self,
        shape: ModelShape,
        weights: Mapping[str, Tensor],
        *,
        merges_adapters: bool | None = None,
        precision: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        lay_out: LayOut = lay_out_well,
        record: Record | None = None,
    ) -> None:
        """
        Args:
            weights: what `ModelShape.choose_tensors` names.
            merges_adapters: None decides by size; an adapter is never merged into weights of fewer than 32 bits, which
                would round it away.
            lay_out: of weights on a processor that no adapter is merged into.
            record: of a step on tensors that stay where they are; None: CUDA graphs on a GPU, nothing elsewhere.
        """
        self.shape = shape
        self.device = torch.device(device)
        self._record = record
        self._static: StaticCache | None = None
        self._stacks: Sequence[Stack] = ()
        self._rank = 0  # of an adapter beside the weights
        self.adaptable = {
            name: (tensor.shape[0], tensor.shape[1])
            for name, tensor in weights.items()
            if name.endswith("_proj.weight")
        }
        size = sum(tensor.numel() for tensor in weights.values())
        merges = size <= SMALL_NUMBERS if merges_adapters is None else merges_adapters
        self._is_merged = self.device.type == "cpu" and merges and precision == torch.float32
        if self._is_merged or self.device.type != "cpu":
            lay_out = lay_out_plainly(Mergeable if self._is_merged else Dense)
        self.precision = flows_in(precision, lay_out)
        self._is_half = self.precision != torch.float32
        self._is_silu = shape.family.activation[1] == "silu"
        reader = _Reader(shape, weights, precision, self.device, lay_out, is_half=self._is_half)
        self._embedding = reader.embedding()
        self._head = reader.head()
        self._norm = reader.norm("model.norm")
        self._layers = [reader.layer(index) for index in range(shape.layers)]
        self._turns = Turns(shape, self.device)
        self.lane = object()
        self.part_tokens = _PARTS_ON_GPU if self.device.type == "cuda" else max(_PART, min(_PARTS, _PART_WORK // size))

    @property
    def runs_ahead(self) -> bool:
        """A step goes on while the machine reads what was drawn before it."""
        return self._record is not None or self.device.type == "cuda"

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

    def adapt(self, pairs: Mapping[str, LoraPair]) -> Self:
        """The same base with an adapter on; `pairs` has been checked against `adaptable`."""
        adapted = copy(self)
        with torch.inference_mode():
            like = torch.zeros(0, dtype=self.precision, device=self.device)
            adapted._layers = [layer.adapt(pairs, like) for layer in self._layers]
        adapted._static = None
        adapted._rank = max(len(pair.a) for pair in pairs.values())
        if self._is_merged or self.runs_ahead:  # weights, or a recorded step, of its own
            adapted.lane = object()
        return adapted

    def mix(self, models: Sequence[Self]) -> Self:
        """What decodes a batch of so many rows, each as its own model of this lane would."""
        wanted = list(dict.fromkeys(models))
        if len(wanted) == 1:
            return models[0]
        mixed = copy(self)
        adapted = [model for model in wanted if model._rank]
        if not {*adapted} <= {model for stack in self._stacks for model in stack.models}:
            mixed._stacks = _stack(adapted)
        found = []
        for stack in mixed._stacks:
            owners = [stack.models.index(model) if model in stack.models else None for model in models]
            if among := Among.find(owners, len(stack.models), self.device):
                found.append((stack.layers, among))
        mixed._layers = [
            layer.mix([(layers[index], among) for layers, among in found]) for index, layer in enumerate(self._layers)
        ]
        return mixed

    def _mix_reading(self, models: Sequence[Self], counts: Sequence[int]) -> list[Layer]:
        """Layers for so many tokens of each model, one behind the other."""
        spans, end = list[tuple[Self, slice]](), 0
        for model, some in groupby(zip(models, counts, strict=True), itemgetter(0)):
            start, end = end, end + sum(count for _, count in some)
            spans.append((model, slice(start, end)))
        return [
            layer.mix([(model._layers[index], span) for model, span in spans])
            for index, layer in enumerate(self._layers)
        ]

    def settle(self, cache: PlainCache) -> PlainCache:
        """Where the rows of a batch that begins with these decode from now on."""
        if not self.runs_ahead:
            return cache
        if self._static is None:  # a memory of its own: another's steps may run before what this one gave is read
            self._static = StaticCache(cache, self._record or record_graphs())
            return self._static
        return self._static.take(cache)

    def _embed(self, tokens: Tensor) -> Tensor:
        x = F.embedding(tokens, self._embedding)
        if x.dtype != torch.float32:
            x = x.float()
        return x * self.shape.width**0.5 if self.shape.family.scales_embedding else x

    def _normalize(self, x: Tensor, weight: Tensor) -> Tensor:
        """`F.rms_norm` of float32 numbers, which on a processor walks over them five times instead of three."""
        if x.device.type != "cpu":
            if weight.ndim == 1:
                return F.rms_norm(x, weight.shape, weight, self.shape.norm_epsilon)
            return F.rms_norm(x, x.shape[-1:], None, self.shape.norm_epsilon) * weight
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        shrink = length.square_().div_(x.shape[-1]).add_(self.shape.norm_epsilon).rsqrt_()
        return torch.mul(x, shrink).mul_(weight)

    def _read(self, x: Tensor, norm: Tensor) -> Tensor:
        """What a linear reads of the sum along the layers."""
        normed = self._normalize(x, norm)
        return normed.to(self.precision) if self._is_half else normed

    def _put(self, x: Tensor, put_out: Tensor, norm: Tensor | None) -> Tensor:
        """The sum along the layers with what attention or MLP put out."""
        if norm is not None:
            put_out = put_out.float() if self._is_half else put_out
            put_out = self._normalize(put_out, norm)
        return x + put_out

    def _split_heads(self, layer: Layer, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Queries (B, H, T, hd) and keys before values (B, 2 KV, T, hd) of one layer's input."""
        s = self.shape
        batch, length, _ = x.shape
        linear = layer.qkv(self._read(x, layer.norm_1))
        heads = linear.view(batch, length, s.heads + 2 * s.kv_heads, s.head_width).transpose(1, 2)
        turning = heads[:, : s.heads + s.kv_heads]
        if self._is_half:
            turning = turning.float()
        if layer.head_norm is not None:
            turning = self._normalize(turning, layer.head_norm)
        if turn is not None:
            cos, sin = turn
            turning = torch.addcmul(turning * cos, turning.roll(s.head_width // 2, -1), sin)
        if self._is_half:
            turning = turning.to(self.precision)
        return turning[:, : s.heads], torch.cat([turning[:, s.heads :], heads[:, s.heads + s.kv_heads :]], 1)

    def _finish_layer(self, layer: Layer, x: Tensor, attended: Tensor) -> Tensor:
        x = self._put(x, layer.out(attended), layer.out_norm_1)
        gate, up = layer.gate_up(self._read(x, layer.norm_2)).chunk(2, -1)
        opened = F.silu(gate) if self._is_silu else F.gelu(gate, approximate="tanh")
        return self._put(x, layer.down(opened.mul_(up)), layer.out_norm_2)

    @torch.inference_mode()
    def prefill(
        self,
        prompts: Sequence[Sequence[int]],
        known: Sequence[Tensor | None] = (),
        models: Sequence[Self] = (),
    ) -> tuple[Tensor, PlainCache]:
        """Read prompts, each from behind what is known of it.

        Args:
            known: keys and values of each prompt's first tokens, (layers, 2 KV, tokens, head width); None of one that
                is read from its start, () where all are.
            models: of this lane, whose each prompt is; (): all are this one's.
        Returns:
            final hidden states (P, T, D) of what was read now, right-padded to the longest, and the prompts' cache.
        """
        s, device = self.shape, self.device
        starts = [0 if part is None else part.shape[2] for part in known] or [0] * len(prompts)
        unread = [prompt[start:] for prompt, start in zip(prompts, starts, strict=True)]
        counts = torch.tensor([len(rest) for rest in unread], device=device)  # P
        longest = max(map(len, unread))
        used = max(starts) + longest
        slots = round_slots(used + 1)
        ids = torch.tensor([token for rest in unread for token in rest], device=device)  # N
        columns = torch.cat([torch.arange(len(rest), device=device) for rest in unread])  # N, within what is read now
        rows = torch.repeat_interleave(torch.arange(len(prompts), device=device), counts, output_size=len(ids))  # N
        first = torch.tensor(starts, device=device)[:, None]
        places = first[rows, 0] + columns  # N
        turns = {rope: (cos[places], sin[places]) for rope, (cos, sin) in self._turns.tables(used).items()}
        seen_from = first + torch.arange(longest, device=device)  # P T
        windows = {window: _seen(seen_from, used, window, has_known=max(starts) > 0) for window in {*s.windows}}
        x = self._embed(ids)[None]  # 1 N D: linears and norms meet no padding, only attention does
        caches: list[Tensor] = []
        layers = self._mix_reading(models, [len(rest) for rest in unread]) if {*models} - {self} else self._layers
        for index, (layer, rope, window) in enumerate(zip(layers, s.ropes, s.windows, strict=True)):
            queries, keys_values = self._split_heads(layer, x, turns.get(rope))
            cache = keys_values.new_zeros(len(prompts), 2 * s.kv_heads, slots, s.head_width)
            for row, part in enumerate(known):
                if part is not None:
                    cache[row, :, : part.shape[2]] = part[index]
            cache[rows, :, places] = keys_values[0].transpose(0, 1)
            caches.append(cache)
            padded = queries.new_zeros(len(prompts), s.heads, longest, s.head_width)
            padded[rows, :, columns] = queries[0].transpose(0, 1)
            keys, values = cache[:, :, :used].chunk(2, 1)
            attended = F.scaled_dot_product_attention(
                padded,
                keys,
                values,
                attn_mask=(sees := windows[window]),
                is_causal=sees is None,
                scale=s.attention_scale,
                enable_gqa=s.heads != s.kv_heads,
            )
            x = self._finish_layer(layer, x, attended[rows, :, columns].reshape(1, len(ids), -1))
        hidden = x.new_zeros(len(prompts), longest, s.width)
        hidden[rows, columns] = self._normalize(x[0], self._norm)
        return hidden, PlainCache(caches, torch.tensor([len(prompt) for prompt in prompts]))

    @torch.inference_mode()
    def decode(self, cache: PlainCache, tokens: Tensor) -> Tensor:
        """Append one token a row (B,); the logits (B, V) that follow it."""
        return cache.step(tokens, self._advance, context_length=self.shape.context_length)

    def _advance(self, tokens: Tensor, positions: Tensor, layers: Sequence[Tensor], used: int) -> Tensor:
        """Logits (B, V) behind tokens (B,) at positions (B,) below `used`; their keys and values go into the layers."""
        s = self.shape
        batch = tokens.shape[0]
        rows = torch.arange(batch, device=self.device)
        tables = self._turns.tables(used)
        turns = {
            rope: (cos[positions][:, None, None], sin[positions][:, None, None]) for rope, (cos, sin) in tables.items()
        }
        bias = {window: self._bias(positions, used, window) for window in {*s.windows}}  # B 1 1 S
        x = self._embed(tokens)[:, None]  # B 1 D
        for layer, rope, window, stored in zip(self._layers, s.ropes, s.windows, layers, strict=True):
            queries, keys_values = self._split_heads(layer, x, turns.get(rope))
            stored[rows, :, positions] = keys_values[:, :, 0]
            keys, values = stored[:batch, : s.kv_heads, :used], stored[:batch, s.kv_heads :, :used]
            grouped = queries.reshape(batch, s.kv_heads, s.heads // s.kv_heads, s.head_width)
            attended = F.scaled_dot_product_attention(
                grouped, keys, values, attn_mask=bias[window], scale=s.attention_scale
            )
            x = self._finish_layer(layer, x, attended.reshape(batch, 1, -1))
        return self.project(self._normalize(x[:, 0], self._norm))

    @torch.inference_mode()
    def states(self, prompts: Sequence[Sequence[int]], hidden: Tensor) -> Tensor:
        """Final hidden states (P, T, D) of prompts that `prefill` just read, right-padded."""
        return hidden

    def project(self, hidden: Tensor) -> Tensor:
        """Logits (..., V), float32, of final hidden states (..., D)."""
        return self._head(hidden)

    def _bias(self, positions: Tensor, used: int, window: int | None) -> Tensor:
        """(B, 1, 1, S) added to a row's scores: 0 where its newest token sees the slot, else -inf."""
        slots = torch.arange(used, device=self.device)
        sees = slots <= positions[:, None]
        if window is not None:
            sees &= slots > positions[:, None] - window
        bias = torch.zeros(sees.shape, dtype=self.precision, device=self.device)
        return bias.masked_fill_(~sees, float("-inf"))[:, None, None]


class _Reader:
    """Tensors of a model by name, as it computes with them."""

    def __init__(
        self,
        shape: ModelShape,
        weights: Mapping[str, Tensor],
        precision: torch.dtype,
        device: torch.device,
        lay_out: LayOut,
        *,
        is_half: bool,
    ) -> None:
        """Args:
        is_half: what linears read and put out is; the head's is float32 always.
        """
        self._shape = shape
        self._weights = weights
        self._precision = precision
        self._device = device
        self._lay_out = lay_out
        self._head_precision = torch.float32 if is_half else precision

    def embedding(self) -> Tensor:
        """As it is stored: a row is made float32 when it is read."""
        # a copy: what lies in a file keeps all of that file in memory
        return self._weights[EMBEDDING].to(self._device, copy=True)

    def head(self) -> Product:
        """Float32 in and out."""
        weight = self._shape.find_head(self._weights)
        if self._device.type == "cuda" and self._precision != torch.float32:
            return TwoHalves(weight.to(self._device, self._precision))
        return self._lay_out(weight.to(self._device), None, self._head_precision)

    def norm(self, name: str) -> Tensor:
        weight, offset = self._weights[f"{name}.weight"], self._shape.family.norm_offset
        return (weight.float() + offset if offset else weight.float()).to(self._device)

    def layer(self, index: int) -> Layer:
        family, name = self._shape.family, f"model.layers.{index}"
        attention, mlp, four = f"{name}.self_attn", f"{name}.mlp", family.norms_outputs
        before_mlp = "pre_feedforward" if four else "post_attention"
        return Layer(
            norm_1=self.norm(f"{name}.input_layernorm"),
            norm_2=self.norm(f"{name}.{before_mlp}_layernorm"),
            head_norm=self._head_norm(attention) if family.norms_heads else None,
            out_norm_1=self.norm(f"{name}.post_attention_layernorm") if four else None,
            out_norm_2=self.norm(f"{name}.post_feedforward_layernorm") if four else None,
            qkv=self._join([f"{attention}.{part}_proj" for part in "qkv"]),
            out=self._join([f"{attention}.o_proj"]),
            gate_up=self._join([f"{mlp}.gate_proj", f"{mlp}.up_proj"]),
            down=self._join([f"{mlp}.down_proj"]),
        )

    def _head_norm(self, attention: str) -> Tensor:
        s = self._shape
        query, key = (self.norm(f"{attention}.{part}_norm") for part in "qk")
        return torch.cat([query.expand(s.heads, -1), key.expand(s.kv_heads, -1)])[:, None]

    def _join(self, names: Sequence[str]) -> Linear:
        """One linear of several that read the same input."""
        found = {name: self._weights[name] for name in (f"{name}.weight" for name in names)}
        parts = tuple((name, weight.shape[0]) for name, weight in found.items())
        weights = [weight.to(self._device) for weight in found.values()]
        biases = [self._weights.get(f"{name}.bias") for name in names]
        bias = None
        if any(found is not None for found in biases):
            filled = [
                torch.zeros(out, device=self._device) if found is None else found.to(self._device)
                for found, (_, out) in zip(biases, parts, strict=True)
            ]
            bias = torch.cat(filled).to(self._precision)
        weight = torch.cat(weights) if len(weights) > 1 else weights[0].contiguous()
        return Linear(parts, self._lay_out(weight, bias, self._precision))


def _seen(places: Tensor, used: int, window: int | None, *, has_known: bool) -> Tensor | None:
    """Where a token at `places` (P, T) sees a slot, (P or 1, 1, T, S): its own and those before it, of a window only
    the last; None: all before it, and nothing was known.
    """
    if not has_known and (window is None or window >= used):
        return None
    slots, own = torch.arange(used, device=places.device), (places if has_known else places[:1])[:, None, :, None]
    sees = slots <= own
    return sees if window is None else sees & (slots > own - window)
