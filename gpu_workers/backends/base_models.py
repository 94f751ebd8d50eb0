"""Base models and tokenizers of this process: loaded once, frozen, shared by every run."""

import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from gpu_workers.artifacts import hash_files
from gpu_workers.backends.errors import BaseModelError
from gpu_workers.backends.hugging_face_decoder import HuggingFaceDecoder
from gpu_workers.backends.low_rank import LowRank
from gpu_workers.backends.memory import find_room, require_weights
from gpu_workers.backends.plain_decoder import PlainDecoder
from gpu_workers.backends.replaying import Replayer, ReplayError
from gpu_workers.desk import base_directory
from gpu_workers.engine.checkpoint import plain_shape, read_config, read_end_ids, read_weights, weight_files
from gpu_workers.engine.errors import EngineError
from gpu_workers.engine.hugging_face_model import open_module
from gpu_workers.engine.text import TextCodec
from gpu_workers.learning.fusing import can_fuse
from gpu_workers.learning.logprobs import TokenLogprobs, rank_tokens, token_logprobs
from gpu_workers.learning.packing import PackedBatch, PackedRow
from gpu_workers.learning.shared_prefix import SharedBatch
from tentalis.core.learning.recipes import ALL_LINEAR
from tentalis.core.sizes import DecoderShape, read_shape

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
        end_ids: tokens that end an answer, by its config.
        decoder: its forward: the trainer's own, and for what that does not know, Hugging Face's.
    """

    directory: Path
    sha256: str
    shape: DecoderShape
    codec: TextCodec
    context_length: int
    end_ids: Sequence[int]
    device: torch.device
    decoder: PlainDecoder | HuggingFaceDecoder

    @cached_property
    def vocabulary_size(self) -> int:
        return int(self.decoder.head.shape[0])

    @cached_property
    def activation_bytes(self) -> int:
        """What a token keeps until the backward pass, about."""
        return self.shape.layers * self.layer_numbers * self.number_bytes

    @cached_property
    def layer_numbers(self) -> int:
        """Numbers that a token keeps of each layer until the backward pass."""
        is_fused = self.decoder.is_plain and self.device.type == "cuda" and can_fuse()
        return self.shape.count_kept(number_bytes=self.number_bytes, is_fused=is_fused)

    @property
    def number_bytes(self) -> int:
        """Of a number of the weights, and of what flows through them."""
        return self.decoder.head.element_size()

    @cached_property
    def room(self) -> int:
        """Bytes for what a micro-batch keeps until its backward pass."""
        return find_room(self.device)

    def recomputes(self, tokens: int) -> bool:
        """Whether the layers of a micro-batch so large are computed again in the backward pass: what they would keep
        has no room."""
        return self.decoder.is_plain and tokens * self.activation_bytes > self.room

    def find_linears(self, names: Collection[str]) -> dict[str, Tensor]:
        """Weights (out, in) of the linear modules whose last name is among these, by full module name.

        Raises:
            BaseModelError: a name matches nothing.
        """
        found = {name: one for name, one in self.decoder.linears.items() if name.rpartition(".")[2] in names}
        if missing := sorted(set(names) - {name.rpartition(".")[2] for name in found}):
            raise BaseModelError(f"{self.directory.name} has no linear module named {', '.join(missing)}")
        return found

    def choose_modules(self, asked: Sequence[str]) -> tuple[str, ...]:
        """The linear modules to train of those that a recipe asks for: of all of them, where experts or fused
        projections are no such modules, those of attention.

        Raises:
            BaseModelError: some are not there.
        """
        there = {name.rpartition(".")[2] for name in self.decoder.linears}
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
        try:
            turns = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
            text = self.codec.render_chat(turns, add_generation_prompt=False)
            written = self.codec.encode([text], add_special_tokens=False)[0]
        except EngineError:
            written = []
        found = next((token for token in reversed(written) if token in self.end_ids), next(iter(self.end_ids), None))
        if found is None:
            raise BaseModelError(f"{self.directory.name} names no token that ends an answer (eos_token_id)")
        return int(found)

    def lay_out(self, rows: Sequence[PackedRow]) -> Batch:
        """Prompts and completions as this model reads them fastest."""
        return self.decoder.lay_out(rows)

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
            self.decoder.head,
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
        return rank_tokens(states, self.decoder.head, support_ids.to(self.device), k)

    def read(self, batch: Batch, changes: Mapping[str, LowRank]) -> Tensor:
        """Final hidden states (N, D) that predict the batch's completion tokens."""
        if isinstance(self.decoder, PlainDecoder) and isinstance(batch, SharedBatch):
            return self.decoder(batch.to(self.device), changes, recomputes=self.recomputes(batch.token_ids.numel()))
        if isinstance(self.decoder, HuggingFaceDecoder) and isinstance(batch, PackedBatch):
            return self.decoder(batch, changes)
        raise TypeError(f"{type(self.decoder).__name__} reads what it laid out, found a {type(batch).__name__}")


def _cool(states: Tensor, temperatures: Tensor | None) -> Tensor:
    """States (N, D) whose logits are divided by the temperatures (N,): the head is linear."""
    return states if temperatures is None else states / temperatures.to(states)[:, None]


def locate_base(name: str) -> Path:
    """The directory a spec's base model names: "desk", or a path."""
    return base_directory() if name == DESK else Path(name).expanduser()


def find_weights(directory: Path) -> list[Path]:
    """The weights by which a base model is known, as the engine and every export read them; [] where it has none."""
    try:
        return weight_files(directory)
    except EngineError:
        return []


def load_base(name: str, *, precision: str = "float32", uses_plain_path: bool = True) -> BaseModel:
    """The model of this name, from memory if its files have not changed since it was loaded.

    Args:
        precision: float32 or bfloat16.
        uses_plain_path: False takes Hugging Face's forward even for what the trainer's own knows.
    Raises:
        BaseModelError: no such directory, no safetensors weights, weights that do not fit the config, or a model whose
            logits are not a plain product of hidden states and head.
    """
    directory = locate_base(name)
    if not find_weights(directory):
        raise BaseModelError(
            f"the training process on {socket.gethostname()} wanted a model directory with *.safetensors, found none "
            f"at {directory}. A worker's base directory (base_directory) stands under the same path for the web, the "
            "queue processes and this one: mount it here, or change the worker's"
        )
    watched = [
        *sorted(directory.glob("*.safetensors")),
        *sorted(directory.glob("*.json")),
        *sorted(directory.glob("*.jinja")),
    ]
    stamps = tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in watched)
    return _load(directory, stamps, precision, uses_plain_path)


@lru_cache(maxsize=KEPT_MODELS)
def _load(
    directory: Path, stamps: tuple[tuple[str, int, int], ...], precision: str, uses_plain_path: bool
) -> BaseModel:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype: torch.dtype = getattr(torch, precision)
    files = weight_files(directory)
    decoder: PlainDecoder | HuggingFaceDecoder
    try:
        config = read_config(directory)
        codec = TextCodec.from_directory(directory)
        require_weights(files, number_bytes=dtype.itemsize, device=device)
        plain = plain_shape(config) if uses_plain_path else None
        if plain is not None:
            decoder = PlainDecoder(plain, read_weights(directory, dtype, shape=plain, device=device))
            shape, context_length = read_shape(directory.name, config), plain.context_length
        else:
            decoder = HuggingFaceDecoder(open_module(directory, dtype).to(device))
            shape, context_length = decoder.shape, decoder.context_length
    except (OSError, ValueError, KeyError, TypeError, EngineError) as error:
        raise BaseModelError(f"cannot load the model at {directory}: {error}") from error
    return BaseModel(
        directory=directory,
        sha256=hash_files(files),
        shape=shape,
        codec=codec,
        context_length=context_length,
        end_ids=read_end_ids(directory, config),
        device=device,
        decoder=decoder,
    )
