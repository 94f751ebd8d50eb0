"""Batches without padding: every prompt once, every completion once, attention over prompt and own completion only.

Products run over the flat tokens; attention alone knows where prompts and completions begin. With eight answers to a
prompt the prompt is computed once instead of eight times, and no answer is compared with another's keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from gpu_workers.learning.packing import PackedRow
from gpu_workers.learning.segments import Segments, attend_segments, lay_segments

MOST_BIAS = 2**24
"""Numbers of a mask up to which a CPU reads all completions at once, padded to the longest."""


class _Blocks(NamedTuple):
    """Where padded blocks find their tokens, and what is added to the products of their queries and keys.

    Args:
        prompts: (B, P) int64, where each prompt's tokens lie; 0 behind its end.
        completions: (C, L) int64, the same of each completion.
        seen: (C, P + L) int64, the same of each completion's prompt and itself.
        slots: (N,) int64, where each flat token lies in the blocks, (B * P) and then (C * L) end to end.
        read_bias: (P, P), 0 where a prompt's token (first axis) sees one of its prompt (second), else the lowest
            number; None: all before it.
        answered_bias: (C, 1, L, P + L), the same of a completion's token and those of its prompt and itself.
    """

    prompts: Tensor
    completions: Tensor
    seen: Tensor
    slots: Tensor
    read_bias: Tensor | None
    answered_bias: Tensor


class _Cut(NamedTuple):
    """Segments where a window cuts: prompts, completions over the tokens at `seen`, (K,) int64."""

    prompts: Segments
    completions: Segments
    seen: Tensor


@dataclass(frozen=True)
class SharedBatch:
    """Prompts and completions as flat tokens (N,), prompts first.

    Args:
        token_ids, positions: (N,) int64.
        predictors: (M,) int64, the flat token that predicts each completion token.
        targets: (M,) int64: the completion tokens, row by row, completion by completion.
        prompt_sizes: tokens of each prompt; answers: completions of each.
        sizes: tokens of each completion in that order; they sum to M.
    """

    token_ids: Tensor
    positions: Tensor
    predictors: Tensor
    targets: Tensor
    prompt_sizes: tuple[int, ...]
    answers: tuple[int, ...]
    sizes: tuple[int, ...]
    _blocks: dict[tuple[int | None, torch.dtype], _Blocks] = field(default_factory=dict, repr=False)
    _cuts: dict[int, _Cut] = field(default_factory=dict, repr=False)

    @cached_property
    def owners(self) -> tuple[int, ...]:
        """The prompt of each completion."""
        return tuple(prompt for prompt, count in enumerate(self.answers) for _ in range(count))

    @cached_property
    def read_sizes(self) -> tuple[int, ...]:
        """Tokens of each completion and its prompt."""
        return tuple(self.prompt_sizes[owner] + size for owner, size in zip(self.owners, self.sizes, strict=True))

    def attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float | None = None, window: int | None = None
    ) -> Tensor:
        """Attention of every flat token.

        Args:
            queries: (N, H, hd); keys, values: (N, KV, hd).
            scale: of a query's product with a key; None: one over the root of hd.
            window: positions a token sees, its own among them; None: all before it.
        Returns:
            (N, H * hd).
        """
        if window is not None and window >= max(self.read_sizes):
            window = None
        scale = queries.shape[-1] ** -0.5 if scale is None else scale
        if self._reads_segments(queries):
            return self._attend_segments(queries, keys, values, scale=scale, window=window).flatten(1)
        return self._attend_blocks(queries, keys, values, scale=scale, window=window)

    def _reads_segments(self, queries: Tensor) -> bool:
        """Whether attention is read without a mask: a GPU can in half precision, a CPU does where it would be large."""
        if queries.is_cuda:
            return queries.dtype.itemsize == 2
        return len(self.sizes) * max(self.sizes) * (max(self.prompt_sizes) + max(self.sizes)) > MOST_BIAS

    def _attend_segments(
        self, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        if window is None:
            return attend_segments(queries, keys, values, *self._segments, scale=scale)
        if window not in self._cuts:
            self._cuts[window] = self._cut(window)
        cut, behind = self._cuts[window], sum(self.prompt_sizes)
        read = attend_segments(queries[:behind], keys[:behind], values[:behind], cut.prompts, scale=scale)
        seen_keys, seen_values = keys.index_select(0, cut.seen), values.index_select(0, cut.seen)
        return torch.cat(
            [read, attend_segments(queries[behind:], seen_keys, seen_values, cut.completions, scale=scale)]
        )

    def _attend_blocks(
        self, queries: Tensor, keys: Tensor, values: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        laid = (window, queries.dtype)
        if laid not in self._blocks:
            self._blocks[laid] = self._lay_blocks(window, queries.dtype)
        blocks, has_groups = self._blocks[laid], queries.shape[1] != keys.shape[1]
        read = F.scaled_dot_product_attention(
            _pick(queries, blocks.prompts),
            _pick(keys, blocks.prompts),
            _pick(values, blocks.prompts),
            attn_mask=blocks.read_bias,
            is_causal=blocks.read_bias is None,
            scale=scale,
            enable_gqa=has_groups,
        )  # B H P hd
        answered = F.scaled_dot_product_attention(
            _pick(queries, blocks.completions),
            _pick(keys, blocks.seen),
            _pick(values, blocks.seen),
            attn_mask=blocks.answered_bias,
            scale=scale,
            enable_gqa=has_groups,
        )  # C H L hd
        width = queries.shape[1] * queries.shape[2]
        flat = [read.transpose(1, 2).reshape(-1, width), answered.transpose(1, 2).reshape(-1, width)]
        return torch.cat(flat).index_select(0, blocks.slots)

    @cached_property
    def _segments(self) -> tuple[Segments, Segments]:
        """Each prompt and completion over itself, and the completions of each prompt over the prompt."""
        device, ends = self.token_ids.device, [0, *accumulate(self.answers)]
        own = self.prompt_sizes + self.sizes
        behind = tuple(sum(self.sizes[start:end]) for start, end in pairwise(ends))
        return (
            lay_segments(own, own, is_causal=True, device=device),
            lay_segments(behind, self.prompt_sizes, is_causal=False, device=device),
        )

    def _cut(self, window: int) -> _Cut:
        device, starts = self.token_ids.device, [0, *accumulate(self.prompt_sizes + self.sizes)]
        first = len(self.prompt_sizes)
        seen = [
            torch.arange(starts[place], starts[place] + size)
            for index, owner in enumerate(self.owners)
            for place, size in ((owner, self.prompt_sizes[owner]), (first + index, self.sizes[index]))
        ]
        return _Cut(
            lay_segments(self.prompt_sizes, self.prompt_sizes, is_causal=True, device=device, window=window),
            lay_segments(self.sizes, self.read_sizes, is_causal=True, device=device, window=window),
            torch.cat(seen).to(device),
        )

    def _lay_blocks(self, window: int | None, dtype: torch.dtype) -> _Blocks:
        prompt_sizes, sizes = torch.tensor(self.prompt_sizes), torch.tensor(self.sizes)
        owners = torch.tensor(self.owners)
        prompts, is_prompt = _places(prompt_sizes)
        completions, is_completion = _places(sizes)
        completions = torch.where(is_completion, completions + sum(self.prompt_sizes), 0)
        read, longest = prompts.shape[1], completions.shape[1]
        sees = torch.cat(
            [
                is_prompt[owners][:, None].expand(-1, longest, -1),
                torch.ones(longest, longest, dtype=torch.bool).tril().expand(len(sizes), -1, -1),
            ],
            -1,
        )  # C L P+L
        read_bias = None
        if window is not None:
            places = torch.arange(max(read, longest))
            own = places[:longest, None] - places[:longest] < window  # L L
            back = prompt_sizes[owners][:, None, None] + places[:longest, None] - places[:read] < window  # C L P
            sees = sees & torch.cat([back, own.expand(len(sizes), -1, -1)], -1)
            gaps = places[:read, None] - places[:read]
            read_bias = _make_bias((gaps >= 0) & (gaps < window), dtype)
        device = self.token_ids.device
        return _Blocks(
            prompts=prompts.to(device),
            completions=completions.to(device),
            seen=torch.cat([prompts[owners], completions], 1).to(device),
            slots=torch.cat([is_prompt.flatten(), is_completion.flatten()]).nonzero()[:, 0].to(device),
            read_bias=None if read_bias is None else read_bias.to(device),
            answered_bias=_make_bias(sees[:, None], dtype).to(device),
        )

    def to(self, device: torch.device) -> "SharedBatch":
        """The same batch on a device."""
        if self.token_ids.device == device:
            return self
        tensors = {name: getattr(self, name).to(device) for name in ("token_ids", "positions", "predictors", "targets")}
        return replace(self, **tensors, _blocks={}, _cuts={})


def _pick(flat: Tensor, places: Tensor) -> Tensor:
    """(N, H, hd) at (C, L) places -> (C, H, L, hd)."""
    picked = flat.reshape(flat.shape[0], -1).index_select(0, places.reshape(-1))
    return picked.view(*places.shape, *flat.shape[1:]).transpose(1, 2)


def _make_bias(sees: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(sees.shape, dtype=dtype).masked_fill_(~sees, torch.finfo(dtype).min)


def share_prefixes(rows: Sequence[PackedRow]) -> SharedBatch:
    """Lay prompts and completions out.

    Raises:
        ValueError: there is no row, or a prompt or a completion is empty.
    """
    if not rows:
        raise ValueError("a batch wants at least one row, found none")
    for index, row in enumerate(rows):
        if not row.prompt or not row.completions or not all(row.completions):
            raise ValueError(f"row {index} wants a prompt and completions of at least one token each")
    answers = [completion for row in rows for completion in row.completions]
    prompt_sizes = torch.tensor([len(row.prompt) for row in rows])  # B
    sizes = torch.tensor([len(answer) for answer in answers])  # C
    owners = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(row.completions) for row in rows]))
    targets = torch.tensor([token for answer in answers for token in answer])  # M
    read = torch.tensor([token for row in rows for token in row.prompt])
    first = torch.cumsum(sizes, 0) - sizes  # C, where each completion begins among the targets
    predictors = torch.arange(len(targets)) + len(read) - 1
    predictors[first] = (torch.cumsum(prompt_sizes, 0) - 1)[owners]  # each prompt's last token
    within = torch.arange(len(targets)) - torch.repeat_interleave(first, sizes)
    begins = torch.cumsum(prompt_sizes, 0) - prompt_sizes
    return SharedBatch(
        token_ids=torch.cat([read, targets]),
        positions=torch.cat(
            [
                torch.arange(len(read)) - torch.repeat_interleave(begins, prompt_sizes),
                within + prompt_sizes[owners].repeat_interleave(sizes),
            ]
        ),
        predictors=predictors,
        targets=targets,
        prompt_sizes=tuple(prompt_sizes.tolist()),
        answers=tuple(len(row.completions) for row in rows),
        sizes=tuple(sizes.tolist()),
    )


def _places(sizes: Tensor) -> tuple[Tensor, Tensor]:
    """(B,) sizes of parts laid end to end -> (B, longest) where the items lie, 0 behind the end; and where they do."""
    columns = torch.arange(int(sizes.max()))
    is_there = columns < sizes[:, None]
    starts = torch.cumsum(sizes, 0) - sizes
    return torch.where(is_there, starts[:, None] + columns, 0), is_there
