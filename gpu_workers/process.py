"""How a process computes: on how many threads, and keeping the memory it has freed."""

import ctypes

import torch

from tentalis.env import read_environment

MALLOC_TRIM_THRESHOLD, MALLOC_MMAP_THRESHOLD, MALLOC_MMAP_MAX, MALLOC_ARENA_MAX = -1, -3, -4, -8
"""`M_TRIM_THRESHOLD` and so on of glibc's malloc.h; see mallopt(3)."""
KEPT_BYTES = 2**30
LARGEST_KEPT_BYTES = 2**25
"""The most that glibc takes on 64 bits (`DEFAULT_MMAP_THRESHOLD_MAX`)."""


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of glibc's malloc.h; see mallinfo(3)."""

    _fields_ = (("others", ctypes.c_size_t * 8), ("fordblks", ctypes.c_size_t), ("keepcost", ctypes.c_size_t))


def find_threads() -> int:
    """How many torch computes on in this process (`TENTALIS_TORCH_THREADS`)."""
    return int(read_environment()["TORCH_THREADS"])


def find_memory_limit() -> int | None:
    """Bytes that a training may take (`TENTALIS_TRAINING_MEMORY_MIB`); None: all there is."""
    return int(read_environment()["TRAINING_MEMORY_MIB"]) * 2**20 or None


def find_training_processes() -> int:
    """How many are to share a training (`TENTALIS_TRAINING_PROCESSES`); 0: one for each GPU."""
    return int(read_environment()["TRAINING_PROCESSES"])


def prepare_process(*, has_one_heap: bool = False) -> None:
    """Compute on so many threads as are set, and give freed memory back to the next tensor instead of to the kernel.

    A step of training frees and takes the same few megabytes again and again. Out of the box glibc returns them each
    time, and the kernel clears every page anew: a quarter of a small step's time. Another C library has rules of its
    own and is left alone.

    Args:
        has_one_heap: of what threads other than the first take, and of tensors above `LARGEST_KEPT_BYTES`, glibc keeps
            nothing even so, unless all lies in one heap: for the engine, whose thread fills logits of many megabytes
            each step. A heap has gaps, so that the process grows by more than its largest tensors.
    """
    torch.set_num_threads(find_threads())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(MALLOC_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(MALLOC_MMAP_THRESHOLD, LARGEST_KEPT_BYTES)
        if has_one_heap:
            mallopt(MALLOC_MMAP_MAX, 0)
            mallopt(MALLOC_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Between two jobs: what was freed goes to whom else wants memory, where it is more than `KEPT_BYTES`.

    glibc by itself gives back the end of its heap alone. A training or a wave of answers leaves gigabytes in its midst,
    which the next one would have to itself.
    """
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
    library = ctypes.CDLL(None)
    count, trim = getattr(library, "mallinfo2", None), getattr(library, "malloc_trim", None)
    if count is None or trim is None:
        return
    count.restype = _Mallinfo
    if count().fordblks > KEPT_BYTES:
        trim(0)
