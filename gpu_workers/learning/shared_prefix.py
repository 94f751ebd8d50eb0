"""Batches without padding: every prompt once, every completion once, attention over prompt and own completion only.

Products run over the flat tokens; attention alone sees padded blocks, one a completion. With eight answers to a prompt
the prompt is computed once instead of eight times, and no answer is compared with another's keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from gpu_workers.learning.packing import PackedRow


@dataclass(frozen=True)
class SharedBatch:
    """Prompts and completions as flat tokens (N,), prompts first, and where attention finds them.

    Args:
        token_ids, positions: (N,) int64.
        prompts: (B, P) int64, where each prompt's tokens lie; 0 behind its end.
        completions: (C, L) int64, the same of each completion.
        owners: (C,) int64, the prompt of each completion.
        bias: (C, 1, L, P + L) float32, 0 where a completion's token (third axis) may see a key of its prompt or
            itself (fourth), else the lowest number.
        slots: (N,) int64, where each flat token lies in the attention's blocks, (B * P) and then (C * L) end to end.
        predictors: (M,) int64, the flat token that predicts each completion token.
        targets: (M,) int64: the completion tokens, row by row, completion by completion.
        sizes: tokens of each completion in that order; they sum to M.
    """

    token_ids: Tensor
    positions: Tensor
    prompts: Tensor
    completions: Tensor
    owners: Tensor
    bias: Tensor
    slots: Tensor
    predictors: Tensor
    targets: Tensor
    sizes: tuple[int, ...]

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attention of every flat token.

        Args:
            queries: (N, H, hd); keys, values: (N, KV, hd).
        Returns:
            (N, H * hd).
        """
        groups = queries.shape[1] != keys.shape[1]
        read = F.scaled_dot_product_attention(
            _blocks(queries, self.prompts),
            _blocks(keys, self.prompts),
            _blocks(values, self.prompts),
            is_causal=True,
            enable_gqa=groups,
        )  # B H P hd
        seen = torch.cat([self.prompts[self.owners], self.completions], 1)  # C P+L
        answered = F.scaled_dot_product_attention(
            _blocks(queries, self.completions),
            _blocks(keys, seen),
            _blocks(values, seen),
            attn_mask=self.bias.to(queries.dtype),
            enable_gqa=groups,
        )  # C H L hd
        width = queries.shape[1] * queries.shape[2]
        blocks = [read.transpose(1, 2).reshape(-1, width), answered.transpose(1, 2).reshape(-1, width)]
        return torch.cat(blocks).index_select(0, self.slots)

    def to(self, device: torch.device) -> "SharedBatch":
        """The same batch on a device."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "sizes"}
        return SharedBatch(**{name: tensor.to(device) for name, tensor in fields.items()}, sizes=self.sizes)


def _blocks(flat: Tensor, places: Tensor) -> Tensor:
    """(N, H, hd) at (C, L) places -> (C, H, L, hd)."""
    picked = flat.reshape(flat.shape[0], -1).index_select(0, places.reshape(-1))
    return picked.view(*places.shape, *flat.shape[1:]).transpose(1, 2)


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
    behind = prompt_sizes.sum()  # where the first completion's tokens begin
    prompts, is_prompt = _places(prompt_sizes)
    completions, is_completion = _places(sizes)
    completions = torch.where(is_completion, completions + behind, 0)
    targets = torch.tensor([token for answer in answers for token in answer])  # M
    first = torch.cumsum(sizes, 0) - sizes  # C, where each completion begins among the targets
    ends = torch.cumsum(prompt_sizes, 0) - 1  # B, each prompt's last token
    predictors = torch.arange(len(targets)) + behind - 1
    predictors[first] = ends[owners]
    within = torch.arange(len(targets)) - torch.repeat_interleave(first, sizes)
    positions = torch.cat(
        [
            torch.arange(prompts.shape[1]).expand_as(prompts)[is_prompt],
            within + prompt_sizes[owners].repeat_interleave(sizes),
        ]
    )
    longest = completions.shape[1]
    sees = torch.cat(
        [
            is_prompt[owners][:, None].expand(-1, longest, -1),
            torch.ones(longest, longest, dtype=torch.bool).tril().expand(len(answers), -1, -1),
        ],
        -1,
    )[:, None]
    return SharedBatch(
        token_ids=torch.cat([torch.tensor([token for row in rows for token in row.prompt]), targets]),
        positions=positions,
        prompts=prompts,
        completions=completions,
        owners=owners,
        bias=torch.zeros(sees.shape).masked_fill_(~sees, torch.finfo(torch.float32).min),
        slots=torch.cat([is_prompt.flatten(), is_completion.flatten()]).nonzero()[:, 0],
        predictors=predictors,
        targets=targets,
        sizes=tuple(sizes.tolist()),
    )


def _places(sizes: Tensor) -> tuple[Tensor, Tensor]:
    """(B,) sizes of parts laid end to end -> (B, longest) where the items lie, 0 behind the end; and where they do."""
    columns = torch.arange(int(sizes.max()))
    is_there = columns < sizes[:, None]
    starts = torch.cumsum(sizes, 0) - sizes
    return torch.where(is_there, starts[:, None] + columns, 0), is_there
