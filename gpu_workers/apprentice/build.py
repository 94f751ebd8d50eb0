"""Making the committed model again, and measuring it."""

import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import torch

from gpu_workers.apprentice.attempts import measure_accuracy
from gpu_workers.apprentice.lessons import list_teachings
from gpu_workers.apprentice.teaching import TeachingRecipe, teach
from gpu_workers.base_making import save_halved, stage_directory, write_metrics
from gpu_workers.engine.engine import Engine
from gpu_workers.model_looking import look_at
from tentalis.kept_models import write_manifest

NAME: Final = "apprentice"
LICENCE: Final = "as Tentalis itself"
PANEL_SIZE, PANEL_SEED = 300, 7


def build_apprentice(out: Path, recipe: TeachingRecipe) -> dict[str, Any]:
    """Train, measure and write the model; `out` appears whole or not at all.

    Raises:
        FileExistsError: `out` is there already.
    """
    started = time.process_time()
    with stage_directory(out) as staging:
        model, tokenizer, loss = teach(recipe)
        metrics = {
            **save_halved(model, tokenizer, staging),
            "recipe": asdict(recipe),
            "lessons": {name: one.weight for name, one in list_teachings().items()},
            "final_loss_nats": round(loss, 4),
            "cpu_minutes": round((time.process_time() - started) / 60, 1),
            "panel": {"tasks": PANEL_SIZE, "seed": PANEL_SEED},
            "accuracy": measure_apprentice(staging),
        }
        write_metrics(staging, metrics)
        write_manifest(
            staging,
            source="made by python -m gpu_workers.apprentice build",
            source_sha256="",
            licence=LICENCE,
            template="its own",
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            facts=look_at(staging),
        )
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
