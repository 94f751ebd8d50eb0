"""`python -m gpu_workers.desk build --out DIR` makes the base model again; `measure` measures one."""

import sys

from gpu_workers.base_making import run_commands
from gpu_workers.desk import base_directory
from gpu_workers.desk.build import build_base, measure_base
from gpu_workers.desk.warm_start import WarmStartRecipe


def main(arguments: list[str] | None = None) -> int:
    """Run one command; its last line of output is a JSON object."""
    return run_commands(
        "desk",
        arguments,
        takes="minutes",
        measures="the held-out panel",
        updates=WarmStartRecipe().updates,
        seed=WarmStartRecipe().seed,
        base=base_directory(),
        build=lambda out, updates, seed: build_base(out, WarmStartRecipe(updates=updates, seed=seed)),
        measure=measure_base,
    )


if __name__ == "__main__":
    sys.exit(main())
