"""`python -m gpu_workers.desk build --out DIR` makes the base model again; `measure` measures one."""

import argparse
import json
import sys
from pathlib import Path

from gpu_workers.desk import base_directory
from gpu_workers.desk.build import build_base, measure_base
from gpu_workers.desk.warm_start import WarmStartRecipe
from gpu_workers.engine.errors import ModelUnreadableError
from gpu_workers.process import prepare_process


def main(arguments: list[str] | None = None) -> int:
    """Run one command; its last line of output is a JSON object."""
    parser = argparse.ArgumentParser(prog="python -m gpu_workers.desk")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="train tokenizer and model from nothing (minutes on one core)")
    build.add_argument("--out", type=Path, required=True)
    build.add_argument("--updates", type=int, default=WarmStartRecipe().updates)
    build.add_argument("--seed", type=int, default=WarmStartRecipe().seed)
    measure = commands.add_parser("measure", help="accuracy on the held-out panel")
    measure.add_argument("--base", type=Path, default=base_directory())
    options = parser.parse_args(arguments)
    prepare_process()
    try:
        if options.command == "build":
            report = build_base(options.out, WarmStartRecipe(updates=options.updates, seed=options.seed))
        else:
            report = measure_base(options.base)
    except (OSError, ModelUnreadableError) as error:
        sys.stderr.write(f"desk: {error}\n")
        return 1
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
