"""What the processes of one training do together: each takes its share, and what they found is put together.

Each process is a rank, from 0; a training of one process has all to itself, and nothing here then does anything. Every
rank comes to every meeting (`gather_all`, `add_up_gradients`, `ask_first`), in the same order: all read the same spec
and go the same way through it.
"""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from gpu_workers.backends.errors import LostRanksError

PATIENCE = timedelta(hours=1)
"""A rank waits so long for the others: for a server that the first one asks, and for the slowest micro-batches."""
LOOPBACK = "lo"
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def join_ranks(number: int, count: int, meeting: Path) -> None:
    """Become rank `number` of `count`, with a GPU of one's own where there are any; returns when all have come.

    Gradients are added up by NCCL on GPUs, all else by gloo, over this machine's loopback.

    Args:
        meeting: a file of these ranks alone, that is not there yet.
    Raises:
        LostRanksError: the others did not come.
    """
    names = [name for _, name in socket.if_nameindex() if name.startswith(LOOPBACK)]
    if names:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", names[0])
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(number)
        backend = "cpu:gloo,cuda:nccl"
    with _waiting():
        dist.init_process_group(backend, init_method=meeting.as_uri(), rank=number, world_size=count, timeout=PATIENCE)


def count_ranks() -> int:
    """Processes of this training."""
    return dist.get_world_size() if _is_shared() else 1


def is_first() -> bool:
    """Whether this process is the one that writes and reports."""
    return not _is_shared() or dist.get_rank() == 0


def take_share(groups: Sequence[Sequence[Item]], count_tokens: Callable[[Sequence[Item]], int]) -> list[Sequence[Item]]:
    """Of groups of items those of this rank, see `deal_out`; all of them, as they are, where there is one."""
    return deal_out(groups, count_tokens, count_ranks())[dist.get_rank()] if _is_shared() else list(groups)


def deal_out(
    groups: Sequence[Sequence[Item]], count_tokens: Callable[[Sequence[Item]], int], count: int
) -> list[list[Sequence[Item]]]:
    """Share groups of items out over so many ranks: about as many tokens to each.

    A group has tokens in common and stays together, unless it has more than a rank's share of all: then it is split.
    The largest are dealt first, each to whoever has least.
    """
    whole = max(1, sum(map(count_tokens, groups)))
    parts = [part for group in groups for part in _split(group, -(-count_tokens(group) * count // whole))]
    dealt: list[list[Sequence[Item]]] = [[] for _ in range(count)]
    loads = [0] * count
    for part in sorted(parts, key=count_tokens, reverse=True):
        lightest = loads.index(min(loads))
        dealt[lightest].append(part)
        loads[lightest] += count_tokens(part)
    return dealt


def gather_all(mine: list[Item]) -> list[Item]:
    """What every rank has, in the order of the ranks; the same on each.

    Raises:
        LostRanksError: another one ended.
    """
    if not _is_shared():
        return mine
    found: list[list[Item]] = [[] for _ in range(dist.get_world_size())]
    with _waiting():
        dist.all_gather_object(found, mine)
    return [item for part in found for item in part]


def add_up_gradients(weights: Sequence[Tensor]) -> None:
    """Give each weight the sum of its gradients on all ranks; one that had no micro-batch adds nothing.

    The sums are the same bits on each rank, and each time there are so many. Of another number of ranks they are those
    of the same numbers in another order.

    Raises:
        LostRanksError: another one ended.
    """
    if not _is_shared():
        return
    gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    with _waiting():
        dist.all_reduce(flat)
    for weight, part in zip(weights, torch.split(flat, [weight.numel() for weight in weights]), strict=True):
        weight.grad = part.view_as(weight)


def ask_first(question: Callable[[], Answer]) -> Answer:
    """What the first rank answers, on each; the others are not asked.

    Raises:
        LostRanksError: another one ended.
    """
    if not _is_shared():
        return question()
    told = [question() if is_first() else None]
    with _waiting():
        dist.broadcast_object_list(told, src=0)
    answer: Answer = told[0]  # type: ignore[assignment]
    return answer


def _is_shared() -> bool:
    return dist.is_available() and dist.is_initialized()


def _split(group: Sequence[Item], pieces: int) -> list[Sequence[Item]]:
    """In order, in at most so many pieces of about as many items."""
    pieces = max(1, min(pieces, len(group)))
    bounds = [len(group) * piece // pieces for piece in range(pieces + 1)]
    return [group[start:end] for start, end in pairwise(bounds)]


@contextmanager
def _waiting() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LostRanksError(f"waited for the other processes of this training in vain: {error}") from error
