"""What a training needs of the machine's memory, computed from shapes before anything is computed from weights."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from gpu_workers.backends.errors import NotEnoughMemoryError
from gpu_workers.backends.ranks import count_ranks
from gpu_workers.engine.checkpoint import read_heads
from gpu_workers.process import find_memory_limit
from tentalis.core.sizes import OPTIMISER_BYTES, SINGLE_BYTES, DecoderShape, say_bytes

ROOM_BYTES = 2**33
"""For what a micro-batch keeps until its backward pass, in main memory at most."""
ROOM_SHARE = 0.5
"""The same as a share of all memory."""
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_log = logging.getLogger(__name__)


def find_memory(device: torch.device) -> int:
    """Bytes that a training may take in this process: what is set, and where nothing is, what its card or this machine
    has. Processes that train together have a card each, or their part of the machine."""
    limit = find_memory_limit()
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory) if limit is None else limit
    if limit is None:
        limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        told = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else "max"
        limit = limit if told == "max" else min(limit, int(told))
    return limit // count_ranks()


def find_room(device: torch.device) -> int:
    """Bytes for what a micro-batch keeps until its backward pass."""
    share = int(ROOM_SHARE * find_memory(device))
    return share if device.type == "cuda" else min(ROOM_BYTES, share)


@dataclass(frozen=True)
class MemoryPlan:
    """What a training takes at its peak, in bytes, about.

    Args:
        weights: of the frozen model; adapter: with gradients and optimiser.
        kept: what the largest micro-batch keeps until its backward pass; working: what is there besides, for a moment.
        tokens: of that micro-batch; recomputes: its layers are computed again in the backward pass.
    """

    weights: int
    adapter: int
    kept: int
    working: int
    tokens: int
    recomputes: bool

    @property
    def total(self) -> int:
        return self.weights + self.adapter + self.kept + self.working

    def describe(self) -> str:
        """In words, on one line."""
        again = ", its layers computed again in the backward pass" if self.recomputes else ""
        return (
            f"{say_bytes(self.total)} of memory: weights {say_bytes(self.weights)}, adapter with its optimiser "
            f"{say_bytes(self.adapter)}, a micro-batch of {self.tokens:,} tokens {say_bytes(self.kept)}{again}, and "
            f"{say_bytes(self.working)} to compute in"
        )


def plan_memory(
    shape: DecoderShape,
    *,
    weights: int,
    adapter_numbers: int,
    number_bytes: int,
    layer_numbers: int,
    tokens: int,
    predicted: int,
    reading: int,
    recomputes: bool,
) -> MemoryPlan:
    """What an update takes whose largest micro-batch is so large.

    Args:
        weights: numbers of the frozen model.
        number_bytes: of a number that flows through it.
        layer_numbers: that a token keeps of each layer.
        tokens: read in the micro-batch; predicted: of its answers.
        reading: bytes that log-probs are read off in.
    """
    width, layer = shape.width, layer_numbers * number_bytes * tokens
    states = predicted * width * (SINGLE_BYTES + 2 * number_bytes)
    kept = shape.layers * (width * number_bytes * tokens if recomputes else layer) + states
    return MemoryPlan(
        weights=weights * number_bytes,
        adapter=adapter_numbers * OPTIMISER_BYTES,
        kept=kept + (layer if recomputes else 0),
        working=max(reading, layer),
        tokens=tokens,
        recomputes=recomputes,
    )


def require_memory(plan: MemoryPlan, device: torch.device) -> None:
    """Say what a training takes.

    Raises:
        NotEnoughMemoryError: it is more than there is.
    """
    has = find_memory(device)
    if plan.total > has:
        raise NotEnoughMemoryError(
            f"this training wants about {plan.describe()}. There {say_bytes(has)} may be taken "
            "(TENTALIS_TRAINING_MEMORY_MIB; 0: all there is): wanted shorter answers, precision bfloat16, a smaller "
            "base model or more memory"
        )
    _log.info("this training takes about %s", plan.describe())


def require_weights(files: Sequence[Path], *, number_bytes: int, device: torch.device) -> None:
    """See, by the heads of a model's files, that its weights have room.

    Raises:
        NotEnoughMemoryError: they have not. ModelUnreadableError: a file is none of weights.
    """
    size, has = number_bytes * sum(one.numbers for one in read_heads(files).values()), find_memory(device)
    if size > has:
        raise NotEnoughMemoryError(
            f"the weights of {files[0].parent.name} take {say_bytes(size)} at {number_bytes} bytes a number, and there "
            f"{say_bytes(has)} may be taken (TENTALIS_TRAINING_MEMORY_MIB; 0: all there is)"
        )
