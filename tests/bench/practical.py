"""`make bench BENCH=practical`: seven experiments on the real stack, one of them by `ARGS=N`.

1 the whole loop, 2 a judge against known quality, 3 convergence of GRPO, 4 scaling of queue processes, 5 hot swaps
under load, 6 the older routes under load, 7 backends beside each other. Each prints a table and a JSON line; exit 1
where one misses a bar of its own.

Without a model server they need no network: the judge of 2 is a script that reads code by rules that it says, and 7
asks our engine, and then what stands for other servers with the engine's recorded answers in their dialects.
`--judge` and `--backend` name real ones.
"""

import argparse
import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import httpx
from django.conf import settings
from rich.console import Console

from tentalis.client.errors import ClientError
from tests.bench.experiments.ground import Findings, Ground, ModelServer
from tests.bench.own_work import LoopOpenError

NAMES = {
    1: "whole_loop", 2: "code_judge", 3: "convergence", 4: "scaling", 5: "swapping", 6: "older_routes", 7: "backends",
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, metavar="N", help="1 to 7; none: all")
    parser.add_argument("--small", action="store_true", help="to see that they run: its bars count for nothing")
    parser.add_argument("--judge", nargs=2, metavar=("URL", "MODEL"), help="an OpenAI-compatible server, up to /v1")
    parser.add_argument(
        "--backend", nargs=3, action="append", default=[], metavar=("KIND", "URL", "MODEL"),
        help="for 7, e.g. vllm http://127.0.0.1:8000/v1 NAME, or ollama http://127.0.0.1:11434/v1 NAME",
    )  # fmt: skip
    parser.add_argument("--benchmark", default="desk/order", help="that 7 asks")
    options = parser.parse_args(argv)
    if unknown := sorted(set(options.numbers) - set(NAMES)):
        parser.error(f"wanted experiments 1 to {len(NAMES)}, found {', '.join(map(str, unknown))}")
    settings.configure(SANDBOXES=None)
    judge = ModelServer("custom", *options.judge) if options.judge else None
    backends = [ModelServer(*one) for one in options.backend]
    console, missed = Console(width=150), 0
    with Ground(options.small, judge, backends, options.benchmark) as ground:
        for number in options.numbers or sorted(NAMES):
            module = importlib.import_module(f"tests.bench.experiments.{NAMES[number]}")
            missed += not run_one(number, module, ground, console)
    return 1 if missed else 0


def run_one(number: int, module: ModuleType, ground: Ground, console: Console) -> bool:
    """Whether it came to its end, and met its bars where it was not a small one."""
    told: dict[str, Any]
    began, cpu_before = time.monotonic(), read_own_cpu_s()
    try:
        found: Findings = module.run(ground)
    except (LoopOpenError, ClientError, httpx.HTTPError) as error:  # the others can still be run
        told = {
            "bench": "practical",
            "experiment": number,
            "name": NAMES[number],
            "failed": f"{type(error).__name__}: {error}"[:2_000],
        }
        console.print(json.dumps(told), soft_wrap=True, markup=False, highlight=False)
        return False
    told = {
        "bench": "practical", "experiment": number, "name": NAMES[number], "is_small": ground.is_small,
        "wall_s": round(time.monotonic() - began, 1), "driver_cpu_s": round(read_own_cpu_s() - cpu_before, 1),
        "load": round(os.getloadavg()[0], 1), **found.figures,
        "bars": {name: bar._asdict() for name, bar in found.bars.items()},
    }  # fmt: skip
    console.print(found.table)
    for words in found.words:
        console.print(words, markup=False, highlight=False)
    for name, bar in found.bars.items():
        mark = "holds" if bar.met else "MISSED"
        console.print(f"{mark}: {name}: {bar.found} (wanted {bar.wanted})", markup=False, highlight=False)
    console.print(json.dumps(told), soft_wrap=True, markup=False, highlight=False)
    return ground.is_small or all(bar.met for bar in found.bars.values())


def read_own_cpu_s() -> float:
    """Of this process and of the children that it has waited for; the stack is none of them until it ends."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    sys.exit(main())
