"""Tensors are read as safetensors writes them, and what is cut short is told."""

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest

from apps.adapters.errors import AdapterBrokenError
from apps.adapters.weights import read_weights

NAME = "base_model.model.layers.0.q_proj.lora_B.weight"


def write(directory: Path, kind: str, data: bytes, shape: list[int], **changes: Any) -> Path:
    header = json.dumps({"__metadata__": {}, NAME: {"dtype": kind, "shape": shape, "data_offsets": [0, len(data)]}})
    content = struct.pack("<Q", len(header)) + header.encode() + data
    (directory / "adapter_model.safetensors").write_bytes(content)
    (directory / "adapter_config.json").write_text(json.dumps({"r": 8, "lora_alpha": 16} | changes))
    return directory


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("F32", struct.pack("<4f", 3, 0, 4, 0)),
        ("F64", struct.pack("<4d", 3, 0, 4, 0)),
        ("F16", struct.pack("<4e", 3, 0, 4, 0)),
        ("BF16", struct.pack("<4H", 0x4040, 0, 0x4080, 0)),
    ],
)
def test_every_kind_of_number_is_read(tmp_path: Path, kind: str, data: bytes) -> None:
    found = read_weights(write(tmp_path, kind, data, [2, 2]))
    assert (found.scale, found.tensors[NAME].shape) == (2.0, (2, 2))
    assert (found.tensors[NAME].norm, found.tensors[NAME].zeros) == (5.0, 0.5)


def test_infinite_numbers_are_told(tmp_path: Path) -> None:
    data = struct.pack("<2f", math.inf, 1.0)
    assert not read_weights(write(tmp_path, "F32", data, [2])).tensors[NAME].is_finite


@pytest.mark.parametrize(
    ("kind", "shape", "words"),
    [("F32", [3, 2], "should have 24 bytes, found 16"), ("I8", [16], "is of kind I8")],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, kind: str, shape: list[int], words: str) -> None:
    with pytest.raises(AdapterBrokenError, match=words):
        read_weights(write(tmp_path, kind, bytes(16), shape))


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AdapterBrokenError, match="cannot be read"):
        read_weights(tmp_path)
    write(tmp_path, "F32", bytes(16), [4], r=0)
    with pytest.raises(AdapterBrokenError, match="ZeroDivisionError"):
        read_weights(tmp_path)
