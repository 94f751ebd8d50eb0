"""`python -m gpu_workers.apprentice build --out DIR` makes the model again; `measure` measures one."""

import logging
import sys

from gpu_workers.apprentice import base_directory
from gpu_workers.apprentice.build import build_apprentice, measure_apprentice
from gpu_workers.apprentice.teaching import TeachingRecipe
from gpu_workers.base_making import run_commands


def main(arguments: list[str] | None = None) -> int:
    """Run one command; its last line of output is a JSON object."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    return run_commands(
        "apprentice",
        arguments,
        takes="under an hour",
        measures="held-out tasks",
        updates=TeachingRecipe().updates,
        seed=TeachingRecipe().seed,
        base=base_directory(),
        build=lambda out, updates, seed: build_apprentice(out, TeachingRecipe(updates=updates, seed=seed)),
        measure=measure_apprentice,
    )


if __name__ == "__main__":
    sys.exit(main())
