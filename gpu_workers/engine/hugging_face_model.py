"""Any causal language model on disk, through Hugging Face's own forward: slower than the plain path, never wrong."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from torch import Tensor

from gpu_workers.engine.checkpoint import read_json
from gpu_workers.engine.errors import ModelUnreadableError
from gpu_workers.engine.lora import LoraPair


def open_module(directory: Path, precision: torch.dtype = torch.float32) -> Any:
    """Hugging Face's causal language model, frozen. Raises ModelUnreadableError when it cannot read it."""
    from transformers import AutoModelForCausalLM  # here: it takes seconds, and few models want it
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    try:
        module: Any = AutoModelForCausalLM.from_pretrained(
            directory, dtype=precision, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        told = read_json(directory / "config.json").get("quantization_config")
        kind = told.get("quant_method") if isinstance(told, dict) else None
        quantised = f", quantised by {kind}" if kind else ""
        reason = " ".join(str(error).split())
        raise ModelUnreadableError(f"cannot read the model in {directory}{quantised}: {reason}") from error
    return module.eval().requires_grad_(False)


class HuggingFaceCache:
    """The key-value cache of rows that were read together; slots and positions differ by the left padding."""

    def __init__(self, past: Any, attends: Tensor, positions: Tensor) -> None:
        self.past = past
        self.attends = attends  # B S int64, 1 where a slot holds a token
        self.positions = positions  # B

    def select(self, rows: Tensor) -> None:
        self.past.batch_select_indices(rows)
        self.attends = self.attends[rows]
        self.positions = self.positions[rows]

    def absorb(self, other: Any) -> None:
        raise NotImplementedError("rows of the Hugging Face path decode with those they were read with")


class HuggingFaceModel:
    """The base, or the base with an adapter merged into its own copy of the weights it touches."""

    keeps_prefixes = False
    runs_ahead = False
    part_tokens = 16_384
    """So many that prompts which come together are read together: batches do not grow later."""

    def __init__(self, module: torch.nn.Module, config: Any, changed: Mapping[str, Tensor] | None = None) -> None:
        self._module = module
        self._config = config
        self._changed = dict(changed or {})

    @classmethod
    def from_directory(cls, directory: Path) -> "HuggingFaceModel":
        """Raises ModelUnreadableError when Hugging Face cannot read it."""
        module = open_module(directory)
        return cls(module, module.config.get_text_config())

    @property
    def vocabulary_size(self) -> int:
        return int(self._config.vocab_size)

    @property
    def context_length(self) -> int:
        return int(self._config.max_position_embeddings)

    @property
    def width(self) -> int:
        """Of a hidden state."""
        return int(self._config.hidden_size)

    @property
    def adaptable(self) -> dict[str, tuple[int, int]]:
        return {
            f"{name}.weight": (module.weight.shape[0], module.weight.shape[1])
            for name, module in self._module.named_modules()
            if isinstance(module, torch.nn.Linear) and not name.endswith("lm_head")
        }

    def adapt(self, pairs: Mapping[str, LoraPair]) -> Self:
        parameters = dict(self._module.named_parameters())
        with torch.inference_mode():
            changed = {name: parameters[name].detach() + pair.delta() for name, pair in pairs.items()}
        return type(self)(self._module, self._config, changed)

    @property
    def lane(self) -> object:
        """Another one each time: its batches do not grow."""
        return object()

    def mix(self, models: Sequence[Self]) -> Self:
        """What all rows of a batch have in common."""
        return models[0]

    def settle(self, cache: HuggingFaceCache) -> HuggingFaceCache:
        return cache

    def _forward(self, **inputs: Any) -> Any:
        return torch.func.functional_call(self._module, self._changed, kwargs=inputs | {"use_cache": True})

    @torch.inference_mode()
    def prefill(
        self,
        prompts: Sequence[Sequence[int]],
        known: Sequence[Tensor | None] = (),
        models: Sequence[Self] = (),
    ) -> tuple[Tensor, HuggingFaceCache]:
        """Read whole prompts; logits (P, T, V), right-padded, stand in for hidden states (see `project`)."""
        if any(part is not None for part in known):
            raise ValueError("Hugging Face's forward reads whole prompts, found known beginnings")
        longest = max(map(len, prompts))
        padding = [longest - len(prompt) for prompt in prompts]
        ids = torch.tensor([[0] * pad + list(prompt) for pad, prompt in zip(padding, prompts, strict=True)])  # P T
        attends = torch.tensor([[0] * pad + [1] * (longest - pad) for pad in padding])  # P T
        positions = (attends.cumsum(-1) - 1).clamp(min=0)
        output = self._forward(input_ids=ids, attention_mask=attends, position_ids=positions)
        logits = torch.stack([row.roll(-pad, 0) for pad, row in zip(padding, output.logits.float(), strict=True)])
        return logits, HuggingFaceCache(output.past_key_values, attends, positions[:, -1] + 1)

    @torch.inference_mode()
    def decode(self, cache: HuggingFaceCache, tokens: Tensor) -> Tensor:
        """Append one token a row (B,); the logits (B, V) that follow it."""
        cache.attends = torch.cat([cache.attends, cache.attends.new_ones(len(tokens), 1)], -1)
        output = self._forward(
            input_ids=tokens[:, None],
            attention_mask=cache.attends,
            position_ids=cache.positions.clamp(max=self.context_length - 1)[:, None],
            past_key_values=cache.past,
        )
        cache.past = output.past_key_values
        cache.positions = cache.positions + 1
        logits: Tensor = output.logits[:, -1].float()
        return logits

    @torch.inference_mode()
    def states(self, prompts: Sequence[Sequence[int]], hidden: Tensor) -> Tensor:
        """Final hidden states (P, T, D) of whole prompts, right-padded; read again, for `prefill` keeps logits.

        Causal attention lets nothing behind a token reach it, so that padding on the right needs no mask.
        """
        longest = max(map(len, prompts))
        ids = torch.tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts])  # P T
        output = torch.func.functional_call(
            self._module,
            self._changed,
            kwargs={"input_ids": ids, "use_cache": False, "output_hidden_states": True},
        )
        found: Tensor = output.hidden_states[-1].float()
        return found

    def project(self, hidden: Tensor) -> Tensor:
        return hidden
