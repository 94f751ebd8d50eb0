"""Reading a LoRA adapter, and refusing one that must not be served, before anything is served from it."""

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

from gpu_workers.engine.errors import AdapterRefusedError
from tentalis.core.contracts import AdapterManifest, ContractError

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
MANIFEST_FILE = "manifest.json"
MAX_RANK = 512
MAX_ALPHA = 4096
MAX_CONFIG_BYTES = 1 << 20
_PREFIX = "base_model.model."
_MUST_BE_FALSY = (
    "use_dora",
    "lora_bias",
    "modules_to_save",
    "rank_pattern",
    "alpha_pattern",
    "layer_replication",
    "trainable_token_indices",
    "target_parameters",
    "fan_in_fan_out",
)
_PLAIN_INITS = (True, False, None, "gaussian", "eva", "orthogonal")


@dataclass(frozen=True)
class LoraPair:
    """One weight's low-rank change: W + scale * b @ a."""

    a: Tensor  # r in
    b: Tensor  # out r
    scale: float

    def delta(self) -> Tensor:
        return (self.b @ self.a) * self.scale


@dataclass(frozen=True)
class Adapter:
    """A checked adapter.

    Args:
        pairs: weight name of the base -> its change.
        sha256: hex digest of the weights file.
    """

    directory: Path
    rank: int
    sha256: str
    pairs: Mapping[str, LoraPair]


def read_adapter(directory: Path, adaptable: Mapping[str, tuple[int, int]], *, base_sha256: str | None) -> Adapter:
    """Read a PEFT LoRA directory and check that it is whole, finite and made for this base.

    Args:
        adaptable: the base's weights an adapter may change, name -> (out, in).
        base_sha256: of the base's weights files; a manifest may name no other. None: the caller compared them.
    Raises:
        AdapterRefusedError: for the first thing that is not as it must be, naming it.
    """
    if not directory.is_dir():
        raise AdapterRefusedError(f"no adapter directory at {directory}", param="lora_path")
    _check_manifest(directory, base_sha256)
    config = _read_config(directory / CONFIG_FILE)
    rank, alpha = config["r"], config["lora_alpha"]
    scale = float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)
    path = directory / WEIGHTS_FILE
    if not path.is_file():
        raise AdapterRefusedError(f"{directory} holds no {WEIGHTS_FILE} (pickled weights are never loaded)")
    halves = _read_halves(path, rank, adaptable)
    pairs: dict[str, LoraPair] = {}
    for name, found in halves.items():
        if missing := {"A", "B"} - set(found):
            raise AdapterRefusedError(f"{path.name}: {name} lacks its lora_{missing.pop()}")
        if not bool(torch.isfinite(found["B"] * scale).all()):
            raise AdapterRefusedError(f"{path.name}: {name}'s lora_B times its scale {scale:g} is beyond float32")
        pairs[name] = LoraPair(found["A"], found["B"], scale)
    if not pairs:
        raise AdapterRefusedError(f"{path.name} holds no LoRA weights")
    return Adapter(directory, rank, hashlib.sha256(path.read_bytes()).hexdigest(), pairs)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        if (size := path.stat().st_size) > MAX_CONFIG_BYTES:
            raise AdapterRefusedError(f"{path.name} must have at most {MAX_CONFIG_BYTES} bytes, found {size}")
        config = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise AdapterRefusedError(f"{path.parent} holds no {path.name}") from None
    except RecursionError:
        raise AdapterRefusedError(f"cannot read {path.name}: its values lie too deep within each other") from None
    except (OSError, ValueError) as error:
        raise AdapterRefusedError(f"cannot read {path.name}: {error}") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise AdapterRefusedError(f"{path.name} must be a PEFT config of peft_type LORA")
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= MAX_RANK:
        raise AdapterRefusedError(f"{path.name}: r must be an integer from 1 to {MAX_RANK}, found {rank!r}")
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha <= MAX_ALPHA:
        found = repr(alpha)[:40]
        raise AdapterRefusedError(f"{path.name}: lora_alpha must be a number from 0 to {MAX_ALPHA}, found {found}")
    if config.get("bias", "none") != "none":
        raise AdapterRefusedError(f"{path.name}: bias must be 'none', found {config['bias']!r}")
    if config.get("init_lora_weights", True) not in _PLAIN_INITS:
        raise AdapterRefusedError(
            f"{path.name}: init_lora_weights {config['init_lora_weights']!r} changes the base and cannot be served"
        )
    for name in _MUST_BE_FALSY:
        if config.get(name):
            raise AdapterRefusedError(f"{path.name}: {name} is not supported, found {config[name]!r}")
    return config


def _read_halves(path: Path, rank: int, adaptable: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, Tensor]]:
    halves: dict[str, dict[str, Tensor]] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for key in file.keys():  # noqa: SIM118  safe_open is no mapping
                name, half = _split_key(key, adaptable)
                rows, columns = adaptable[name]
                wanted = (rank, columns) if half == "A" else (rows, rank)
                shape = tuple(file.get_slice(key).get_shape())
                if shape != wanted:
                    raise AdapterRefusedError(
                        f"{path.name}: {key} must have shape {wanted} for this base and r, found {shape}"
                    )
                tensor = file.get_tensor(key)
                if not tensor.is_floating_point():
                    raise AdapterRefusedError(
                        f"{path.name}: {key} must hold floating-point numbers, found {tensor.dtype}"
                    )
                tensor = tensor.to(torch.float32)
                if not bool(torch.isfinite(tensor).all()):
                    raise AdapterRefusedError(f"{path.name}: {key} holds NaN or infinite values")
                halves.setdefault(name, {})[half] = tensor
    except (OSError, SafetensorError) as error:
        raise AdapterRefusedError(f"cannot read {path.name}: {error}") from error
    return halves


def _split_key(key: str, adaptable: Mapping[str, tuple[int, int]]) -> tuple[str, str]:
    for half in ("A", "B"):
        ending = f".lora_{half}.weight"
        if key.startswith(_PREFIX) and key.endswith(ending):
            name = key.removeprefix(_PREFIX).removesuffix(ending) + ".weight"
            if name in adaptable:
                return name, half
            raise AdapterRefusedError(f"the base model has no weight {name} to adapt (from {key})")
    raise AdapterRefusedError(f"{key} is not a LoRA weight ({_PREFIX}<module>.lora_A.weight or .lora_B.weight)")


def _check_manifest(directory: Path, base_sha256: str | None) -> None:
    """Every file the manifest names must be there with its size and SHA-256, and its base, if it knows its hash, be
    this one; no manifest, no check."""
    path = directory / MANIFEST_FILE
    if not path.exists():
        return
    try:
        manifest = AdapterManifest.from_json(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        reason = str(error) if isinstance(error, ContractError) else f"unreadable: {error}"
        raise AdapterRefusedError(f"{path.name}: {reason}") from error
    if base_sha256 is not None and manifest.base_sha256 not in ("", base_sha256):
        raise AdapterRefusedError(
            f"the base model must hash to {manifest.base_sha256}, as {manifest.base_model} did when the adapter was "
            f"trained on it; this server's hashes to {base_sha256}",
            param="lora_path",
        )
    for needed in (CONFIG_FILE, WEIGHTS_FILE):
        if needed not in manifest.files:
            raise AdapterRefusedError(f"{path.name} does not name {needed}")
    for name, promised in manifest.files.items():
        file = directory / name
        if file.resolve().parent != directory.resolve() or not file.is_file():
            raise AdapterRefusedError(f"{path.name} names {name!r}, which is not a file of the adapter's directory")
        if (size := file.stat().st_size) != promised.get("size_bytes"):
            raise AdapterRefusedError(f"{name} must have {promised.get('size_bytes')} bytes, found {size}")
        if (digest := hashlib.sha256(file.read_bytes()).hexdigest()) != promised.get("sha256"):
            raise AdapterRefusedError(f"{name} must hash to {promised.get('sha256')}, found {digest}")
