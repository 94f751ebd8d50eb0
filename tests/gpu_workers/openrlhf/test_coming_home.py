"""What a cluster leaves behind: curves as metrics, PEFT files as an adapter of ours, and nothing that is not one."""

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from gpu_workers.artifacts import ArtifactError
from gpu_workers.backends.errors import DivergedError
from gpu_workers.backends.openrlhf.curves import read_curves
from gpu_workers.backends.openrlhf.read_back import AdapterNotAsAskedError, read_saved
from tentalis.core.learning.recipes import Recipe

RECIPE = Recipe(lora_rank=4, lora_alpha=8.0, target_modules=("q_proj",), step_mix=0.0)
MODULE = "model.layers.0.self_attn.q_proj"


def write_saved(directory: Path, *, pickled: bool = False, config: Any = None, **changes: Any) -> Path:
    """A directory as OpenRLHF writes it: PEFT's, bf16."""
    directory.mkdir(exist_ok=True)
    tensors = {
        f"base_model.model.{MODULE}.lora_A.weight": torch.randn(4, 6).to(torch.bfloat16),
        f"base_model.model.{MODULE}.lora_B.weight": torch.randn(8, 4).to(torch.bfloat16),
        **changes,
    }
    told = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "use_dora": False} | (config or {})
    (directory / "adapter_config.json").write_text(json.dumps(told))
    if pickled:
        torch.save(tensors, directory / "adapter_model.bin")
    else:
        save_file(tensors, directory / "adapter_model.safetensors")
    return directory


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "as ZeRO 3 pickles them"])
def test_saved_weights_are_read_in_float32_under_our_names(tmp_path: Path, pickled: bool) -> None:
    found = read_saved(write_saved(tmp_path, pickled=pickled), RECIPE)
    assert sorted(found.weights) == [f"{MODULE}.lora_A.weight", f"{MODULE}.lora_B.weight"]
    assert {tensor.dtype for tensor in found.weights.values()} == {torch.float32}
    assert found.moments == {}


class Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("/tmp/was-here"),))


def test_a_pickle_that_would_run_something_is_not_read(tmp_path: Path) -> None:
    directory = write_saved(tmp_path)
    (directory / "adapter_model.safetensors").unlink()
    (directory / "adapter_model.bin").write_bytes(pickle.dumps({"x": Evil()}, protocol=2))
    with pytest.raises(ArtifactError, match="holds no adapter that can be read"):
        read_saved(directory, RECIPE)
    assert not Path("/tmp/was-here").exists()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"config": {"r": 8}}, AdapterNotAsAskedError, "r must be 4, found 8"),
        ({"config": {"lora_alpha": 16}}, AdapterNotAsAskedError, "lora_alpha must be 8"),
        ({"config": {"use_dora": True}}, AdapterNotAsAskedError, "use_dora must be False"),
        ({"config": {"modules_to_save": ["lm_head"]}}, AdapterNotAsAskedError, "modules_to_save"),
        ({"base_model.model.lm_head.weight": torch.ones(2)}, AdapterNotAsAskedError, "found lm_head.weight"),
        ({"base_model.model.a.k_proj.lora_A.weight": torch.ones(4, 2)}, AdapterNotAsAskedError, "found a.k_proj"),
        ({f"base_model.model.{MODULE}.lora_A.weight": torch.ones(3, 6)}, AdapterNotAsAskedError, "of rank 4"),
        ({f"base_model.model.{MODULE}.lora_B.weight": torch.full((8, 4), float("nan"))}, DivergedError, "not finite"),
    ],
)
def test_what_is_not_the_adapter_that_was_asked_for_is_refused(
    tmp_path: Path, changes: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        read_saved(write_saved(tmp_path, **changes), RECIPE)


def test_a_directory_without_an_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot read"):
        read_saved(tmp_path, RECIPE)


def write_events(path: Path, *events: tuple[int, str, float]) -> None:
    """An event file as TensorBoard's writer makes it."""

    def varint(value: int) -> bytes:
        found = b""
        while value > 0x7F:
            found += bytes([value & 0x7F | 0x80])
            value >>= 7
        return found + bytes([value])

    def sized(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2]) + varint(len(data)) + data

    held = b""
    for step, tag, value in events:
        scalar = sized(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
        event = b"\x09" + struct.pack("<d", 1.5) + b"\x10" + varint(step) + sized(5, sized(1, scalar))
        held += struct.pack("<Q", len(event)) + b"\0" * 4 + event + b"\0" * 4
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(held)


def test_curves_are_read_by_step(tmp_path: Path) -> None:
    path = tmp_path / "run" / "events.out.tfevents.1.host"
    write_events(path, (1, "train/reward", 0.25), (300, "train/reward", 0.5), (1, "train/kl", 1.0))
    assert read_curves(tmp_path) == [
        {"step": 1.0, "train/reward": 0.25, "train/kl": 1.0},
        {"step": 300.0, "train/reward": 0.5},
    ]
    assert read_curves(tmp_path / "absent") == []


def test_what_is_being_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1.host"
    write_events(path, (1, "train/reward", 0.25), (2, "train/reward", 0.5))
    path.write_bytes(path.read_bytes()[:-9])
    assert read_curves(tmp_path) == [{"step": 1.0, "train/reward": 0.25}]


def test_what_is_no_number_is_no_metric(tmp_path: Path) -> None:
    write_events(tmp_path / "events.out.tfevents.1.host", (1, "a", float("nan")), (1, "b", 1.0))
    assert read_curves(tmp_path) == [{"step": 1.0, "b": 1.0}]
