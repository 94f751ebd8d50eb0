"""Reading a model directory: its config, and its weights as tensors by name.

The engine and the trainer read by it what their own forwards compute; what those do not know, Hugging Face reads.
"""

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gpu_workers.engine.errors import ModelUnreadableError

EMBEDDING, HEAD, LAST_NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding of a layer.

    Args:
        factor: positions are stretched by it: all of them, or with `low` those that turn slowly (Llama 3).
        low, high: turns within the original context below which a pair of numbers is stretched, above which it is not;
            in between it is interpolated.
        context: the original one.
    """

    theta: float
    factor: float = 1.0
    low: float | None = None
    high: float = 4.0
    context: int = 8192

    def frequencies(self, width: int) -> Tensor:
        """(width / 2,) radians a position.

        Source:
            RoFormer, arXiv:2104.09864; linear: arXiv:2306.15595; Llama 3: transformers' `modeling_rope_utils`.
        """
        found = 1.0 / self.theta ** (torch.arange(0, width, 2).float() / width)
        if self.low is None:
            return found / self.factor
        turns = self.context * found / (2 * math.pi)
        share = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)  # 1: as it is
        return found * (share + (1 - share) / self.factor)


@dataclass(frozen=True)
class Family:
    """What sets a family apart from Llama.

    Args:
        norms_heads: queries and keys go through a norm of their own.
        norms_outputs: what attention and MLP put out does too: four norms a layer.
        norm_offset: a norm multiplies by its weight plus this.
        scales_embedding: by the square root of the width.
        activation: under which name the config says it, and what it then must say.
        window: sliding window where the config has no such field.
    """

    norms_heads: bool = False
    norms_outputs: bool = False
    norm_offset: float = 0.0
    scales_embedding: bool = False
    activation: tuple[str, str] = ("hidden_act", "silu")
    ties_embeddings: bool = False
    window: int | None = None


FAMILIES: Mapping[str, Family] = {
    "llama": Family(),
    "qwen2": Family(),
    "qwen3": Family(norms_heads=True),
    "mistral": Family(window=4096),
    "smollm3": Family(ties_embeddings=True),
    "gemma3_text": Family(
        norms_heads=True,
        norms_outputs=True,
        norm_offset=1.0,
        scales_embedding=True,
        activation=("hidden_activation", "gelu_pytorch_tanh"),
        ties_embeddings=True,
    ),
}
"""By model_type, what the plain forward computes; a checkpoint of another is served by Hugging Face's."""


@dataclass(frozen=True)
class ModelShape:
    """What the plain forward needs to know of a model.

    Args:
        inner: width of the MLP.
        attention_scale: of a query's product with a key.
        ropes: one a layer; None: the layer does not turn (SmolLM3).
        windows: one a layer, how many positions a token sees, its own among them; None: all before it.
    """

    vocabulary_size: int
    context_length: int
    width: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    norm_epsilon: float
    ties_embeddings: bool
    attention_scale: float
    ropes: tuple[Rope | None, ...]
    windows: tuple[int | None, ...]
    family: Family

    @property
    def is_basic(self) -> bool:
        """One rope without scaling, no windows, nothing that sets its family apart: Llama 2 and Qwen2."""
        own = self.family.norms_heads or self.family.norms_outputs or self.family.scales_embedding
        return not own and set(self.windows) == {None} and set(self.ropes) == {Rope(self.rope_theta)}

    @property
    def rope_theta(self) -> float:
        return next(rope.theta for rope in self.ropes if rope is not None)

    @property
    def linears(self) -> Mapping[str, tuple[int, int]]:
        """(out, in) of each linear module of the layers, by full module name, in the order they are read in."""
        query, key, width = self.heads * self.head_width, self.kv_heads * self.head_width, self.width
        of_layer = {
            "self_attn.q_proj": (query, width),
            "self_attn.k_proj": (key, width),
            "self_attn.v_proj": (key, width),
            "self_attn.o_proj": (width, query),
            "mlp.gate_proj": (self.inner, width),
            "mlp.up_proj": (self.inner, width),
            "mlp.down_proj": (width, self.inner),
        }
        return {f"model.layers.{index}.{name}": size for index in range(self.layers) for name, size in of_layer.items()}

    @property
    def norms(self) -> Mapping[str, int]:
        """Width of each norm, by full module name."""
        of_layer = {"input_layernorm": self.width, "post_attention_layernorm": self.width}
        if self.family.norms_outputs:
            of_layer |= {"pre_feedforward_layernorm": self.width, "post_feedforward_layernorm": self.width}
        if self.family.norms_heads:
            of_layer |= {"self_attn.q_norm": self.head_width, "self_attn.k_norm": self.head_width}
        found = {
            f"model.layers.{index}.{name}": width for index in range(self.layers) for name, width in of_layer.items()
        }
        return found | {LAST_NORM.removesuffix(".weight"): self.width}

    def choose_tensors(self, heads: Mapping[str, "TensorHead | Tensor"]) -> Collection[str]:
        """Names of those that the plain forward computes with.

        Raises:
            ModelUnreadableError: one is missing or has another shape than the config says.
        """
        whole = (self.vocabulary_size, self.width)
        wanted: dict[str, tuple[int, ...]] = {EMBEDDING: whole}
        if not self.ties_embeddings and HEAD in heads:
            wanted[HEAD] = whole
        wanted |= {f"{name}.weight": (width,) for name, width in self.norms.items()}
        for name, size in self.linears.items():
            wanted[f"{name}.weight"] = size
            if (bias := f"{name}.bias") in heads:
                wanted[bias] = size[:1]
        for name, shape in wanted.items():
            if name not in heads:
                raise ModelUnreadableError(f"the weights lack {name}")
            if heads[name].shape != shape:
                raise ModelUnreadableError(
                    f"{name} must have shape {shape} by the config, found {tuple(heads[name].shape)}"
                )
        return wanted

    def find_head(self, weights: Mapping[str, Tensor]) -> Tensor:
        """The output layer (V, D) among the tensors that the plain forward computes with: the embedding, where they
        are one, or where a model says that they are not and has no other."""
        return weights[EMBEDDING if self.ties_embeddings else HEAD if HEAD in weights else EMBEDDING]


_THETAS = {"gemma3_text": 1_000_000.0, "smollm3": 2_000_000.0}
"""Where the config says none: Hugging Face's defaults that are not 10,000."""


def read_json(path: Path) -> dict[str, Any]:
    """Raises ModelUnreadableError unless the file holds a JSON object."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelUnreadableError(f"cannot read {path}: {error}") from error
    if not isinstance(value, dict):
        raise ModelUnreadableError(f"{path} must hold a JSON object, found {type(value).__name__}")
    return value


def read_config(directory: Path) -> dict[str, Any]:
    if not directory.is_dir():
        raise ModelUnreadableError(f"wanted a model directory, found no directory at {directory}")
    config = read_json(directory / "config.json")
    if not isinstance(config.get("model_type"), str):
        raise ModelUnreadableError(f"{directory / 'config.json'} names no model_type")
    return config


def plain_shape(config: Mapping[str, Any]) -> ModelShape | None:
    """The shape if the plain forward computes exactly this config, else None: Hugging Face's forward then does.

    Raises:
        ModelUnreadableError: the config names a family that the plain forward knows, and lacks one of its numbers.
    """
    try:
        return _find_shape(config)
    except KeyError as error:
        raise ModelUnreadableError(f"config.json names no {error.args[0]}") from None


def _find_shape(config: Mapping[str, Any]) -> ModelShape | None:
    family = FAMILIES.get(config["model_type"])
    if family is None:
        return None
    activation, wanted = family.activation
    softcaps = config.get("final_logit_softcapping") or config.get("attn_logit_softcapping")
    is_plain = (
        config.get(activation, wanted) == wanted
        and not softcaps
        and not config.get("use_bidirectional_attention")
        and not config.get("quantization_config")
        and config.get("partial_rotary_factor", 1.0) == 1.0
    )
    kinds = _layer_kinds(config)
    ropes = [_read_rope(config, kind) for kind in kinds]
    if not is_plain or None in ropes:
        return None
    layers, heads = len(kinds), int(config["num_attention_heads"])
    head_width = int(config.get("head_dim") or config["hidden_size"] // heads)
    window = config.get("sliding_window", family.window)
    if config["model_type"] == "mistral":
        kinds = ["sliding_attention"] * layers
    turns = config.get("no_rope_layers") or [True] * layers
    if config["model_type"] == "smollm3" and not config.get("no_rope_layers"):
        interval = config.get("no_rope_layer_interval", 4)
        turns = [(layer + 1) % interval != 0 for layer in range(layers)]
    return ModelShape(
        vocabulary_size=int(config["vocab_size"]),
        context_length=int(config["max_position_embeddings"]),
        width=int(config["hidden_size"]),
        inner=int(config["intermediate_size"]),
        layers=layers,
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_width=head_width,
        norm_epsilon=float(config.get("rms_norm_eps", 1e-6)),
        ties_embeddings=bool(config.get("tie_word_embeddings", family.ties_embeddings)),
        attention_scale=float(config.get("query_pre_attn_scalar") or head_width) ** -0.5,
        ropes=tuple(rope if turn else None for rope, turn in zip(ropes, turns, strict=True)),
        windows=tuple(window if kind == "sliding_attention" else None for kind in kinds),
        family=family,
    )


def _layer_kinds(config: Mapping[str, Any]) -> list[str]:
    """Hugging Face's `layer_types`, also of configs that were written before there was such a field."""
    count = int(config["num_hidden_layers"])
    if kinds := config.get("layer_types"):
        return list(kinds)
    if config["model_type"] == "gemma3_text":
        pattern = config.get("sliding_window_pattern", 6)
        return ["full_attention" if (layer + 1) % pattern == 0 else "sliding_attention" for layer in range(count)]
    if config.get("use_sliding_window") and config.get("sliding_window") is not None:
        first = config.get("max_window_layers", 28)
        return ["sliding_attention" if layer >= first else "full_attention" for layer in range(count)]
    return ["full_attention"] * count


def _read_rope(config: Mapping[str, Any], kind: str) -> Rope | None:
    """Of a layer of this kind; None of a way of scaling that is not known here."""
    is_local = config["model_type"] == "gemma3_text" and kind == "sliding_attention"
    told = config.get("rope_parameters") or {}
    if kind in told:
        told = told[kind]
    elif not told and not is_local:
        told = config.get("rope_scaling") or {}
    default = 10_000.0 if is_local else _THETAS.get(config["model_type"], 10_000.0)
    theta = float(told.get("rope_theta") or config.get("rope_local_base_freq" if is_local else "rope_theta") or default)
    match told.get("rope_type", told.get("type", "default")):
        case "default":
            return Rope(theta)
        case "linear":
            return Rope(theta, float(told["factor"]))
        case "llama3":
            low, high = float(told["low_freq_factor"]), float(told["high_freq_factor"])
            return Rope(theta, float(told["factor"]), low, high, int(told["original_max_position_embeddings"]))
    return None


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a model directory, shards in order."""
    if (single := directory / "model.safetensors").is_file():
        return [single]
    if (index := directory / "model.safetensors.index.json").is_file():
        names = sorted(set(read_json(index).get("weight_map", {}).values()))
        return [directory / name for name in names]
    raise ModelUnreadableError(f"{directory} holds no model.safetensors (pickled weights are never loaded)")


@contextmanager
def _open_weights(path: Path) -> Iterator[Any]:
    """Raises ModelUnreadableError unless it is a whole safetensors file."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except OSError as error:
        raise ModelUnreadableError(f"cannot read {path}: {error}") from None
    except SafetensorError as error:
        raise ModelUnreadableError(f"{path} is no whole safetensors file: {error}") from None


class TensorHead(NamedTuple):
    """What a file says of a tensor in front of it: its type in safetensors' words, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def numbers(self) -> int:
        return math.prod(self.shape)


def read_heads(files: Sequence[Path]) -> dict[str, TensorHead]:
    """Of every tensor in these files, by name. Raises ModelUnreadableError: one is no whole safetensors file."""
    heads: dict[str, TensorHead] = {}
    for path in files:
        with _open_weights(path) as file:
            for name in file.keys():  # noqa: SIM118  it is no mapping
                one = file.get_slice(name)
                heads[name] = TensorHead(one.get_dtype(), tuple(one.get_shape()))
    return heads


def read_weights(
    directory: Path,
    precision: torch.dtype | None = torch.float32,
    *,
    shape: ModelShape | None = None,
    device: torch.device | str = "cpu",
) -> dict[str, Tensor]:
    """The tensors of a model, by name.

    Args:
        precision: None: as it is stored, and left on the disk until it is looked at.
        shape: only what the plain forward computes with, checked before anything is read; None: every tensor.
    Raises:
        ModelUnreadableError: a file is no whole one; by `shape`, a tensor is missing or has another shape.
    """
    files = weight_files(directory)
    wanted = None if shape is None else shape.choose_tensors(read_heads(files))
    weights: dict[str, Tensor] = {}
    for path in files:
        with _open_weights(path) as file:
            for name in file.keys():  # noqa: SIM118  it is no mapping
                if wanted is None or name in wanted:
                    tensor = file.get_tensor(name)
                    weights[name] = tensor if precision is None else tensor.to(device, precision, copy=True)
    return weights


def read_end_ids(directory: Path, config: Mapping[str, Any]) -> list[int]:
    """Token ids that end an answer, by generation_config.json, else config.json."""
    path = directory / "generation_config.json"
    found = read_json(path).get("eos_token_id") if path.is_file() else None
    found = config.get("eos_token_id") if found is None else found
    return [] if found is None else list(found) if isinstance(found, list) else [found]


def hash_files(paths: list[Path]) -> str:
    """One lower-case hex SHA-256 over the files' bytes in order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
