"""What OpenRLHF saved, as an adapter of ours: a PEFT directory in, manifest and digest out."""

import json
import math
import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from gpu_workers.artifacts import ArtifactError
from gpu_workers.backends.adapter_files import CONFIG_FILE, WEIGHTS_FILE, LoraTensors
from gpu_workers.backends.errors import DivergedError, TrainingError
from gpu_workers.backends.openrlhf.plugin.head import HEAD_FILE, WEIGHT
from gpu_workers.learning.reward_head import VIEWS, Head
from tentalis.core.learning.recipes import Recipe

PICKLED_FILE = "adapter_model.bin"
_KEY_PREFIX = "base_model.model."


class AdapterNotAsAskedError(TrainingError):
    """What the cluster saved is not the adapter the recipe asked for."""


def read_saved(directory: Path, recipe: Recipe) -> LoraTensors:
    """The weights OpenRLHF saved, in float32, named by module. DeepSpeed's ZeRO 3 pickles them: only tensors are read
    from there.

    Raises:
        ArtifactError: nothing can be read there.
        AdapterNotAsAskedError: another rank, scale or kind of adapter, or tensors that do not belong to one.
        DivergedError: a weight is not finite.
    """
    _require_config(_read_config(directory / CONFIG_FILE), recipe)
    weights = {
        name.removeprefix(_KEY_PREFIX): tensor.to(torch.float32) for name, tensor in _read_tensors(directory).items()
    }
    modules: dict[str, dict[str, Tensor]] = {}
    for name, tensor in weights.items():
        module, _, side = name.removesuffix(".weight").rpartition(".")
        if side not in ("lora_A", "lora_B") or module.rpartition(".")[2] not in recipe.target_modules:
            raise AdapterNotAsAskedError(f"wanted low-rank weights of {recipe.target_modules}, found {name}")
        modules.setdefault(module, {})[side] = tensor
        if not bool(torch.isfinite(tensor).all()):
            raise DivergedError(f"{name} is not finite after training")
    for module, sides in modules.items():
        shapes = {side: tuple(tensor.shape) for side, tensor in sides.items()}
        ranks = {sides["lora_A"].shape[0], sides["lora_B"].shape[-1]} if len(sides) == 2 else set()
        if ranks != {recipe.lora_rank}:
            raise AdapterNotAsAskedError(
                f"{module}: wanted lora_A and lora_B of rank {recipe.lora_rank}, found {shapes}"
            )
    if not modules:
        raise AdapterNotAsAskedError(f"{directory} holds no low-rank weight")
    return LoraTensors(weights, {})


def read_saved_head(directory: Path) -> Head:
    """The linear head OpenRLHF trained on a base's last state, exactly as a head of ours: x = relu(x) - relu(-x).

    Raises:
        ArtifactError: nothing can be read there. AdapterNotAsAskedError: it is no such head.
        DivergedError: it is not finite.
    """
    path = directory / HEAD_FILE
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"{path} holds no head that can be read: {error}") from error
    weight = tensors.get(WEIGHT)
    if weight is None or weight.ndim != 2 or weight.shape[0] != 1:
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        raise AdapterNotAsAskedError(f"{path}: wanted {WEIGHT} of shape (1, width), found {shapes}")
    weight = weight.to(torch.float32)
    if not bool(torch.isfinite(weight).all()):
        raise DivergedError("the head is not finite after training")
    row = torch.cat([weight, weight.new_zeros(1, (VIEWS - 1) * weight.shape[1])], dim=1)  # 1 F: the last state alone
    return Head(
        mean=torch.zeros_like(row[0]),
        scale=torch.ones_like(row[0]),
        hidden_weight=torch.cat([row, -row]),
        hidden_bias=torch.zeros(2),
        out_weight=torch.tensor([1.0, -1.0]),
        out_bias=torch.tensor(0.0),
    )


def _read_config(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ArtifactError(f"cannot read {path}: {error}") from error
    if not isinstance(found, dict):
        raise AdapterNotAsAskedError(f"{path} must hold an object")
    return found


def _require_config(config: dict[str, Any], recipe: Recipe) -> None:
    wanted = {
        "peft_type": "LORA",
        "r": recipe.lora_rank,
        "lora_alpha": recipe.lora_alpha,
        "bias": "none",
        "use_dora": False,
        "use_rslora": False,
        "modules_to_save": None,
    }
    for name, value in wanted.items():
        found = config.get(name, value)
        is_same = math.isclose(found, value) if isinstance(value, float) else found == value
        if not is_same:
            raise AdapterNotAsAskedError(f"the saved adapter's {name} must be {value!r}, found {found!r}")


def _read_tensors(directory: Path) -> dict[str, Tensor]:
    safe, pickled = directory / WEIGHTS_FILE, directory / PICKLED_FILE
    try:
        if safe.exists():
            return dict(load_file(safe))
        found: Any = torch.load(pickled, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError, RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise ArtifactError(f"{directory} holds no adapter that can be read: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise AdapterNotAsAskedError(f"{pickled} must hold tensors by name")
    return found
