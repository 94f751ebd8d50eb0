"""An adapter is looked at before it is served: whatever is wrong is refused by name, and nothing is half-loaded."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import copytree
from types import MappingProxyType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from gpu_workers.backends.base_models import load_base
from gpu_workers.engine import Engine
from gpu_workers.engine.errors import AdapterRefusedError, InvalidRequestError, UnknownModelError
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import AdapterManifest

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")]

WEIGHTS = "adapter_model.safetensors"
A_KEY = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
B_KEY = A_KEY.replace("lora_A", "lora_B")


@pytest.fixture
def adapter(write_adapter: Callable[..., Path], tmp_path: Path) -> Path:
    return write_adapter(tmp_path / "adapter")


def change_weights(directory: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(directory / WEIGHTS)
    change(tensors)
    save_file(tensors, directory / WEIGHTS)


def change_config(directory: Path, **values: Any) -> None:
    path = directory / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def write_manifest(
    directory: Path,
    changes: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    *,
    base: str = "tiny",
    base_sha256: str = "",
) -> None:
    files = {
        path.name: {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size_bytes": path.stat().st_size}
        for path in directory.iterdir()
    }
    manifest = AdapterManifest(
        worker="w",
        base_model=base,
        base_sha256=base_sha256,
        parent_sha256="",
        run_id=1,
        attempt=1,
        recipe_hash="",
        rollouts_sha256="",
        rank=4,
        alpha=8.0,
        target_modules=["q_proj"],
        files=files | dict(changes),
        versions={},
    )
    (directory / "manifest.json").write_bytes(canonical_json(manifest.to_json()))


def poison(value: float) -> Callable[[Path], None]:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[A_KEY][1, 2] = value

    return lambda directory: change_weights(directory, change)


def overflow(directory: Path) -> None:
    change_weights(directory, lambda tensors: tensors.update({B_KEY: torch.full_like(tensors[B_KEY], 3e38)}))


def truncate(directory: Path) -> None:
    path = directory / WEIGHTS
    path.write_bytes(path.read_bytes()[:-100])


def widen(directory: Path) -> None:
    change_weights(directory, lambda tensors: tensors.update({A_KEY: torch.ones(4, 50)}))


def drop_half(directory: Path) -> None:
    change_weights(directory, lambda tensors: tensors.__delitem__(A_KEY))


def make_whole(directory: Path) -> None:
    change_weights(directory, lambda tensors: tensors.update({A_KEY: tensors[A_KEY].to(torch.int64)}))


def nest_config(directory: Path) -> None:
    (directory / "adapter_config.json").write_text("[" * 200_000 + "]" * 200_000)


def pad_config(directory: Path) -> None:
    (directory / "adapter_config.json").write_text("{" + " " * 2**20 + "}")


def add_stranger(directory: Path) -> None:
    stranger = A_KEY.replace("layers.0", "layers.9")
    change_weights(directory, lambda tensors: tensors.update({stranger: torch.ones(4, 48)}))


def add_full_weight(directory: Path) -> None:
    change_weights(directory, lambda tensors: tensors.update({"lm_head.weight": torch.ones(4, 48)}))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (poison(float("nan")), "NaN or infinite"),
        (poison(float("inf")), "NaN or infinite"),
        (overflow, "lora_B times its scale 2 is beyond float32"),
        (truncate, f"cannot read {WEIGHTS}"),
        (widen, r"shape \(4, 48\) for this base and r, found \(4, 50\)"),
        (drop_half, "lacks its lora_A"),
        (add_stranger, r"no weight model\.layers\.9"),
        (add_full_weight, "lm_head.weight is not a LoRA weight"),
        (lambda directory: (directory / WEIGHTS).unlink(), f"holds no {WEIGHTS}"),
        (lambda directory: (directory / "adapter_config.json").unlink(), "holds no adapter_config.json"),
        (lambda directory: (directory / "adapter_config.json").write_text("{"), "cannot read adapter_config.json"),
        (lambda directory: change_config(directory, peft_type="IA3"), "peft_type LORA"),
        (lambda directory: change_config(directory, r=0), "r must be an integer from 1 to 512, found 0"),
        (lambda directory: change_config(directory, r=8), r"shape \(8, \d+\).*found \(4, \d+\)"),
        (lambda directory: change_config(directory, lora_alpha="x"), "lora_alpha must be a number from 0 to 4096"),
        (lambda directory: change_config(directory, lora_alpha=1e30), "lora_alpha must be a number from 0 to 4096"),
        (lambda directory: change_config(directory, lora_alpha=10**400), "lora_alpha must be a number from 0 to 4096"),
        (lambda directory: change_config(directory, lora_alpha=float("nan")), "lora_alpha must be a number"),
        (make_whole, "must hold floating-point numbers, found torch.int64"),
        (nest_config, "too deep within each other"),
        (pad_config, "must have at most 1048576 bytes"),
        (lambda directory: change_config(directory, use_dora=True), "use_dora is not supported"),
        (lambda directory: change_config(directory, bias="all"), "bias must be 'none'"),
        (lambda directory: change_config(directory, init_lora_weights="pissa"), "changes the base"),
    ],
)
def test_a_damaged_adapter_is_refused_by_name_and_not_served(
    engine: Engine, adapter: Path, damage: Callable[[Path], None], named: str
) -> None:
    damage(adapter)
    with pytest.raises(AdapterRefusedError, match=named):
        engine.load_adapter("w@v1", adapter)
    assert list(engine.models.now()) == ["tiny"]


def test_an_adapter_of_another_architecture_is_refused(
    engine: Engine, write_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(AdapterRefusedError, match="must have shape"):
        engine.load_adapter("w@v1", write_adapter(tmp_path / "llama", "llama"))


def test_a_whole_manifest_lets_an_adapter_in_and_a_broken_promise_keeps_it_out(engine: Engine, adapter: Path) -> None:
    write_manifest(adapter)
    assert (
        engine.load_adapter("w@v1", adapter).fingerprint == hashlib.sha256((adapter / WEIGHTS).read_bytes()).hexdigest()
    )
    for change, named in (
        ({"sha256": "0" * 64, "size_bytes": (adapter / WEIGHTS).stat().st_size}, "must hash to 0000"),
        ({"sha256": "0" * 64, "size_bytes": 3}, "must have 3 bytes"),
    ):
        (adapter / "manifest.json").unlink()
        write_manifest(adapter, {WEIGHTS: change})
        with pytest.raises(AdapterRefusedError, match=named):
            engine.load_adapter("w@v2", adapter)
    (adapter / "manifest.json").unlink()
    write_manifest(adapter, {"../elsewhere": {"sha256": "", "size_bytes": 0}})
    with pytest.raises(AdapterRefusedError, match="files must be plain names, found"):
        engine.load_adapter("w@v2", adapter)
    (adapter / "manifest.json").write_text('{"schema": "other/1"}')
    with pytest.raises(AdapterRefusedError, match="schema must be"):
        engine.load_adapter("w@v2", adapter)


def test_an_adapter_is_refused_over_other_weights_than_it_was_trained_on(
    engine: Engine, adapter: Path, model_directory: Callable[[str], Path], tmp_path: Path
) -> None:
    """They have its shapes, and would answer."""
    trained_on = load_base(str(model_directory("qwen2")))
    write_manifest(adapter, base_sha256=trained_on.sha256)
    assert engine.load_adapter("w@v1", adapter).name == "w@v1"
    other = copytree(trained_on.directory, tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    save_file({name: 2 * weight for name, weight in weights.items()}, other / "model.safetensors", {"format": "pt"})
    over_other = Engine("tiny", other)
    with pytest.raises(AdapterRefusedError, match=f"must hash to {trained_on.sha256}, as tiny did .* this server's"):
        over_other.load_adapter("w@v1", adapter)
    assert list(over_other.models.now()) == ["tiny"]


def test_a_name_is_used_once_and_the_base_cannot_be_unloaded(engine: Engine, adapter: Path) -> None:
    engine.load_adapter("w@v1", adapter)
    for name in ("w@v1", "tiny"):
        with pytest.raises(AdapterRefusedError, match="is taken"):
            engine.load_adapter(name, adapter)
    for name in ("", "../up", "a b", "x" * 201):
        with pytest.raises(AdapterRefusedError, match="lora_name must be"):
            engine.load_adapter(name, adapter)
    with pytest.raises(InvalidRequestError, match="cannot be unloaded"):
        engine.unload_adapter("tiny")
    with pytest.raises(UnknownModelError, match="no adapter 'w@v9'"):
        engine.unload_adapter("w@v9")
    engine.unload_adapter("w@v1")
    engine.load_adapter("w@v1", adapter)
