"""Base models and tokenizers of this process: loaded once, frozen, shared by every run."""

import math
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from gpu_workers.artifacts import hash_files
from gpu_workers.backends.errors import BaseModelError
from gpu_workers.backends.low_rank import LowRank
from gpu_workers.backends.memory import find_room, require_weights, shape_of
from gpu_workers.backends.plain_decoder import PlainDecoder
from gpu_workers.backends.replaying import Replayer, ReplayError
from gpu_workers.desk import base_directory
from gpu_workers.engine.checkpoint import plain_shape
from gpu_workers.engine.errors import EngineError
from gpu_workers.engine.text import TextCodec
from gpu_workers.learning.fusing import can_fuse
from gpu_workers.learning.logprobs import TokenLogprobs, rank_tokens, token_logprobs
from gpu_workers.learning.packing import PackedBatch, PackedRow, pack_rows
from gpu_workers.learning.shared_prefix import SharedBatch, share_prefixes
from tentalis.core.learning.recipes import ALL_LINEAR

DESK = "desk"
KEPT_MODELS = 2
ATTENTION = ("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj")
"""What linear modules of attention are called, as Hugging Face calls them."""
Batch = PackedBatch | SharedBatch


@dataclass(frozen=True)
class BaseModel:
    """A frozen causal language model with its tokenizer.

    Args:
        sha256: over the bytes of its safetensors files in the order of their names.
        context_length: tokens it may read at once.
        sliding_window: tokens a position sees in some layers; None when it sees all before it.
        decoder: the fast forward, where it computes this model; None: Hugging Face's is used.
    """

    directory: Path
    sha256: str
    model: Any
    codec: TextCodec
    context_length: int
    sliding_window: int | None
    device: torch.device
    decoder: PlainDecoder | None = None

    @cached_property
    def vocabulary_size(self) -> int:
        return int(self._head.shape[0])

    @cached_property
    def activation_bytes(self) -> int:
        """What a token keeps until the backward pass, about."""
        return int(self.model.config.num_hidden_layers * self.layer_numbers * self.number_bytes)

    @cached_property
    def layer_numbers(self) -> int:
        """Numbers that a token keeps of each layer until the backward pass."""
        is_fused = self.decoder is not None and self.device.type == "cuda" and can_fuse()
        return shape_of(self.model.config).count_kept(number_bytes=self.number_bytes, is_fused=is_fused)

    @cached_property
    def weight_numbers(self) -> int:
        """Of the frozen weights."""
        return sum(weight.numel() for weight in self.model.parameters())

    @property
    def number_bytes(self) -> int:
        """Of a number of the weights, and of what flows through them."""
        return self._head.element_size()

    @cached_property
    def room(self) -> int:
        """Bytes for what a micro-batch keeps until its backward pass."""
        return find_room(self.device)

    def recomputes(self, tokens: int) -> bool:
        """Whether the layers of a micro-batch so large are computed again in the backward pass: what they would keep
        has no room."""
        return self.decoder is not None and tokens * self.activation_bytes > self.room

    @property
    def widest_row(self) -> float:
        """Tokens that a packed row may have: where completions stand one behind the other, a window counts wrong."""
        return math.inf if self.decoder is not None or self.sliding_window is None else self.sliding_window

    @property
    def _head(self) -> Tensor:
        weight: Tensor = self.model.get_output_embeddings().weight
        return weight

    def find_linears(self, names: Collection[str]) -> dict[str, Tensor]:
        """Weights (out, in) of the linear modules whose last name is among these, by full module name.

        Raises:
            BaseModelError: a name matches nothing.
        """
        decoder_prefix = f"{self.model.base_model_prefix}."
        found = {
            name: module.weight
            for name, module in self.model.named_modules()
            if isinstance(module, torch.nn.Linear)
            and name.startswith(decoder_prefix)
            and name.rpartition(".")[2] in names
        }
        if missing := sorted(set(names) - {name.rpartition(".")[2] for name in found}):
            raise BaseModelError(f"{self.directory.name} has no linear module named {', '.join(missing)}")
        return found

    def choose_modules(self, asked: Sequence[str]) -> tuple[str, ...]:
        """The linear modules to train of those that a recipe asks for: of all of them, where experts or fused
        projections are no such modules, those of attention.

        Raises:
            BaseModelError: some are not there.
        """
        prefix = f"{self.model.base_model_prefix}."
        there = {
            name.rpartition(".")[2]
            for name, module in self.model.named_modules()
            if isinstance(module, torch.nn.Linear) and name.startswith(prefix)
        }
        if there.issuperset(asked):
            return tuple(asked)
        attention = [name for name in ATTENTION if name in there]
        reads = {"qkv_proj"}.issubset(attention) or {"q_proj", "k_proj", "v_proj"}.issubset(attention)
        if set(asked) == set(ALL_LINEAR) and reads and "o_proj" in attention:
            return tuple(attention)
        raise BaseModelError(
            f"{self.directory.name} has no linear module named {', '.join(sorted(set(asked) - there))}; it has "
            f"{', '.join(sorted(there))} (recipe.target_modules)"
        )

    @cached_property
    def replayer(self) -> Replayer:
        """Reads conversations by the very code the engine reads prompts with."""
        return Replayer(self.codec, self.directory.name)

    def read_prompt(
        self, messages: Sequence[Mapping[str, Any]], rendering: Mapping[str, Any] = MappingProxyType({})
    ) -> tuple[int, ...]:
        """Token ids of a conversation up to where the answer starts.

        Raises:
            BaseModelError: the model has no chat template, or it refuses these messages.
        """
        try:
            return self.replayer.read(messages, rendering)
        except ReplayError as error:
            raise BaseModelError(str(error)) from error

    @cached_property
    def end_of_turn(self) -> int:
        """The token that ends an answer, as the chat template writes it; without a template, the first one there is.

        Raises:
            BaseModelError: the model names none.
        """
        config: Any = self.model.generation_config
        named = config.eos_token_id if config.eos_token_id is not None else self.model.config.eos_token_id
        ends = named if isinstance(named, list) else [] if named is None else [named]
        try:
            turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
            text = self.codec.render_chat(turns, add_generation_prompt=False)
            written = self.codec.encode([text], add_special_tokens=False)[0]
        except EngineError:
            written = []
        found = next((token for token in reversed(written) if token in ends), ends[0] if ends else None)
        if found is None:
            raise BaseModelError(f"{self.directory.name} names no token that ends an answer (eos_token_id)")
        return int(found)

    def lay_out(self, rows: Sequence[PackedRow]) -> Batch:
        """Prompts and completions as this model reads them fastest."""
        return pack_rows(rows) if self.decoder is None else share_prefixes(rows)

    def score(
        self,
        batch: Batch,
        changes: Mapping[str, LowRank],
        *,
        support_ids: Tensor | None = None,
        entropy_has_gradient: bool = False,
        temperatures: Tensor | None = None,
    ) -> TokenLogprobs:
        """Log-probs and entropies of a batch's completion tokens.

        Args:
            changes: full module name -> low-rank change of its weight; empty for the base itself.
            support_ids: (N, K) int64, further tokens to read at each position.
            temperatures: (N,) what the logits at each position are divided by; None: nothing.
        Returns:
            (N,) each, and (N, K), in the batch's order, on the model's device.
        """
        return token_logprobs(
            _cool(self.read(batch, changes), temperatures),
            self._head,
            batch.targets.to(self.device),
            support_ids=support_ids,
            entropy_has_gradient=entropy_has_gradient,
        )

    def rank(
        self, batch: Batch, support_ids: Tensor, k: int, *, temperatures: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """What the model as it is says of the batch's completion tokens, with no gradient.

        Args:
            support_ids: (N, K) int64, tokens to read at each position.
            temperatures: as in `score`.
        Returns:
            (N, K) log-probs of those, and (N, k) int64, the likeliest tokens, most likely first.
        """
        states = _cool(self.read(batch, {}), temperatures)
        return rank_tokens(states, self._head, support_ids.to(self.device), k)

    def read(self, batch: Batch, changes: Mapping[str, LowRank]) -> Tensor:
        """Final hidden states (N, D) that predict the batch's completion tokens."""
        if isinstance(batch, SharedBatch):
            if self.decoder is None:
                raise BaseModelError(f"{self.directory.name} reads packed rows, found a batch of shared prefixes")
            return self.decoder(batch.to(self.device), changes, recomputes=self.recomputes(batch.token_ids.numel()))
        width = batch.token_ids.shape[1]
        if self.sliding_window is not None and width > self.sliding_window:
            raise BaseModelError(
                f"packed rows of {width} tokens do not fit the sliding window of {self.sliding_window}"
            )
        dtype = self._head.dtype
        bias = torch.zeros(batch.attends.shape, device=self.device, dtype=dtype)
        with _changed(self.model, changes):
            hidden: Tensor = self.model.base_model(
                input_ids=batch.token_ids.to(self.device),
                position_ids=batch.positions.to(self.device),
                attention_mask=bias.masked_fill_(~batch.attends.to(self.device), torch.finfo(dtype).min),
                use_cache=False,
            ).last_hidden_state
        return hidden[batch.rows.to(self.device), batch.columns.to(self.device)]


@contextmanager
def _changed(model: torch.nn.Module, changes: Mapping[str, LowRank]) -> Iterator[None]:
    """The model's linear modules put out what their changed weights would; no weight is copied for it."""
    hooks = [
        model.get_submodule(name).register_forward_hook(lambda _, inputs, y, change=change: change.add(y, inputs[0]))
        for name, change in changes.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _cool(states: Tensor, temperatures: Tensor | None) -> Tensor:
    """States (N, D) whose logits are divided by the temperatures (N,): the head is linear."""
    return states if temperatures is None else states / temperatures.to(states)[:, None]


def locate_base(name: str) -> Path:
    """The directory a spec's base model names: "desk", or a path."""
    return base_directory() if name == DESK else Path(name).expanduser()


def load_base(name: str, *, precision: str = "float32") -> BaseModel:
    """The model of this name, from memory if its files have not changed since it was loaded.

    Args:
        precision: float32 or bfloat16.
    Raises:
        BaseModelError: no such directory, no safetensors weights, or a model whose logits are not a plain product of
            hidden states and head.
    """
    directory = locate_base(name)
    files = sorted(directory.glob("*.safetensors")) if directory.is_dir() else []
    if not files:
        raise BaseModelError(
            f"the training process on {socket.gethostname()} wanted a model directory with *.safetensors, found none "
            f"at {directory}. A worker's base directory (base_directory) stands under the same path for the web, the "
            "queue processes and this one: mount it here, or change the worker's"
        )
    watched = [*files, *sorted(directory.glob("*.json")), *sorted(directory.glob("*.jinja"))]
    stamps = tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in watched)
    return _load(directory, stamps, precision)


@lru_cache(maxsize=KEPT_MODELS)
def _load(directory: Path, stamps: tuple[tuple[str, int, int], ...], precision: str) -> BaseModel:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    disable_progress_bar()  # type: ignore[no-untyped-call]
    dtype: torch.dtype = getattr(torch, precision)
    try:
        require_weights(sorted(directory.glob("*.safetensors")), number_bytes=dtype.itemsize, device=device)
        model: torch.nn.Module = AutoModelForCausalLM.from_pretrained(
            directory, dtype=dtype, local_files_only=True, use_safetensors=True
        )
        codec = TextCodec.from_directory(directory)
    except (OSError, ValueError, KeyError, SafetensorError, EngineError) as error:
        raise BaseModelError(f"cannot load the model at {directory}: {error}") from error
    model.to(device).eval().requires_grad_(False)
    config: Any = model.config
    shape = plain_shape(config.to_dict())
    layer_types = getattr(config, "layer_types", None) or ()
    base = BaseModel(
        directory=directory,
        sha256=hash_files(sorted(directory.glob("*.safetensors"))),
        model=model,
        codec=codec,
        context_length=int(config.max_position_embeddings),
        sliding_window=config.sliding_window if "sliding_attention" in layer_types else None,
        device=device,
        decoder=None if shape is None else PlainDecoder(shape, model.state_dict()),
    )
    _require_plain_head(base)
    return base


@torch.no_grad()
def _require_plain_head(base: BaseModel) -> None:
    """Refuse a model that does more after its last norm than multiply by the head (soft caps, scales)."""
    ids = torch.arange(4, device=base.device)[None] % base.vocabulary_size
    hidden = base.model.base_model(input_ids=ids).last_hidden_state
    plain = torch.nn.functional.linear(hidden, base._head)
    if not torch.allclose(plain, base.model(input_ids=ids).logits.to(plain.dtype), atol=1e-4):
        raise BaseModelError(
            f"{type(base.model).__name__} changes its logits after the head; the trainer cannot follow"
        )
