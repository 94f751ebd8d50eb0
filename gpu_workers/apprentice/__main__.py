"""`python -m gpu_workers.apprentice build --out DIR` makes the model again; `measure` measures one."""

import argparse
import json
import logging
import sys
from pathlib import Path

from gpu_workers.apprentice import base_directory
from gpu_workers.apprentice.build import build_apprentice, measure_apprentice
from gpu_workers.apprentice.teaching import TeachingRecipe
from gpu_workers.engine.errors import ModelUnreadableError
from gpu_workers.process import prepare_process


def main(arguments: list[str] | None = None) -> int:
    """Run one command; its last line of output is a JSON object."""
    parser = argparse.ArgumentParser(prog="python -m gpu_workers.apprentice")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="train tokenizer and model from nothing (under an hour on one core)")
    build.add_argument("--out", type=Path, required=True)
    build.add_argument("--updates", type=int, default=TeachingRecipe().updates)
    build.add_argument("--seed", type=int, default=TeachingRecipe().seed)
    measure = commands.add_parser("measure", help="accuracy on held-out tasks")
    measure.add_argument("--base", type=Path, default=base_directory())
    options = parser.parse_args(arguments)
    prepare_process()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        if options.command == "build":
            report = build_apprentice(options.out, TeachingRecipe(updates=options.updates, seed=options.seed))
        else:
            report = measure_apprentice(options.base)
    except (OSError, ModelUnreadableError) as error:
        sys.stderr.write(f"apprentice: {error}\n")
        return 1
    sys.stdout.write(json.dumps(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
