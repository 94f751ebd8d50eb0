"""Reading a model directory: its config, and its weights as float32 tensors by name."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gpu_workers.engine.errors import ModelUnreadableError

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


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
        attention_scale: of a query's product with a key.
        ropes: one a layer; None: the layer does not turn (SmolLM3).
        windows: one a layer, how many positions a token sees, its own among them; None: all before it.
    """

    vocabulary_size: int
    context_length: int
    width: int
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


def plain_shape(config: dict[str, Any]) -> ModelShape | None:
    """The shape if the plain forward computes exactly this config, else None: Hugging Face's forward then serves it."""
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


def _layer_kinds(config: dict[str, Any]) -> list[str]:
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


def _read_rope(config: dict[str, Any], kind: str) -> Rope | None:
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


def read_weights(directory: Path, precision: torch.dtype | None = torch.float32) -> dict[str, Tensor]:
    """Every tensor of the model; None: as it is stored."""
    weights: dict[str, Tensor] = {}
    for path in weight_files(directory):
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118  safe_open is no mapping
                    tensor = file.get_tensor(name)
                    weights[name] = tensor if precision is None else tensor.to(precision)
        except (OSError, SafetensorError) as error:
            raise ModelUnreadableError(f"cannot read {path}: {error}") from error
    return weights


def hash_files(paths: list[Path]) -> str:
    """One lower-case hex SHA-256 over the files' bytes in order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
