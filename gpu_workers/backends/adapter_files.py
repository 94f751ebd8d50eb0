"""An adapter as a directory: standard PEFT files, the optimiser's state beside them, and a manifest over all of it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from gpu_workers.artifacts import path_from_uri, publish_directory, read_checked, staged_directory
from gpu_workers.backends.errors import DivergedError, ParentMismatchError
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import AdapterManifest, TrainSpec
from tentalis.core.learning.recipes import Recipe

WEIGHTS_FILE = "adapter_model.safetensors"
CONFIG_FILE = "adapter_config.json"
OPTIMIZER_FILE = "optimizer.safetensors"
MANIFEST_FILE = "manifest.json"
_KEY_PREFIX = "base_model.model."


@dataclass(frozen=True)
class LoraTensors:
    """Low-rank tensors, `<module>.lora_A.weight` (r, in) and `<module>.lora_B.weight` (out, r), and AdamW's state.

    Args:
        moments: `<name>.exp_avg` and `<name>.exp_avg_sq` of each weight's shape, `<name>.step` (); empty when nothing
            has been trained yet.
    """

    weights: Mapping[str, Tensor]
    moments: Mapping[str, Tensor]


def weight_names(module: str) -> tuple[str, str]:
    """Names of a module's A and B."""
    return f"{module}.lora_A.weight", f"{module}.lora_B.weight"


def start_adapter(linears: Mapping[str, Tensor], *, rank: int, seed: int) -> LoraTensors:
    """A fresh adapter that changes nothing yet: A from Kaiming's uniform, B zero, as PEFT starts one.

    Args:
        linears: module name -> (out, in) weight.
    """
    generator = torch.Generator().manual_seed(seed)
    weights: dict[str, Tensor] = {}
    for module, weight in linears.items():
        name_a, name_b = weight_names(module)
        out_size, in_size = weight.shape
        weights[name_a] = (torch.rand(rank, in_size, generator=generator) * 2 - 1) / in_size**0.5
        weights[name_b] = torch.zeros(out_size, rank)
    return LoraTensors(weights, {})


def read_manifest(directory: Path, *, sha256: str) -> AdapterManifest:
    """The manifest of an adapter directory, if it is the one that was promised.

    Raises:
        ArtifactError: it cannot be read, or hashes to something else.
        ParentMismatchError: it is no adapter manifest.
    """
    data = read_checked(directory / MANIFEST_FILE, sha256=sha256)
    try:
        return AdapterManifest.from_json(json.loads(data))
    except (ValueError, TypeError) as error:
        raise ParentMismatchError(f"{directory / MANIFEST_FILE} is no adapter manifest: {error}") from error


def open_parent(spec: TrainSpec) -> tuple[Path, AdapterManifest] | None:
    """Directory and manifest of the adapter that training goes on from; None: it begins anew.

    Raises:
        ArtifactError: it cannot be read, or is another one.
        ParentMismatchError: it is no adapter, or the spec does not say its hash.
    """
    if spec.parent_adapter_uri is None:
        return None
    if spec.parent_sha256 is None:
        raise ParentMismatchError("parent_adapter_uri wants parent_sha256 beside it, found null")
    directory = path_from_uri(spec.parent_adapter_uri)
    return directory, read_manifest(directory, sha256=spec.parent_sha256)


def require_fit(*facts: tuple[str, object, object]) -> None:
    """Raises ParentMismatchError where a parent adapter is other than it must be: (what of it, wanted, found) each."""
    for name, wanted, found in facts:
        if wanted != found:
            raise ParentMismatchError(f"parent adapter: {name} must be {wanted}, found {found}")


def read_adapter(
    directory: Path, manifest: AdapterManifest, *, linears: Mapping[str, Tensor], rank: int
) -> LoraTensors:
    """Read an adapter to train it further; every file is checked against the manifest.

    Raises:
        ArtifactError: a file is missing or changed.
        ParentMismatchError: it was made for other modules, shapes or another rank.
    """
    tensors = {}
    for name in (WEIGHTS_FILE, OPTIMIZER_FILE):
        if name not in manifest.files:
            raise ParentMismatchError(f"the parent's manifest lists no {name}")
        data = read_checked(directory / name, sha256=str(manifest.files[name]["sha256"]))
        try:
            tensors[name] = load(data)
        except SafetensorError as error:
            raise ParentMismatchError(f"{directory / name} is no safetensors file: {error}") from error
    weights = {name.removeprefix(_KEY_PREFIX): tensor for name, tensor in tensors[WEIGHTS_FILE].items()}
    wanted = {name: tensor.shape for name, tensor in start_adapter(linears, rank=rank, seed=0).weights.items()}
    found = {name: tensor.shape for name, tensor in weights.items()}
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            raise ParentMismatchError(
                f"parent adapter: {name} must be {_shape(wanted.get(name))} by base and recipe, "
                f"found {_shape(found.get(name))}"
            )
    return LoraTensors({name: weights[name] for name in wanted}, tensors[OPTIMIZER_FILE])


def _shape(shape: torch.Size | None) -> str:
    return "absent" if shape is None else str(tuple(shape))


def describe_adapter(spec: TrainSpec, recipe: Recipe, base_sha256: str) -> dict[str, Any]:
    """`AdapterManifest` without `files` and `versions`, of what this spec trains."""
    return {
        "worker": spec.worker,
        "base_model": spec.base_model,
        "base_sha256": base_sha256,
        "parent_sha256": spec.parent_sha256 or "",
        "run_id": spec.run_id,
        "attempt": spec.attempt,
        "recipe_hash": recipe.hash,
        "rollouts_sha256": spec.rollouts_sha256,
        "rank": recipe.lora_rank,
        "alpha": recipe.lora_alpha,
        "target_modules": sorted(recipe.target_modules),
    }


def publish_adapter(
    tensors: LoraTensors,
    manifest_fields: Mapping[str, Any],
    *,
    parent: Path,
    beside: Mapping[str, bytes] = MappingProxyType({}),
) -> tuple[Path, str]:
    """Write an adapter under `parent`, named by the SHA-256 of its manifest.

    Args:
        manifest_fields: `AdapterManifest` without `files` and `versions`.
        beside: further files, by name, that are part of it.
    Returns:
        The directory, and the manifest's lower-case hex SHA-256.
    Raises:
        DivergedError: a weight is not finite; nothing is written.
        ArtifactError: the disk refuses; nothing is left behind.
    """
    _require_finite({**tensors.weights, **tensors.moments})
    contents = {
        WEIGHTS_FILE: save(
            {_KEY_PREFIX + name: tensor.cpu().contiguous() for name, tensor in tensors.weights.items()},
            {"format": "pt"},
        ),
        OPTIMIZER_FILE: save({name: tensor.cpu().contiguous() for name, tensor in tensors.moments.items()}),
        CONFIG_FILE: canonical_json(_peft_config(manifest_fields)),
        **beside,
    }
    manifest = AdapterManifest(
        **manifest_fields,
        files={
            name: {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
            for name, data in contents.items()
        },
        versions=package_versions(),
    )
    contents[MANIFEST_FILE] = canonical_json(manifest.to_json())
    sha256 = hashlib.sha256(contents[MANIFEST_FILE]).hexdigest()
    final = parent / sha256
    with staged_directory(parent) as staging:
        for name, data in contents.items():
            (staging / name).write_bytes(data)
        _require_as_meant(staging, tensors)
        publish_directory(staging, final)
    return final, sha256


def _require_finite(tensors: Mapping[str, Tensor]) -> None:
    if bool(torch.cat([tensor.flatten() for tensor in tensors.values()]).isfinite().all()):
        return
    name = next(name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all()))
    raise DivergedError(f"{name} is not finite after training")


def _require_as_meant(staging: Path, tensors: LoraTensors) -> None:
    """Read the weights back from the disk: header, names, shapes and values are those that were trained."""
    written = load((staging / WEIGHTS_FILE).read_bytes())
    for name, tensor in tensors.weights.items():
        if not torch.equal(written[_KEY_PREFIX + name], tensor.cpu()):
            raise DivergedError(f"{name} reads back from disk other than it was written")


def _peft_config(manifest_fields: Mapping[str, Any]) -> dict[str, Any]:
    """As PEFT's `LoraConfig` is kept: the fields it has had since its first versions, so that none of them refuses it.
    What it has besides by now is a way of being more than LoRA, and off where it is not told."""
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": manifest_fields["base_model"],
        "revision": None,
        "inference_mode": True,
        "r": manifest_fields["rank"],
        "lora_alpha": manifest_fields["alpha"],
        "lora_dropout": 0.0,
        "target_modules": list(manifest_fields["target_modules"]),
        "layers_to_transform": None,
        "layers_pattern": None,
        "modules_to_save": None,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
    }


@cache
def package_versions() -> dict[str, str]:
    """Version of each package that computed the weights."""
    return {package: version(package) for package in ("torch", "transformers", "peft", "safetensors")}
