"""Our side of `tests.bench.oracle`: what the product's own run says of each batch, in a process of its own.

`python oracle_ours.py work.json` prints one JSON line. It is a process so that it may run over a changed copy of the
product: whatever is first on the path is asked.
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gpu_workers.backends.rollout_files import read_rollouts
from gpu_workers.runner import run
from tentalis.core.contracts import TrainSpec
from tentalis.core.learning.advantages import token_advantages
from tentalis.core.learning.recipes import Recipe


def measure(case: Mapping[str, Any]) -> dict[str, Any]:
    """The first update's numbers, and the advantage of each answer's first counted token."""
    spec = TrainSpec.from_json(case["spec"])
    recipe = Recipe.from_json(case["spec"]["recipe"])
    with tempfile.TemporaryDirectory() as directory:
        result = run(replace(spec, output_uri=Path(directory).as_uri()), lambda _: None)
    if not result.ok:
        raise SystemExit(f"{case['name']}: {result.error_type}: {result.error_message}")
    first = result.metrics[0]
    found: dict[str, Any] = {
        name: float(first[name]) for name in ("loss", "grad_norm", "kl_base", "entropy") if name in first
    }
    if case["kind"] != "policy":
        return {**found, "loss": float(first["loss_opd"]), "hinted": result.summary["rollouts_hinted"]}
    rollouts = read_rollouts(Path(spec.rollouts_uri.removeprefix("file://")), sha256=spec.rollouts_sha256)
    found["advantages"] = [
        next((value for value, counts in zip(values, rollout.sampled, strict=True) if counts), 0.0) if values else 0.0
        for values, rollout in zip(token_advantages(rollouts, recipe), rollouts, strict=True)
    ]
    return found


def main() -> None:
    torch.set_num_threads(1)
    work = json.loads(Path(sys.argv[1]).read_bytes())
    sys.stdout.write(json.dumps({case["name"]: measure(case) for case in work["cases"]}) + "\n")


if __name__ == "__main__":
    main()
