"""What the service exported, as an adapter of ours: files by signed addresses in, low-rank tensors out."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from gpu_workers.artifacts import ArtifactError
from gpu_workers.backends.adapter_files import CONFIG_FILE, WEIGHTS_FILE, LoraTensors
from gpu_workers.backends.errors import TrainingError
from tentalis.core.learning.recipes import Recipe

TIMEOUT_S = 60.0
_KEY_PREFIX = "base_model.model."


class ExportNotAsAskedError(TrainingError):
    """What the service exported is not the adapter the recipe asked for."""


def fetch_export(addresses: Mapping[str, str], directory: Path) -> None:
    """Fetch an exported adapter's two files into `directory`; whatever else there is stays where it is.

    Raises:
        ExportNotAsAskedError: one of them is not there.
        ArtifactError: it cannot be fetched, or written. The message leaves out its address, which is a secret.
    """
    by_name = {Path(name).name: address for name, address in addresses.items()}
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        if name not in by_name:
            raise ExportNotAsAskedError(f"wanted {CONFIG_FILE} and {WEIGHTS_FILE}, found {', '.join(sorted(by_name))}")
    shutil.rmtree(directory, ignore_errors=True)
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with (
                httpx.stream("GET", by_name[name], timeout=TIMEOUT_S, follow_redirects=True) as answer,
                (directory / name).open("wb") as file,
            ):
                if answer.status_code != httpx.codes.OK:
                    raise ArtifactError(f"cannot fetch {name} of the export: HTTP {answer.status_code}")
                for block in answer.iter_bytes(1 << 20):
                    file.write(block)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ArtifactError(f"cannot fetch {name} of the export: {type(error).__name__}") from None
        except OSError as error:
            raise ArtifactError(f"cannot write {directory / name}: {error.strerror}") from error


def read_export(directory: Path, recipe: Recipe) -> LoraTensors:
    """The adapter's weights in float32, scaled so that the recipe's alpha makes them the function that was trained.

    Raises:
        ArtifactError: a file cannot be read.
        ExportNotAsAskedError: another rank or kind of adapter, or tensors that do not belong to one.
    """
    theirs = _read_scale(directory / CONFIG_FILE, recipe)
    try:
        found = load_file(directory / WEIGHTS_FILE)
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"cannot read {directory / WEIGHTS_FILE}: {error}") from error
    pairs: dict[str, dict[str, Tensor]] = {}
    for name, tensor in found.items():
        module, _, side = name.removeprefix(_KEY_PREFIX).removesuffix(".weight").rpartition(".")
        if side not in ("lora_A", "lora_B") or module.rpartition(".")[2] not in recipe.target_modules:
            raise ExportNotAsAskedError(
                f"wanted low-rank weights of {', '.join(recipe.target_modules)} alone, found {name}"
            )
        pairs.setdefault(module, {})[side] = tensor.to(torch.float32)
    if not pairs:
        raise ExportNotAsAskedError(f"{WEIGHTS_FILE} holds no tensor")
    weights = {}
    for module, sides in sorted(pairs.items()):
        shapes = {side: tuple(tensor.shape) for side, tensor in sides.items()}
        ranks = {sides["lora_A"].shape[0], sides["lora_B"].shape[-1]} if len(sides) == 2 else set()
        if ranks != {recipe.lora_rank}:
            raise ExportNotAsAskedError(
                f"{module}: wanted lora_A and lora_B of rank {recipe.lora_rank}, found {shapes}"
            )
        weights[f"{module}.lora_A.weight"] = sides["lora_A"]
        weights[f"{module}.lora_B.weight"] = sides["lora_B"] * (theirs / recipe.lora_scale)
    return LoraTensors(weights, {})


def _read_scale(path: Path, recipe: Recipe) -> float:
    """What the exported B A is multiplied by."""
    try:
        config: Any = json.loads(path.read_bytes())
        kind, rank, alpha = config["peft_type"], int(config["r"]), float(config["lora_alpha"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ArtifactError(f"{path} is no adapter's configuration: {error!r}") from error
    plain = {"use_dora": False, "use_rslora": False, "modules_to_save": None, "bias": "none"}
    odd = {name: config[name] for name, usual in plain.items() if name in config and config[name] != usual}
    if kind != "LORA" or rank != recipe.lora_rank or alpha <= 0 or odd:
        raise ExportNotAsAskedError(
            f"wanted a plain LORA adapter of rank {recipe.lora_rank}, found {kind} of rank {rank}, alpha {alpha:g}"
            + (f", {odd}" if odd else "")
        )
    return alpha / rank
