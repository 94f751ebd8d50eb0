"""Making the committed model again, and measuring it."""

import json
import os
import shutil
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import torch

from gpu_workers.apprentice.attempts import measure_accuracy
from gpu_workers.apprentice.lessons import list_teachings
from gpu_workers.apprentice.teaching import TeachingRecipe, teach
from gpu_workers.engine.engine import Engine
from gpu_workers.model_looking import look_at
from tentalis.kept_models import write_manifest

NAME: Final = "apprentice"
METRICS_FILE: Final = "metrics.json"
LICENCE: Final = "as Tentalis itself"
PANEL_SIZE, PANEL_SEED = 300, 7


def build_apprentice(out: Path, recipe: TeachingRecipe) -> dict[str, Any]:
    """Train, measure and write the model; `out` appears whole or not at all.

    Raises:
        FileExistsError: `out` is there already.
    """
    if out.exists():
        raise FileExistsError(f"{out} exists already; name a new directory")
    out.parent.mkdir(parents=True, exist_ok=True)
    staging, started = out.with_name(f"{out.name}.staging-{os.getpid()}"), time.process_time()
    try:
        model, tokenizer, loss = teach(recipe)
        model.half()  # type: ignore[no-untyped-call]
        model.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
        metrics = {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "vocabulary_size": len(tokenizer),
            "recipe": asdict(recipe),
            "lessons": {name: one.weight for name, one in list_teachings().items()},
            "final_loss_nats": round(loss, 4),
            "cpu_minutes": round((time.process_time() - started) / 60, 1),
            "panel": {"tasks": PANEL_SIZE, "seed": PANEL_SEED},
            "accuracy": measure_apprentice(staging),
        }
        (staging / METRICS_FILE).write_text(json.dumps(metrics, indent=2) + "\n", "utf-8")
        write_manifest(
            staging,
            source="made by python -m gpu_workers.apprentice build",
            source_sha256="",
            licence=LICENCE,
            template="its own",
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            facts=look_at(staging),
        )
        for file in staging.iterdir():
            file.chmod(0o644)
        staging.rename(out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return metrics


def measure_apprentice(directory: Path) -> dict[str, dict[str, float]]:
    """World -> accuracy on held-out tasks: sampled at temperature 1 and greedy, without and with the rule book's hints.

    Worlds are played as their lessons pretend them; the real ones say how it is there.
    """
    torch.set_num_threads(1)
    engine = Engine(NAME, directory)
    return {
        world: {
            f"{'hinted_' if is_hinted else ''}{name}": round(
                measure_accuracy(
                    engine, teaching, size=PANEL_SIZE, seed=PANEL_SEED, temperature=temperature, is_hinted=is_hinted
                ),
                4,
            )
            for is_hinted in (False, True)
            for name, temperature in (("sampled", 1.0), ("greedy", 0.0))
        }
        for world, teaching in list_teachings().items()
        if teaching.draw_rehearsal is not None
    }
