"""Decoders that the trainer's own forward does not know, by Hugging Face's: slower, over packed rows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gpu_workers.backends.errors import BaseModelError
from gpu_workers.backends.low_rank import LowRank
from gpu_workers.learning.packing import PackedBatch, PackedRow, pack_rows
from tentalis.core.sizes import SHAPE_FIELDS, DecoderShape, read_shape

LEAK = 1e-5
"""Share of a hidden state by which it may differ without having read another completion: experts round by company."""


class HuggingFaceDecoder:
    """The decoder of a frozen model, without its head.

    Args:
        module: Hugging Face's causal language model, on its device.

    Attributes:
        linears: (out, in) weight of each linear module of its layers, by full module name.
        weight_numbers: of all its weights.
        widest_row: tokens that a packed row of several completions may have: where they stand one behind the other, a
            sliding window counts wrong. 0 where each stands in a row of its own: what is handed on from token to token
            (a convolution, a recurrent state) knows nothing of an attention mask.
    """

    is_plain = False

    def __init__(self, module: Any) -> None:
        """Raises BaseModelError: its logits are no plain product of hidden states and head, or it reads no mask."""
        self.module = module
        self.head: Tensor = module.get_output_embeddings().weight
        prefix = f"{module.base_model_prefix}."
        self.linears: Mapping[str, Tensor] = {
            name: one.weight
            for name, one in module.named_modules()
            if isinstance(one, torch.nn.Linear) and name.startswith(prefix)
        }
        self.weight_numbers = sum(weight.numel() for weight in module.parameters())
        config = module.config
        self._window = _find_window(config)
        self.context_length = int(config.max_position_embeddings)
        self._require_plain_head()
        self.widest_row = self._window if self._keeps_apart() else 0

    @property
    def shape(self) -> DecoderShape:
        """What it takes its memory for. Its config speaks its own architecture's words: GPT-2 says no width of its
        MLP."""
        config = self.module.config
        said = {name: value for name in SHAPE_FIELDS if (value := getattr(config, name, None)) is not None}
        return read_shape(config.model_type, {"intermediate_size": 4 * config.hidden_size} | said)

    def lay_out(self, rows: Sequence[PackedRow]) -> PackedBatch:
        """Prompts and completions as it reads them."""
        if not self.widest_row:
            rows = [PackedRow(row.prompt, [one]) for row in rows for one in row.completions]
        return pack_rows(rows)

    def __call__(self, batch: PackedBatch, changes: Mapping[str, LowRank]) -> Tensor:
        """Final hidden states (N, D) that predict the batch's completion tokens."""
        width = batch.token_ids.shape[1]
        if width > self._window:
            raise BaseModelError(f"packed rows of {width} tokens do not fit the sliding window of {self._window}")
        return self._read(batch, changes)

    def _read(self, batch: PackedBatch, changes: Mapping[str, LowRank]) -> Tensor:
        device, dtype = self.head.device, self.head.dtype
        bias = torch.zeros(batch.attends.shape, device=device, dtype=dtype)
        with _changed(self.module, changes):
            hidden: Tensor = self.module.base_model(
                input_ids=batch.token_ids.to(device),
                position_ids=batch.positions.to(device),
                attention_mask=bias.masked_fill_(~batch.attends.to(device), torch.finfo(dtype).min),
                use_cache=False,
            ).last_hidden_state
        return hidden[batch.rows.to(device), batch.columns.to(device)]

    @torch.no_grad()
    def _keeps_apart(self) -> bool:
        """Whether a completion behind another in a row is read as if another one stood there.

        Raises:
            BaseModelError: it takes no attention mask of its own for each token.
        """
        second = [8, 9, 10]
        rows = [PackedRow([3], [first, second]) for first in ([4, 5], [6, 7])]
        batch = pack_rows(rows)
        try:
            hidden = self._read(replace(batch, token_ids=batch.token_ids % self.head.shape[0]), {}).float()
        except (RuntimeError, TypeError, ValueError) as error:
            raise BaseModelError(
                f"{type(self.module).__name__} does not read rows that its trainer lays out: {error}"
            ) from error
        one, other = (part[-len(second) :] for part in hidden.chunk(2))
        most = max(LEAK, 2 * torch.finfo(self.head.dtype).eps)
        return bool(((one - other).norm(dim=-1) <= most * one.norm(dim=-1)).all())

    @torch.no_grad()
    def _require_plain_head(self) -> None:
        """Refuse a model that does more after its last norm than multiply by the head (soft caps, scales)."""
        ids = torch.arange(4, device=self.head.device)[None] % self.head.shape[0]
        plain = torch.nn.functional.linear(self.module.base_model(input_ids=ids).last_hidden_state, self.head)
        if not torch.allclose(plain, self.module(input_ids=ids).logits.to(plain.dtype), atol=1e-4):
            raise BaseModelError(
                f"{type(self.module).__name__} changes its logits after the head; the trainer cannot follow"
            )


def _find_window(config: Any) -> float:
    """Tokens that some layer looks back at most; infinity where each sees all.

    A config that names no kinds of layers has its window in every one (Phi-3, Mixtral, Starcoder2), unless it says that
    it uses none (Qwen2).
    """
    kinds = getattr(config, "layer_types", None)
    slides = "sliding_attention" in kinds if kinds else getattr(config, "use_sliding_window", True)
    window = getattr(config, "sliding_window", None)
    return window if slides and window else math.inf


@contextmanager
def _changed(module: torch.nn.Module, changes: Mapping[str, LowRank]) -> Iterator[None]:
    """The linear modules put out what their changed weights would; no weight is copied for it."""
    hooks = [
        module.get_submodule(name).register_forward_hook(lambda _, inputs, y, change=change: change.add(y, inputs[0]))
        for name, change in changes.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
