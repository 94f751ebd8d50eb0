"""`python -m tests.bench.colluders`: are reviewers found who agreed to favour a worker, and is nobody else named?

Projects are drawn by `tests.core.scoring.reviewer_worlds` and put through the product's own screen: of 10, 20 and 40
reviewers a fifth approves all that one worker does, or nobody does, or two are careful among careless ones. The bars
are the mean share of colluders found, the share of projects in which anybody honest is named, and what the loudest
voice weighs in a batch under the recipe's cap, of which one reviewer judged six tasks in ten. Nothing is timed.
"""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from tentalis.core.learning.voices import cap_voices, share_voices
from tentalis.core.scoring.favour import screen
from tests.core.scoring.reviewer_worlds import Plan, draw_world

FOUND_BAR, FALSE_BAR = 0.9, 0.05
BATCH_TASKS, LOUD, CAP = 64, 0.6, 0.2


@dataclass(frozen=True)
class Row:
    """A kind of project: how its reviewers were drawn; without `counts` it is told and has no bar."""

    plan: Plan
    reviewers: int
    each: int
    counts: bool = True


ROWS = (
    *(Row("favour", reviewers, 200) for reviewers in (10, 20, 40)),
    *(Row("none", reviewers, 300) for reviewers in (10, 20, 40)),
    *(Row("careful", reviewers, 300) for reviewers in (10, 20, 40)),
    *(Row("favour", reviewers, 60, counts=False) for reviewers in (10, 20, 40)),
)


@dataclass(frozen=True)
class Outcome:
    """What the screen said of one project."""

    colluders: int
    found: int
    honest: int
    accused: int
    cleared: int


def judge_world(row: Row, seed: int) -> Outcome:
    world = draw_world(plan=row.plan, reviewers=row.reviewers, each=row.each, seed=seed)
    groups = screen(world.words, known=world.known).groups
    named = {rater for group in groups if not group.is_cleared for rater in group.raters}
    return Outcome(
        colluders=len(world.colluders),
        found=len(named & world.colluders),
        honest=row.reviewers - len(world.colluders),
        accused=len(named - world.colluders),
        cleared=sum(group.is_cleared for group in groups),
    )


def add_up(row: Row, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    colluders, honest = sum(one.colluders for one in outcomes), sum(one.honest for one in outcomes)
    return {
        **asdict(row),
        "worlds": len(outcomes),
        "found": round(sum(one.found for one in outcomes) / colluders, 4) if colluders else None,
        "accused": round(sum(one.accused for one in outcomes) / honest, 5),
        "worlds_accused": round(sum(one.accused > 0 for one in outcomes) / len(outcomes), 4),
        "cleared": sum(one.cleared for one in outcomes),
    }


def weigh_loudest(reviewers: int, seed: int, *, cap: float) -> float:
    """Share of a batch's weight that its loudest reviewer has."""
    rng = random.Random(seed)
    names = [f"user:r{one:02}" for one in range(reviewers)]
    parts = [
        {names[0] if rng.random() < LOUD else rng.choice(names): rng.uniform(0.5, 1.0)} for _ in range(BATCH_TASKS)
    ]
    factors = cap_voices(parts, most_share=cap, fixed=frozenset())
    held = [{name: weight * by for name, weight in part.items()} for part, by in zip(parts, factors, strict=True)]
    return max(share_voices(held).values())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(argv)
    seeds = range(options.seed, options.seed + options.worlds)
    rows = []
    with ProcessPoolExecutor(options.processes) as pool:
        for row in ROWS:
            rows.append(add_up(row, list(pool.map(partial(judge_world, row), seeds, chunksize=5))))
            print(rows[-1], file=sys.stderr, flush=True)
    loudest = {
        f"cap {cap}": max(weigh_loudest(reviewers, seed, cap=cap) for reviewers in (10, 20, 40) for seed in seeds)
        for cap in (1.0, CAP)
    }
    bars = {
        "found": min(row["found"] for row in rows if row["counts"] and row["found"] is not None),
        "false alarms": max(row["worlds_accused"] for row in rows),
    }
    print_table(rows)
    told = {
        "found": {"found": bars["found"], "wanted": FOUND_BAR, "met": bars["found"] >= FOUND_BAR},
        "false alarms": {"found": bars["false alarms"], "wanted": FALSE_BAR, "met": bars["false alarms"] <= FALSE_BAR},
        "loudest voice": {
            "found": round(loudest[f"cap {CAP}"], 4),
            "wanted": CAP,
            "met": loudest[f"cap {CAP}"] <= CAP * 1.002,
        },
    }
    print(json.dumps({"bench": "colluders", "rows": rows, "loudest": loudest, "ratios": {}, "bars": told}))
    return 0 if all(bar["met"] for bar in told.values()) else 1


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    table = Table(title="Reviewers who agreed to favour a worker")
    for name in rows[0]:
        table.add_column(name.replace("_", " "), justify="left" if name == "plan" else "right")
    for row in rows:
        table.add_row(*("-" if value is None else str(value) for value in row.values()))
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
