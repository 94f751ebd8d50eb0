"""Keys and values of prompts' beginnings that were read before: a conversation's past, a system prompt."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

BLOCK_TOKENS = 32


def hash_blocks(identity: bytes, tokens: Sequence[int]) -> list[bytes]:
    """A name for each whole block of a prompt, and of all that stands before it; the prompt's last token is in none.

    Args:
        identity: of the weights that read it. Whoever has the same name has the same keys and values.
    """
    whole = (len(tokens) - 1) // BLOCK_TOKENS
    names, name = [], identity
    for block in np.array(tokens[: whole * BLOCK_TOKENS], dtype=np.int64).reshape(whole, BLOCK_TOKENS):
        name = hashlib.sha256(name + block.tobytes()).digest()
        names.append(name)
    return names


class PrefixStore:
    """Blocks by name, each (layers, 2 KV, BLOCK_TOKENS, head width); what was used longest ago is released first."""

    def __init__(self, limit_bytes: int) -> None:
        """0 keeps nothing."""
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._blocks: OrderedDict[bytes, Tensor] = OrderedDict()

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def count(self, names: Sequence[bytes]) -> int:
        """Tokens known from the start on of the prompt with these blocks."""
        return BLOCK_TOKENS * next((index for index, name in enumerate(names) if name not in self._blocks), len(names))

    def find(self, names: Sequence[bytes]) -> Tensor | None:
        """(layers, 2 KV, tokens, head width) of the prompt's known beginning; None: nothing of it is known."""
        found = names[: self.count(names) // BLOCK_TOKENS]
        if not found:
            return None
        for name in reversed(found):  # a beginning is released after what goes on from it, which is no use without it
            self._blocks.move_to_end(name)
        return torch.cat([self._blocks[name] for name in found], 2)

    def keep(self, names: Sequence[bytes], layers: Sequence[Tensor], row: int) -> None:
        """Copy a prompt's blocks out of the cache it was read into, (capacity, 2 KV, slots, head width) a layer."""
        unknown = [index for index, name in enumerate(names) if name not in self._blocks]
        if unknown:
            first = unknown[0] * BLOCK_TOKENS
            end = len(names) * BLOCK_TOKENS
            whole = torch.stack([layer[row, :, first:end] for layer in layers])
        for index, name in reversed(list(enumerate(names))):
            if name in self._blocks:
                self._blocks.move_to_end(name)
                continue
            start = index * BLOCK_TOKENS - first
            block = whole if len(names) * BLOCK_TOKENS - first == BLOCK_TOKENS else _cut(whole, start)
            self._blocks[name] = block
            self._size_bytes += block.nbytes
        self.trim()

    def limit(self, limit_bytes: int) -> None:
        """Keep so many from now on; what is too much goes at the next `trim`. Any thread may say so."""
        self._limit_bytes = limit_bytes

    def trim(self) -> None:
        """Release what was used longest ago, down to the limit."""
        while self._size_bytes > self._limit_bytes:
            self._size_bytes -= self._blocks.popitem(last=False)[1].nbytes


def _cut(whole: Tensor, start: int) -> Tensor:
    """A block of its own memory: the others may be released before it."""
    return whole[:, :, start : start + BLOCK_TOKENS].clone()
