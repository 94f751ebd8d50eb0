"""Keys and values of the rows that decode together: in tensors that grow, or where a recorded step finds them again."""

from collections.abc import Callable
from typing import Self
from weakref import WeakSet

import torch
from torch import Tensor

_SLOT_BLOCK = 32
_FEWEST_SLOTS = 128
_FIRST_SLOTS = 512

Work = Callable[[], Tensor]
Record = Callable[[Work], Work]
Advance = Callable[[Tensor, Tensor, list[Tensor], int], Tensor]
"""tokens (B,), positions (B,), a layer's keys and values each, how many slots are in use -> logits (B, V)."""


def round_slots(slots: int) -> int:
    """Up to a whole block."""
    return -(-slots // _SLOT_BLOCK) * _SLOT_BLOCK


class PlainCache:
    """Keys and values of the rows of one batch; row b's position p lies in slot p.

    Rows live in [0, rows) of preallocated tensors, (capacity, 2 * kv_heads, slots, head_width) a layer, keys first.

    Attributes:
        lengths: (B,) int64 in the machine's memory, the next free position of each row; positions: the same where the
            keys are.
    """

    def __init__(self, layers: list[Tensor], lengths: Tensor) -> None:
        self.layers = layers
        self.lengths = lengths
        self.positions = lengths.to(layers[0].device)

    @property
    def rows(self) -> int:
        return self.lengths.shape[0]

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order."""
        device, count = self.layers[0].device, rows.shape[0]
        places = rows.to(device)
        self.lengths = self.lengths[rows]
        self.positions = self.lengths.to(device)
        if count <= self.layers[0].shape[0]:
            for layer in self.layers:
                layer[:count] = layer[places]
        else:
            self.layers = [layer[places] for layer in self.layers]

    def absorb(self, other: "PlainCache") -> None:
        """Append another cache's rows behind ours.

        Slots behind theirs are cleared: of what had the place before, NaN and infinity would come through the mask.
        """
        used = int(other.lengths.max())
        self._reserve(self.rows + other.rows, used)
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            places = mine[self.rows : self.rows + other.rows]
            places[:, :, :used] = theirs[: other.rows, :, :used]
            places[:, :, used:] = 0
        self.lengths = torch.cat([self.lengths, other.lengths])
        self.positions = self.lengths.to(self.layers[0].device)

    def step(self, tokens: Tensor, advance: Advance, *, context_length: int) -> Tensor:
        """Logits (B, V) behind one more token a row."""
        used = int(self.lengths.max()) + 1
        self._reserve(self.rows, used)
        logits = advance(tokens, self.positions, self.layers, used)
        self._go_on(used, context_length)
        self.positions = self.lengths.to(self.layers[0].device)
        return logits

    def _go_on(self, used: int, context_length: int) -> None:
        self.lengths = self.lengths + 1
        if used == context_length:
            self.lengths.clamp_(max=context_length - 1)  # who is at the end has ended

    def _reserve(self, rows: int, slots: int) -> None:
        capacity, _, most_slots, _ = self.layers[0].shape
        if rows <= capacity and slots <= most_slots:
            return
        new_capacity = capacity if rows <= capacity else max(rows, 2 * capacity)
        new_slots = most_slots if slots <= most_slots else round_slots(max(slots, most_slots * 3 // 2))
        self._move(new_capacity, new_slots)

    def _move(self, capacity: int, slots: int) -> None:
        for index, layer in enumerate(self.layers):
            kept = min(slots, layer.shape[2])
            bigger = layer.new_zeros(capacity, layer.shape[1], slots, layer.shape[3])
            bigger[: self.rows, :, :kept] = layer[: self.rows, :, :kept]
            self.layers[index] = bigger


class StaticCache(PlainCache):
    """The rows of one batch after another, where they stay: a step of so many rows and slots is recorded once.

    Rows and slots are rounded up to powers of two. What a place without a row computes is thrown away.
    """

    def __init__(self, like: PlainCache, record: Record) -> None:
        """
        Args:
            like: whose rows it takes over, and whose layers' shape, type and device it has.
            record: from work on tensors that stay where they are to what repeats it.
        """
        self._record = record
        self._recorded: dict[tuple[int, int], Work | None] = {}
        one = like.layers[0]
        self.layers = [one.new_zeros(0, one.shape[1], 0, one.shape[3]) for _ in like.layers]
        self._tokens = torch.zeros(0, dtype=torch.int64, device=one.device)
        self._places = self._tokens
        self.lengths = torch.zeros(0, dtype=torch.int64)
        self.take(like)

    @property
    def positions(self) -> Tensor:
        """(B,) the next free position of each row; who sets it says so of as many rows as there will be."""
        return self._places[: self.rows]

    @positions.setter
    def positions(self, positions: Tensor) -> None:
        self._places[: len(positions)] = positions
        self._places[len(positions) :] = 0

    def take(self, other: PlainCache) -> Self:
        """Forget the rows that were here, for another cache's."""
        self.lengths = self.lengths[:0]
        self.absorb(other)
        return self

    def step(self, tokens: Tensor, advance: Advance, *, context_length: int) -> Tensor:
        needed = int(self.lengths.max()) + 1
        self._reserve(self.rows, needed)
        rows = min(_round_up(self.rows), self.layers[0].shape[0])
        used = min(_round_up(max(needed, _FEWEST_SLOTS)), self.layers[0].shape[2])
        self._tokens[: self.rows] = tokens

        def work() -> Tensor:
            return advance(self._tokens[:rows], self._places[:rows], self.layers, used)

        logits = self._run((rows, used), work)[: self.rows]
        self._go_on(needed, context_length)
        self._places[: self.rows].add_(1).clamp_(max=context_length - 1)
        return logits

    def _run(self, size: tuple[int, int], work: Work) -> Tensor:
        """The first time as it is, which warms up what a recording must find warm; from the second on recorded."""
        if size not in self._recorded:
            self._recorded[size] = None
            return work()
        if (recorded := self._recorded[size]) is None:
            recorded = self._recorded[size] = self._record(work)
        return recorded()

    def _reserve(self, rows: int, slots: int) -> None:
        capacity, _, most_slots, _ = self.layers[0].shape
        if rows <= capacity and slots <= most_slots:
            return
        capacity = max(capacity, _round_up(rows))
        self._move(capacity, max(most_slots, _round_up(max(slots, _FIRST_SLOTS))))
        self._recorded.clear()
        self._tokens = self._tokens.new_zeros(capacity)
        places = self._tokens.new_zeros(capacity)
        places[: self.rows] = self.positions
        self._places = places


def _round_up(number: int) -> int:
    """To a power of two."""
    return 1 << (number - 1).bit_length()


def record_graphs() -> Record:
    """What makes a CUDA graph of a step: each call of it runs all kernels again, and returns the same tensor.

    They share the memory of what lies between: one step's logits must be read before another of them runs. It goes with
    the last graph that uses it, so the next one asks those that are left.
    """
    graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()

    def record(work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        pool = next((other.pool() for other in graphs), None)
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            found = work()
        graphs.add(graph)

        def replay() -> Tensor:
            graph.replay()
            return found

        return replay

    return record
