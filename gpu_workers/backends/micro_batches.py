"""Sharing prompts and their completions out over micro-batches of a bounded size."""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_workers.backends.base_models import BaseModel, Batch
from gpu_workers.backends.low_rank import LowRank
from gpu_workers.backends.memory import MemoryPlan, plan_memory
from gpu_workers.backends.ranks import gather_all, take_share
from gpu_workers.learning.logprobs import count_reading_bytes
from gpu_workers.learning.packing import PackedRow, find_size, split_blocks
from tentalis.core.contracts import RolloutRecord

MOST_TOKENS = 65_536
PART_TOKENS, PART_BYTES = 512, 2**29
"""A processor multiplies so many tokens as quickly as more of them: a micro-batch there is of so many, or of as many as
keep so much until its backward pass, where that is more."""
PROMPT_SHARE = 1 / 16
"""Of what is computed of a prompt's completions, at most, that their prompt may take for being computed again."""

Completion = tuple[Sequence[int], Sequence[int]]
"""A prompt and what stands behind it, as token ids."""


class Packed(NamedTuple):
    """A micro-batch, with the position of each of its completions among those that were packed, in its order."""

    batch: Batch
    members: list[int]


class _Row(NamedTuple):
    """A prompt with some of its completions, and their positions."""

    tokens: PackedRow
    members: Sequence[int]


def pack_items(items: Sequence[Completion], model: BaseModel) -> list[Packed]:
    """Share completions out over the micro-batches of this process; a prompt that several share is in a batch once.

    Only a completion alone may exceed the budget. Where several processes train together, each has its share of the
    completions (see `take_share`): what is made of them all is put together by `gather_all`.
    """
    groups = [tuple(members) for members in _group_by_prompt(items, range(len(items))).values()]
    share = take_share(groups, lambda members: _count_tokens(items, members))
    return _pack_members(items, list(chain.from_iterable(share)), model)


def _pack_members(items: Sequence[Completion], members: Sequence[int], model: BaseModel) -> list[Packed]:
    rows = _make_rows(items, members, widest=_find_widest(model), part=find_part(model))
    return _pack([[row] for row in rows], model)


def pack_bundles(
    items: Sequence[Completion], bundles: Sequence[Collection[int]], model: BaseModel
) -> list[list[Packed]]:
    """The same where what is made of a bundle's completions is no sum over them, so that they are wanted at once.

    Args:
        bundles: positions in `items`; those that share one are one bundle. Every position is in a bundle.
    Returns:
        This process's parts, of whole bundles: one micro-batch each, or several for a bundle that is larger than the
        budget.
    """
    budget = find_budget(model)
    joined = [sorted({member for index in part for member in bundles[index]}) for part in _connect(bundles)]
    whole: list[list[_Row]] = []
    spread: list[list[int]] = []
    alike = _connect([{tuple(items[member][0]) for member in bundle} for bundle in joined])
    clusters = [[joined[index] for index in cluster] for cluster in alike]
    for cluster in take_share(clusters, lambda bundles: _count_tokens(items, chain.from_iterable(bundles))):
        for unit in _fill(items, cluster, budget=budget, widest=model.decoder.widest_row):
            block = _make_rows(items, unit, widest=model.decoder.widest_row)
            if find_size([row.tokens for row in block]) <= budget:
                whole.append(block)
            else:
                spread.append(unit)
    parts = [[packed] for packed in _pack(whole, model)]
    return parts + [_pack_members(items, unit, model) for unit in spread]


def _count_tokens(items: Sequence[Completion], members: Iterable[int]) -> int:
    """Of these completions and of their prompts, each prompt once."""
    chosen = [items[member] for member in members]
    return sum(map(len, {tuple(prompt) for prompt, _ in chosen})) + sum(len(tokens) for _, tokens in chosen)


def _fill(
    items: Sequence[Completion], bundles: Sequence[Sequence[int]], *, budget: int, widest: float
) -> list[list[int]]:
    """Bundles in order, as many together as the budget holds: they have prompts in common."""
    units: list[list[int]] = []
    for bundle in bundles:
        more = sorted([*units[-1], *bundle]) if units else []
        if more and find_size([row.tokens for row in _make_rows(items, more, widest=widest)]) <= budget:
            units[-1] = more
        else:
            units.append(list(bundle))
    return units


def _pack(blocks: Sequence[Sequence[_Row]], model: BaseModel) -> list[Packed]:
    parts = _split_evenly([[row.tokens for row in block] for block in blocks], budget=find_part(model))
    batches = [[row for index in part for row in blocks[index]] for part in parts]
    return [
        Packed(model.lay_out([row.tokens for row in rows]), [member for row in rows for member in row.members])
        for rows in batches
    ]


def _split_evenly(blocks: Sequence[Sequence[PackedRow]], *, budget: int) -> list[list[int]]:
    """As few parts as the budget allows, none of them small beside the others where less room makes no more of them."""
    parts = split_blocks(blocks, budget_tokens=budget)
    if len(parts) < 2:
        return parts
    for eighths in range(1, 8):
        even = split_blocks(blocks, budget_tokens=budget * eighths // 8)
        if len(even) == len(parts):
            return even
    return parts


def _make_rows(
    items: Sequence[Completion], members: Iterable[int], *, widest: float, part: float = math.inf
) -> list[_Row]:
    """Each prompt with as many of its completions as a row has room for, one at least.

    Args:
        widest: tokens of a row. part: the same, unless the prompt is so long that it is dear to compute again.
    """
    rows: list[_Row] = []
    for prompt, of_prompt in _group_by_prompt(items, members).items():
        sizes = [len(items[member][1]) for member in of_prompt]
        room = min(widest, max(part, len(prompt) / PROMPT_SHARE)) - len(prompt)
        rows.extend(
            _Row(PackedRow(prompt, [items[member][1] for member in mine]), mine)
            for mine in _split_group(of_prompt, sizes, room=room)
        )
    return rows


def _group_by_prompt(items: Sequence[Completion], members: Iterable[int]) -> dict[tuple[int, ...], list[int]]:
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for member in members:
        by_prompt.setdefault(tuple(items[member][0]), []).append(member)
    return by_prompt


def _connect(groups: Sequence[Collection[Hashable]]) -> list[list[int]]:
    """Which groups hang together by what they share: indices, in order of the first of each."""
    leaders = list(range(len(groups)))

    def find(index: int) -> int:
        while leaders[index] != index:
            leaders[index] = index = leaders[leaders[index]]
        return index

    known: dict[Hashable, int] = {}
    for index, group in enumerate(groups):
        for key in group:
            one, other = sorted((find(known.setdefault(key, index)), find(index)))
            leaders[other] = one
    connected: dict[int, list[int]] = {}
    for index in range(len(groups)):
        connected.setdefault(find(index), []).append(index)
    return list(connected.values())


def _split_group(members: Sequence[int], sizes: Sequence[int], *, room: float) -> list[list[int]]:
    """Members in order, in parts that have room for their sizes; one that is larger is alone."""
    parts: list[list[int]] = []
    left = 0.0
    for member, size in zip(members, sizes, strict=True):
        if not parts or size > left:
            parts.append([])
            left = room
        parts[-1].append(member)
        left -= size
    return parts


def find_budget(model: BaseModel) -> int:
    """Tokens of a micro-batch at most: as many as its memory holds the activations of, at least one."""
    return max(1, min(MOST_TOKENS, model.room // model.activation_bytes))


def find_part(model: BaseModel) -> int:
    """Tokens of a micro-batch that is put together of prompts with their completions."""
    budget = find_budget(model)
    if model.device.type == "cuda":  # a larger product is a quicker one
        return budget
    return min(budget, max(PART_TOKENS, PART_BYTES // model.activation_bytes))


def _find_widest(model: BaseModel) -> float:
    return min(find_budget(model), model.decoder.widest_row)


def plan_items(
    items: Sequence[Completion],
    model: BaseModel,
    *,
    modules: Collection[str],
    rank: int,
    in_bundles: bool = False,
) -> MemoryPlan:
    """What training on these takes at most, whichever of them are in an update.

    Args:
        modules: last names of the linear modules that are changed.
        in_bundles: completions of a prompt are wanted at once (see `pack_bundles`).
    """
    rows = _make_rows(
        items, range(len(items)), widest=_find_widest(model), part=math.inf if in_bundles else find_part(model)
    )
    parts = _split_evenly([[row.tokens] for row in rows], budget=find_part(model))
    batches = [[rows[index].tokens for index in part] for part in parts]
    largest = max(batches, key=lambda batch: sum(row.size_tokens for row in batch), default=[])
    tokens = sum(row.size_tokens for row in largest)
    return plan_memory(
        model.shape,
        weights=model.decoder.weight_numbers,
        adapter_numbers=sum(rank * sum(weight.shape) for weight in model.find_linears(modules).values()),
        number_bytes=model.number_bytes,
        layer_numbers=model.layer_numbers,
        tokens=tokens,
        predicted=(predicted := tokens - sum(len(row.prompt) for row in largest)),
        reading=count_reading_bytes(predicted, model.decoder.head),
        recomputes=model.recomputes(tokens),
    )


def spread_temperatures(temperatures: Sequence[float], batch: Batch) -> Tensor | None:
    """(N,) the temperature of each completion token, from one a completion; None where all are 1."""
    if all(temperature == 1 for temperature in temperatures):
        return None
    return torch.tensor(temperatures).repeat_interleave(torch.tensor(list(batch.sizes)))


def score_frozen(model: BaseModel, items: Sequence[tuple[Sequence[int], RolloutRecord]]) -> list[list[float]]:
    """Log-probs in nats of each rollout's tokens after the given prompt, under the model as it is, at the temperature
    the rollout was sampled at."""
    temperatures = [rollout.temperature for _, rollout in items]
    return score_answers(model, [(prompt, rollout.token_ids) for prompt, rollout in items], {}, temperatures)


@torch.inference_mode()
def score_answers(
    model: BaseModel,
    items: Sequence[tuple[Sequence[int], Sequence[int]]],
    changes: Mapping[str, LowRank],
    temperatures: Sequence[float] | None = None,
) -> list[list[float]]:
    """Log-probs in nats of each answer's tokens after its prompt, under the model with these changes.

    Args:
        items: (prompt, answer) token ids.
        changes: full module name -> low-rank change of its weight; empty for the base itself.
        temperatures: one an item; None: all 1.
    """
    found: list[tuple[int, list[float]]] = []
    for batch, members in pack_items(items, model):
        spread = None if temperatures is None else spread_temperatures([temperatures[each] for each in members], batch)
        parts = torch.split(model.score(batch, changes, temperatures=spread).logprobs.cpu(), list(batch.sizes))
        found += zip(members, (part.tolist() for part in parts), strict=True)
    scored = dict(gather_all(found))
    return [scored[member] for member in range(len(items))]
