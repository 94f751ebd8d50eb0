"""Making the committed base model again, and measuring it."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpu_workers.base_making import save_halved, stage_directory, write_metrics
from gpu_workers.desk.attempts import measure_accuracy
from gpu_workers.desk.warm_start import WarmStartRecipe, train_base
from gpu_workers.engine.engine import BUILT_IN, Engine
from tentalis.core.desk import make_tickets, rule_book_hints

PANEL_SEED = 7
PANEL_SIZE = 300
_SAMPLING_SEED = 1


def build_base(out: Path, recipe: WarmStartRecipe) -> dict[str, Any]:
    """Train, measure and write the base model; `out` appears whole or not at all.

    Raises:
        FileExistsError: `out` is there already.
    """
    with stage_directory(out) as staging:
        model, tokenizer, loss = train_base(recipe)
        metrics = {
            **save_halved(model, tokenizer, staging),
            "recipe": asdict(recipe) | {"habits": list(recipe.habits)},
            "final_loss_nats": round(loss, 4),
            "panel": {"tickets": PANEL_SIZE, "seed": PANEL_SEED, "sampling_seed": _SAMPLING_SEED},
            "accuracy": measure_base(staging),
        }
        write_metrics(staging, metrics)
    return metrics


def measure_base(directory: Path) -> dict[str, float]:
    """Accuracy on held-out tickets: sampled at temperature 1 and greedy, without and with the rule book's hints."""
    engine = Engine(BUILT_IN, directory)
    tickets = make_tickets(PANEL_SEED, PANEL_SIZE, held_out=True)
    hints = [rule_book_hints(ticket) for ticket in tickets]
    return {
        "sampled": round(measure_accuracy(engine, tickets, seed=_SAMPLING_SEED), 4),
        "greedy": round(measure_accuracy(engine, tickets, seed=_SAMPLING_SEED, temperature=0.0), 4),
        "hinted_sampled": round(measure_accuracy(engine, tickets, seed=_SAMPLING_SEED, hints=hints), 4),
        "hinted_greedy": round(measure_accuracy(engine, tickets, seed=_SAMPLING_SEED, temperature=0.0, hints=hints), 4),
    }
