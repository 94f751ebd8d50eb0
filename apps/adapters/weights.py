"""Reading an adapter's tensors without torch: the safetensors header, and each tensor's norm and zeros."""

import json
import math
import struct
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from apps.adapters.errors import AdapterBrokenError
from tentalis.core.learning.quarantine_checks import TensorFacts, WeightFacts

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
MOST_HEADER_BYTES = 1 << 24
_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


def read_weights(directory: Path) -> WeightFacts:
    """What is in an adapter's tensors.

    Raises:
        AdapterBrokenError: the files cannot be read, are cut short, or are of a kind no adapter is written in.
    """
    try:
        config = json.loads((directory / CONFIG).read_bytes())
        scale = float(config["lora_alpha"]) / float(config["r"])
        with (directory / WEIGHTS).open("rb") as file:
            header = _read_header(file)
            start, tensors = file.tell(), {}
            for name, entry in header.items():
                first, last = entry["data_offsets"]
                file.seek(start + first)
                tensors[name] = _measure(name, entry, file.read(last - first), last - first)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error, ZeroDivisionError) as error:
        raise AdapterBrokenError(f"the adapter's tensors cannot be read: {type(error).__name__} {error}") from error
    return WeightFacts(tensors=tensors, scale=scale)


def read_header(path: Path) -> dict[str, Any]:
    """What a safetensors file says is in it: tensor -> {"dtype", "shape", "data_offsets"}.

    Raises:
        AdapterBrokenError: it is none.
    """
    try:
        with path.open("rb") as file:
            return _read_header(file)
    except (OSError, ValueError, AttributeError, struct.error) as error:
        raise AdapterBrokenError(f"the adapter's tensors cannot be read: {type(error).__name__} {error}") from error


def _read_header(file: IO[bytes]) -> dict[str, Any]:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > MOST_HEADER_BYTES:
        raise AdapterBrokenError(f"{WEIGHTS}: its header says it has {length} bytes")
    return {name: entry for name, entry in json.loads(file.read(length)).items() if name != "__metadata__"}


def _measure(name: str, entry: dict[str, Any], data: bytes, size_bytes: int) -> TensorFacts:
    kind, shape = entry["dtype"], tuple(int(size) for size in entry["shape"])
    if kind not in _SIZES:
        raise AdapterBrokenError(f"{WEIGHTS}: {name} is of kind {kind}, wanted one of {', '.join(_SIZES)}")
    count = math.prod(shape)
    if len(data) != size_bytes or size_bytes != count * _SIZES[kind]:
        raise AdapterBrokenError(f"{WEIGHTS}: {name} should have {count * _SIZES[kind]} bytes, found {len(data)}")
    values = _read_numbers(kind, data)
    norm = float(np.sqrt(values @ values))
    zeros = float(np.mean(values == 0.0)) if count else 0.0
    return TensorFacts(shape=shape, norm=norm, zeros=zeros, is_finite=math.isfinite(norm))


def _read_numbers(kind: str, data: bytes) -> NDArray[np.float64]:
    if kind == "BF16":  # the upper half of a float32; numpy has no such type
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").astype(np.float64)
    return np.frombuffer(data, f"<f{_SIZES[kind]}").astype(np.float64)
