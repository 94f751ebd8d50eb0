"""Packed batches: one row holds a prompt once and every completion of it, kept apart by a block attention pattern.

The pattern is exact: each completion sees the prompt and itself, at the positions it would have alone. With eight
answers to a prompt the prompt is computed once instead of eight times.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PROMPT = 0
PADDING = -1


@dataclass(frozen=True)
class PackedRow:
    """One prompt and its completions, as token ids. Neither the prompt nor a completion may be empty."""

    prompt: Sequence[int]
    completions: Sequence[Sequence[int]]

    @property
    def size_tokens(self) -> int:
        return len(self.prompt) + sum(map(len, self.completions))


@dataclass(frozen=True)
class PackedBatch:
    """Rows ready for a causal language model.

    Args:
        token_ids, positions: (B, T) int64; padding is at the end of a row, at position 0.
        attends: (B, 1, T, T) bool, True where the query (third axis) may see the key (fourth).
        rows, columns: (N,) int64: where the position lies whose prediction is completion token n.
        targets: (N,) int64: the completion tokens, row by row, completion by completion.
        sizes: tokens of each completion in that order; they sum to N.
    """

    token_ids: Tensor
    positions: Tensor
    attends: Tensor
    rows: Tensor
    columns: Tensor
    targets: Tensor
    sizes: tuple[int, ...]


def pack_rows(rows: Sequence[PackedRow], *, padding_id: int = 0) -> PackedBatch:
    """Lay prompts and completions out as one batch.

    Args:
        padding_id: any valid token id; no counted position sees it.
    Raises:
        ValueError: there is no row, or a prompt or a completion is empty.
    """
    if not rows:
        raise ValueError("a packed batch wants at least one row, found none")
    width = max(row.size_tokens for row in rows)
    token_ids, positions, segments = [], [], []
    target_rows: list[int] = []
    target_columns: list[int] = []
    targets: list[int] = []
    sizes: list[int] = []
    for index, row in enumerate(rows):
        if not row.prompt or not row.completions or not all(row.completions):
            raise ValueError(f"row {index} wants a prompt and completions of at least one token each")
        start = len(row.prompt)
        ids, places, blocks = list(row.prompt), list(range(start)), [PROMPT] * start
        for block, completion in enumerate(row.completions, start=1):
            here, size = len(ids), len(completion)
            target_columns.append(start - 1)
            target_columns.extend(range(here, here + size - 1))
            ids.extend(completion)
            places.extend(range(start, start + size))
            blocks.extend([block] * size)
            targets.extend(completion)
            sizes.append(size)
            target_rows.extend([index] * size)
        rest = width - len(ids)
        token_ids.append(ids + [padding_id] * rest)
        positions.append(places + [0] * rest)
        segments.append(blocks + [PADDING] * rest)
    segment_ids = torch.tensor(segments)  # B T
    return PackedBatch(
        token_ids=torch.tensor(token_ids),
        positions=torch.tensor(positions),
        attends=block_attention(segment_ids),
        rows=torch.tensor(target_rows),
        columns=torch.tensor(target_columns),
        targets=torch.tensor(targets),
        sizes=tuple(sizes),
    )


def block_attention(segments: Tensor) -> Tensor:
    """Who may see whom: earlier positions of one's own segment, and the prompt.

    Args:
        segments: (B, T) int64: PROMPT, then 1, 2, ... for the completions, PADDING at the end.
    Returns:
        (B, 1, T, T) bool. A padding position sees only itself, so that no row of a softmax is empty.
    """
    width = segments.shape[1]
    keys, queries = segments[:, None, :], segments[:, :, None]
    earlier = torch.ones(width, width, dtype=torch.bool, device=segments.device).tril()
    sees = earlier & ((keys == queries) | (keys == PROMPT)) & (keys != PADDING)
    alone = torch.eye(width, dtype=torch.bool, device=segments.device)
    return (sees | alone)[:, None]


def split_blocks(blocks: Sequence[Sequence[PackedRow]], *, budget_tokens: int) -> list[list[int]]:
    """Share blocks of rows out over micro-batches whose padded size stays within the budget, those of like size
    together.

    Args:
        blocks: rows that stay in one micro-batch.
        budget_tokens: B * T of one micro-batch; a single larger block still gets one of its own.
    Returns:
        Lists of indices into `blocks`.
    """
    longest = [max(row.size_tokens for row in block) for block in blocks]
    parts: list[list[int]] = []
    rows = width = 0
    for index in sorted(range(len(blocks)), key=lambda i: (-longest[i], i)):
        rows += len(blocks[index])
        if parts and rows * width <= budget_tokens:
            parts[-1].append(index)
        else:
            parts.append([index])
            rows, width = len(blocks[index]), longest[index]
    return parts


def find_size(block: Sequence[PackedRow]) -> int:
    """Of a micro-batch of these rows, in tokens, padding included."""
    return len(block) * max(row.size_tokens for row in block)
