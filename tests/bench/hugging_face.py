"""Hugging Face's `generate` as a bench's peer: answers drawn at temperature 1 from the whole distribution."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def pad_left(prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Token ids (P, T) of prompts, and which of them count."""
    longest = max(map(len, prompts))
    ids = [[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    attends = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids), torch.tensor(attends)


@torch.inference_mode()
def draw_answers(
    model: Any, ids: Tensor, attends: Tensor, n: int, most: int, *, least: int | None, **more: Any
) -> Tensor:
    """Tokens (P * n, `most` at most) that the model puts behind each prompt.

    Args:
        least: tokens before an answer may end; None: it ends where it ends.
        more: further arguments of `generate`.
    """
    found: Tensor = model.generate(
        input_ids=ids,
        attention_mask=attends,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        num_return_sequences=n,
        max_new_tokens=most,
        min_new_tokens=least,
        pad_token_id=0,
        **more,
    )
    return found[:, ids.shape[1] :]
