"""`python -m tests.bench.before COMMIT`: this commit beside an older one, in one run.

The older commit is cloned and installed under .cache/bench. Each bench runs in both, turn about (old new, new old, …),
so that a machine whose speed drifts favours neither. Every figure is a cost, the less the better; its ratio is the
median over the rounds of new by old of the same round. A bar of 1.05 each; exits 1 where one is missed.
"""

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

CACHE = Path(".cache/bench/before")
BAR = 1.05
Costs = dict[str, float]


@dataclass(frozen=True)
class Bench:
    """One thing that is run in both.

    Args:
        argv: run in the checkout; read: the costs in what it printed last, if that is JSON.
        judged: the figures that have a bar; the others are shown.
    """

    argv: list[str]
    read: Callable[[Mapping[str, Any]], Costs]
    judged: tuple[str, ...]


def read_pipeline(result: Mapping[str, Any]) -> Costs:
    empty, crowded = result["rows"]
    return {
        "added ms an attempt": empty["added_ms"],
        "CPU ms an attempt": empty["cpu_ms"],
        "CPU ms, with a history": crowded["cpu_ms"],
    }


def read_gateway(result: Mapping[str, Any]) -> Costs:
    """The geometric mean over the loads, so that each counts as much."""
    rows = [row for row in result["rows"] if row["server"] == "tentalis"]
    return {
        "seconds a request": math.exp(statistics.fmean(-math.log(row["per_s"]) for row in rows)),
        "CPU ms a request": math.exp(statistics.fmean(math.log(row["cpu_ms"]) for row in rows)),
    }


def read_faults(result: Mapping[str, Any]) -> Costs:
    ours = result["rows"][0]
    return {"to the end of the backlog, s": ours["settled_s"], "lost": float(ours["lost"])}


def read_demo(result: Mapping[str, Any]) -> Costs:
    return {"loop, s an update": result["loop_s"] / result["updates"]}


BENCHES = {
    "demo": Bench([".venv/bin/tentalis", "demo", "--seed", "0"], read_demo, ("CPU s", "wall s", "loop, s an update")),
    "pipeline": Bench(
        [".venv/bin/python", "-m", "tests.bench.pipeline", "--updates", "4", "--history", "20000"],
        read_pipeline,
        ("added ms an attempt", "CPU ms an attempt"),
    ),
    "gateway": Bench(
        [".venv/bin/python", "-m", "tests.bench.gateway", "--only", "tentalis", "--exchanges", "0", "--most-s", "4"],
        read_gateway,
        ("seconds a request", "CPU ms a request"),
    ),
    "faults": Bench(
        [".venv/bin/python", "-m", "tests.bench.faults", "--tasks", "400", "--mean-gap-s", "1.5", "--skip-control"],
        read_faults,
        ("CPU s",),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="the older one")
    parser.add_argument("--only", default=",".join(BENCHES), help=f"of {', '.join(BENCHES)}, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=3, help="of the demo")
    options = parser.parse_args()
    BENCHES["demo"].argv.extend(("--updates", str(options.updates)))
    console = Console(width=110)
    checkouts = {"old": install(options.commit), "new": Path.cwd()}
    costs: dict[str, list[dict[str, Costs]]] = {name: [] for name in options.only.split(",")}
    for number in range(options.rounds):
        for name, rounds in costs.items():
            turns = ("old", "new") if number % 2 == 0 else ("new", "old")
            rounds.append({which: run(BENCHES[name], checkouts[which]) for which in turns})
            console.print(f"{name}, round {number + 1}: {rounds[-1]}", highlight=False, soft_wrap=True)
    missed = print_table(console, options.commit, costs)
    console.print(json.dumps({"bench": "before", "commit": options.commit, "rounds": costs}), soft_wrap=True)
    return 1 if missed else 0


def install(commit: str) -> Path:
    """A checkout of a commit with an environment of its own."""
    sha = subprocess.run(["git", "rev-parse", commit], capture_output=True, text=True, check=True).stdout.strip()
    checkout = CACHE / sha[:12]
    if not checkout.exists():
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", ".", str(checkout)], check=True)
        subprocess.run(["git", "checkout", "-q", sha], cwd=checkout, check=True)
    subprocess.run(["make", "-s", "install"], cwd=checkout, check=True, stdout=subprocess.DEVNULL)
    return checkout.resolve()


def run(bench: Bench, checkout: Path) -> Costs:
    """Run one bench in one checkout.

    A bench's own exit 1 (a bar of its own missed) is no failure here; one without a result is.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tentalis-before-") as home:
        done = subprocess.run(
            ["env", f"TENTALIS_HOME={home}/home", *bench.argv],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
        )
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"')]
    if done.returncode not in (0, 1) or (done.returncode == 1 and not lines):
        raise RuntimeError(f"{' '.join(bench.argv)} in {checkout}: exit {done.returncode}\n{done.stderr[-2000:]}")
    cpu_s = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return {"wall s": round(wall_s, 2), "CPU s": round(cpu_s, 2)} | bench.read(json.loads(lines[-1]) if lines else {})


def print_table(console: Console, commit: str, costs: Mapping[str, Sequence[Mapping[str, Costs]]]) -> list[str]:
    table = Table(title=f"Now beside {commit}: what the same costs")
    for column in ("", "", "before", "now", "ratio", "least", "most", "bar"):
        table.add_column(column, justify="right" if column else "left")
    missed = []
    for name, rounds in costs.items():
        for figure in rounds[0]["new"]:
            old = [each["old"][figure] for each in rounds]
            new = [each["new"][figure] for each in rounds]
            ratios = [now / was for now, was in zip(new, old, strict=True) if was]
            ratio = statistics.median(ratios) if ratios else math.nan
            is_judged = figure in BENCHES[name].judged
            if is_judged and not ratio <= BAR:
                missed.append(f"{name}: {figure}")
            table.add_row(
                name,
                figure,
                f"{statistics.median(old):.4g}",
                f"{statistics.median(new):.4g}",
                *(f"{value:.3f}" for value in (ratio, min(ratios, default=math.nan), max(ratios, default=math.nan))),
                f"{BAR:g}" if is_judged else "-",
            )
    console.print(table)
    for words in missed:
        console.print(f"missed: {words}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
