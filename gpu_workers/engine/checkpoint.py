"""Reading a model directory: its config, and its weights as float32 tensors by name."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gpu_workers.engine.errors import ModelUnreadableError


@dataclass(frozen=True)
class ModelShape:
    """What the plain forward needs to know of a Qwen2 or Llama model."""

    vocabulary_size: int
    context_length: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    rope_theta: float
    norm_epsilon: float
    ties_embeddings: bool


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
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    is_plain = (
        config["model_type"] in ("qwen2", "llama")
        and config.get("hidden_act", "silu") == "silu"
        and rope.get("rope_type", rope.get("type", "default")) == "default"
        and not config.get("use_sliding_window")
        and not config.get("quantization_config")
        and config.get("partial_rotary_factor", 1.0) == 1.0
    )
    if not is_plain:
        return None
    heads = int(config["num_attention_heads"])
    return ModelShape(
        vocabulary_size=int(config["vocab_size"]),
        context_length=int(config["max_position_embeddings"]),
        width=int(config["hidden_size"]),
        layers=int(config["num_hidden_layers"]),
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_width=int(config.get("head_dim") or config["hidden_size"] // heads),
        rope_theta=float(rope.get("rope_theta", config.get("rope_theta", 10_000.0))),
        norm_epsilon=float(config.get("rms_norm_eps", 1e-6)),
        ties_embeddings=bool(config.get("tie_word_embeddings", False)),
    )


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a model directory, shards in order."""
    if (single := directory / "model.safetensors").is_file():
        return [single]
    if (index := directory / "model.safetensors.index.json").is_file():
        names = sorted(set(read_json(index).get("weight_map", {}).values()))
        return [directory / name for name in names]
    raise ModelUnreadableError(f"{directory} holds no model.safetensors (pickled weights are never loaded)")


def read_weights(directory: Path) -> dict[str, Tensor]:
    """Every tensor of the model as float32."""
    weights: dict[str, Tensor] = {}
    for path in weight_files(directory):
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118  safe_open is no mapping
                    weights[name] = file.get_tensor(name).to(torch.float32)
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
