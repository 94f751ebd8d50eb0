"""LoRA adapters of the desk model as a trainer writes them, made without torch: a seed gives the same tensors."""

import hashlib
import json
import random
import struct
from array import array
from pathlib import Path
from typing import Any

from apps.adapters.models import Adapter
from apps.workers.models import Worker
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import AdapterManifest

LAYERS = 2
SHAPES = {
    "self_attn.q_proj": (64, 64),
    "self_attn.k_proj": (32, 64),
    "self_attn.v_proj": (32, 64),
    "self_attn.o_proj": (64, 64),
    "mlp.gate_proj": (192, 64),
    "mlp.up_proj": (192, 64),
    "mlp.down_proj": (64, 192),
}
"""(out, in) of each module of a layer."""
MODULES = [name.partition(".")[2] for name in SHAPES]


def write_adapter(directory: Path, seed: int, *, rank: int = 8, rename: str = "", **config: Any) -> Path:
    """Write one in PEFT's layout.

    Args:
        rename: what q_proj is called in it, in the config and in the tensors; "" for its name.
        config: further fields of adapter_config.json.
    """
    directory.mkdir(parents=True)
    names = {name: name.replace("q_proj", rename) if rename else name for name in SHAPES}
    values, header, data = random.Random(seed), {}, b""
    for layer in range(LAYERS):
        for module, (rows, columns) in SHAPES.items():
            prefix = f"base_model.model.model.layers.{layer}.{names[module]}"
            for half, shape in (("lora_A", (rank, columns)), ("lora_B", (rows, rank))):
                numbers = array("f", [values.gauss(0.0, 0.1) for _ in range(shape[0] * shape[1])]).tobytes()
                place = [len(data), len(data) + len(numbers)]
                header[f"{prefix}.{half}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": place}
                data += numbers
    spelled = json.dumps(header).encode()
    spelled += b" " * (-len(spelled) % 8)
    (directory / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(spelled)) + spelled + data)
    fields = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": [name.partition(".")[2] for name in names.values()],
        "base_model_name_or_path": "desk",
    }
    (directory / "adapter_config.json").write_text(json.dumps(fields | config))
    return directory


def write_manifest(directory: Path, *, rank: int = 8, base_sha256: str = "") -> str:
    """Write the manifest of what lies there; its hash."""
    files = {
        path.name: {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size_bytes": path.stat().st_size}
        for path in sorted(directory.iterdir())
        if path.name != "manifest.json"
    }
    manifest = AdapterManifest(
        worker="helper",
        base_model="desk",
        base_sha256=base_sha256,
        parent_sha256="",
        run_id=1,
        attempt=1,
        recipe_hash="0" * 64,
        rollouts_sha256="0" * 64,
        rank=rank,
        alpha=2.0 * rank,
        target_modules=MODULES,
        files=files,
        versions={},
    )
    content = canonical_json(manifest.to_json())
    (directory / "manifest.json").write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def make_served(
    worker: Worker, version: int, store: Path, state: str = Adapter.State.VERIFIED, **config: Any
) -> Adapter:
    """An adapter's row with its directory in the artifact store; `config` as for `write_adapter`."""
    directory = write_adapter(store / f"v{version}-{worker.pk}", version, **config)
    sha256 = write_manifest(directory)
    return Adapter.objects.create(
        project=worker.project,
        worker=worker,
        name=f"{worker.project.slug}.{worker.name}@v{version}-{sha256[:8]}",
        version=version,
        line_version=version,
        uri=directory.resolve().as_uri(),
        sha256=sha256,
        manifest={},
        state=state,
        parent=Adapter.objects.filter(worker=worker, version=version - 1).first(),
    )
