"""Chains of small operations over many tokens as one kernel each, where a GPU and a compiler for it are there.

Each such chain reads and writes every number once instead of once an operation: of an update of half a billion frozen
weights they would else be a third of the time. Elsewhere the same function runs as it is written.
"""

import functools
import logging
import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

MARKED_CALLS = 64
COMPILERS = ("cc", "gcc", "clang")
_log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")


@functools.cache
def can_fuse() -> bool:
    """Whether kernels can be made here; said once where they cannot. torch's own TORCH_COMPILE_DISABLE=1 turns it off.

    torch makes them with Triton, which builds its launchers with a C compiler.
    """
    if os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        return False
    compiler = os.environ.get("CC") or next(filter(shutil.which, COMPILERS), None)
    if find_spec("triton") is None or compiler is None:
        lacking = "Triton" if find_spec("triton") is None else "a C compiler"
        _log.warning("no kernels are made for this GPU: %s is not here, and training is slower for it", lacking)
        return False
    return True


KERNELS = True
"""Whether our own kernels (`kernels`) are taken where there is a GPU for them; False: only what torch compiles."""


def has_kernels(tensor: Tensor) -> bool:
    """Whether our own kernels read this tensor: it lies on a GPU, and Triton is here."""
    return KERNELS and tensor.is_cuda and can_fuse()


def fused(function: Callable[P, R]) -> Callable[P, R]:
    """The same function of tensors, as one kernel where the first of them lies on a GPU."""
    compiled: list[Callable[P, R]] = []

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        first = arguments[0]
        if not isinstance(first, Tensor) or not first.is_cuda or not can_fuse():
            return function(*arguments, **options)
        if len(compiled) < MARKED_CALLS:  # it is marked what it is compiled for, and that is over soon
            compiled.append(compiled[0] if compiled else torch.compile(function))
            for one in tree_leaves((arguments, options)):
                if isinstance(one, Tensor) and one.ndim and one.shape[0] == first.shape[0]:
                    torch._dynamo.maybe_mark_dynamic(one, 0)  # another number of tokens is no other kernel
        return compiled[0](*arguments, **options)

    return call
