"""Sharing prompts and their completions out over micro-batches of a bounded size."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_workers.backends.base_models import BaseModel, Batch
from gpu_workers.backends.plain_decoder import LowRank
from gpu_workers.learning.packing import PackedRow, split_rows
from tentalis.core.contracts import RolloutRecord

MOST_TOKENS = 16_384
ROOM_BYTES = 2**33
"""For what a micro-batch keeps until its backward pass, in main memory."""
ROOM_SHARE = 0.4
"""The same of a GPU, as a share of its memory."""


def pack_items(
    items: Sequence[tuple[Sequence[int], Sequence[int]]], model: BaseModel, *, keeps_together: bool = False
) -> list[tuple[Batch, list[int]]]:
    """Share (prompt, completion) pairs out over micro-batches; a prompt that several share is in a batch once.

    Args:
        keeps_together: all completions of a prompt are in one batch, however large it gets; else only one alone may
            exceed the budget.
    Returns:
        Each batch with the position in `items` of each of its completions, in the batch's order.
    """
    budget = find_budget(model)
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    for index, (prompt, _) in enumerate(items):
        by_prompt.setdefault(tuple(prompt), []).append(index)
    rows: list[PackedRow] = []
    members: list[list[int]] = []
    for prompt, all_of in by_prompt.items():
        sizes = [len(items[index][1]) for index in all_of]
        for part in [all_of] if keeps_together else _split_group(all_of, sizes, room=budget - len(prompt)):
            members.append(part)
            rows.append(PackedRow(prompt, [items[index][1] for index in part]))
    return [
        (model.lay_out([rows[row] for row in part]), [index for row in part for index in members[row]])
        for part in split_rows(rows, budget_tokens=budget)
    ]


def _split_group(members: Sequence[int], sizes: Sequence[int], *, room: int) -> list[list[int]]:
    """Members in order, in parts that have room for their sizes; one that is larger is alone."""
    parts: list[list[int]] = []
    left = 0
    for member, size in zip(members, sizes, strict=True):
        if not parts or size > left:
            parts.append([])
            left = room
        parts[-1].append(member)
        left -= size
    return parts


def find_budget(model: BaseModel) -> int:
    """Tokens of a micro-batch: as many as its memory holds the activations of, at least one."""
    room: float = ROOM_BYTES
    if model.device.type == "cuda":
        room = ROOM_SHARE * torch.cuda.get_device_properties(model.device).total_memory
    return max(1, min(MOST_TOKENS, int(room // model.activation_bytes)))


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
    scored: list[list[float]] = [[] for _ in items]
    for batch, members in pack_items(items, model):
        spread = None if temperatures is None else spread_temperatures([temperatures[each] for each in members], batch)
        parts = torch.split(model.score(batch, changes, temperatures=spread).logprobs.cpu(), list(batch.sizes))
        for member, part in zip(members, parts, strict=True):
            scored[member] = part.tolist()
    return scored
