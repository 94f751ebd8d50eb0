"""`make bench BENCH=statistics`: whether figures of runs are what they say, over simulated runs whose truth is known.

Intervals of accuracy (one try of each item, and several) and of graded means must hold the truth in 94 to 96 % of the
runs, a paired comparison of equals must find a difference in 4 to 6 % (at most where items weigh unequally), one of the
stated minimum detectable effect in 77 to 83 %, and pass@k and pass^k must be their closed forms.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tentalis.core.learning.gate import compare_paired, minimum_detectable_effect
from tentalis.core.learning.several_questions import adjust_holm, find_p_value
from tentalis.core.scoring.run_figures import ItemKind, find_accuracy, find_mean, list_passes

RUNS, ITEMS, TRIES = 2_000, 200, 4
CONFIDENCE = 0.95
COVERS, FALSE, DETECTS, CLOSED = (0.94, 0.96), (0.04, 0.06), (0.77, 0.83), 1e-12
Kinds = list[ItemKind]


def make_kinds(scored: Sequence[Sequence[float]]) -> Kinds:
    """Items as the database sums them up: those that came out alike together."""
    counted = Counter((len(one), sum(value >= 1.0 for value in one), round(sum(one), 4)) for one in scored)
    return [ItemKind(count, 1.0, tries, tries, right, total) for (tries, right, total), count in counted.items()]


def simulate_single(rng: np.random.Generator) -> tuple[Kinds, float]:
    """Of each item one try."""
    truth = rng.uniform(0.05, 0.95)
    right = int(rng.binomial(ITEMS, truth))
    return [
        one for one in (ItemKind(right, 1, 1, 1, 1, 1.0), ItemKind(ITEMS - right, 1, 1, 1, 0, 0.0)) if one[0]
    ], truth


def simulate_clustered(rng: np.random.Generator) -> tuple[Kinds, float]:
    """Items of very different difficulty, some tries of each."""
    a, b = rng.uniform(0.4, 2.0, 2)
    right = rng.binomial(TRIES, rng.beta(a, b, ITEMS))
    return make_kinds([[1.0] * one + [0.0] * (TRIES - one) for one in right]), float(a / (a + b))


def simulate_graded(rng: np.random.Generator) -> tuple[Kinds, float]:
    """Outcomes between 0 and 1."""
    a, b = rng.uniform(0.5, 3.0, 2)
    return make_kinds([[float(one)] for one in np.round(rng.beta(a, b, ITEMS), 4)]), float(a / (a + b))


def measure_coverage(simulate: Any, find: Callable[[Kinds], Any], *, runs: int, seed: int) -> tuple[float, float]:
    """Share of runs whose interval holds the truth, and the mean width."""
    rng, held, width = np.random.default_rng(seed), 0, 0.0
    for _ in range(runs):
        kinds, truth = simulate(rng)
        found = find(kinds)
        held += found.low <= truth <= found.high
        width += found.high - found.low
    return held / runs, width / runs


def measure_comparisons(*, runs: int, seed: int, effect: float = 0.0) -> tuple[float, float]:
    """Share of paired comparisons that show a difference, and the mean of the smallest effects that they name.

    Args:
        effect: the true difference, in units of the smallest that a run names.
    """
    rng, shown, named = np.random.default_rng(seed), 0, 0.0
    for _ in range(runs):
        difficulty = rng.beta(1.5, 1.5, ITEMS) * 0.8 + 0.1
        shift = 0.0
        if effect:
            mine, theirs = (rng.random(ITEMS) < difficulty for _ in range(2))
            std = compare_paired(mine.astype(float).tolist(), theirs.astype(float).tolist(), confidence=CONFIDENCE).std
            shift = effect * minimum_detectable_effect(items=ITEMS, std=std, confidence=CONFIDENCE)
        # moved within bounds: the truth of an item is a probability, and the mean shift is what was wanted
        mine = rng.random(ITEMS) < difficulty + shift / 2
        theirs = rng.random(ITEMS) < difficulty - shift / 2
        found = compare_paired(mine.astype(float).tolist(), theirs.astype(float).tolist(), confidence=CONFIDENCE)
        shown += find_p_value(found) < 1 - CONFIDENCE
        named += minimum_detectable_effect(items=ITEMS, std=found.std, confidence=CONFIDENCE)
    return shown / runs, named / runs


def measure_heavy(*, runs: int, seed: int, items: int = 20) -> float:
    """Share of paired comparisons of equals that show a difference, where one item has half of the weight."""
    rng, shown = np.random.default_rng(seed), 0
    weights = [items - 1.0, *[1.0] * (items - 1)]
    for _ in range(runs):
        mine, theirs = rng.beta(2, 2, (2, items)).tolist()
        shown += find_p_value(compare_paired(mine, theirs, weights, confidence=CONFIDENCE)) < 1 - CONFIDENCE
    return shown / runs


def measure_families(*, runs: int, seed: int, questions: int = 5) -> float:
    """Share of families of comparisons of equals in which any shows a difference, corrected together."""
    rng, wrong = np.random.default_rng(seed), 0
    for _ in range(runs):
        difficulty = rng.beta(1.5, 1.5, ITEMS)
        sides = [(rng.random((2, ITEMS)) < difficulty).astype(float) for _ in range(questions)]
        found = [compare_paired(mine.tolist(), theirs.tolist(), confidence=CONFIDENCE) for mine, theirs in sides]
        wrong += min(adjust_holm([find_p_value(one) for one in found])) < 1 - CONFIDENCE
    return wrong / runs


def find_pass_error(*, seed: int) -> float:
    """The largest difference to the closed forms, in exact numbers, over random runs."""
    rng, worst = np.random.default_rng(seed), 0.0
    for _ in range(20):
        tries = int(rng.integers(1, 17))
        right = rng.binomial(tries, rng.beta(1, 1, 50))
        for one in list_passes(make_kinds([[1.0] * r + [0.0] * (tries - r) for r in right])):
            some = sum(1 - Fraction(comb(tries - int(r), one.k), comb(tries, one.k)) for r in right) / len(right)
            every = sum(Fraction(comb(int(r), one.k), comb(tries, one.k)) for r in right) / Fraction(len(right))
            worst = max(worst, abs(one.any - float(some)), abs(one.all - float(every)))
    return worst


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    runs, seed, began = options.runs, options.seed, time.process_time()
    found: dict[str, tuple[float, tuple[float, float]]] = {}
    for name, simulate, find in (
        ("accuracy, one try: interval holds the truth", simulate_single, find_accuracy),
        (f"accuracy, {TRIES} tries: interval holds the truth", simulate_clustered, find_accuracy),
        ("graded mean: interval holds the truth", simulate_graded, find_mean),
    ):
        found[name] = measure_coverage(simulate, find, runs=runs, seed=seed)[0], COVERS
    found["paired comparison of equals shows a difference"] = measure_comparisons(runs=runs, seed=seed)[0], FALSE
    found["the same, one of 20 items with half of the weight"] = measure_heavy(runs=runs, seed=seed), (0.0, FALSE[1])
    found["the stated minimum detectable effect is shown"] = (
        measure_comparisons(runs=runs, seed=seed, effect=1.0)[0],
        DETECTS,
    )
    found["5 comparisons of equals, corrected: any shows one"] = (
        measure_families(runs=runs // 4, seed=seed),
        (0.0, FALSE[1] + 0.01),
    )
    found["pass@k and pass^k: largest error"] = find_pass_error(seed=seed), (0.0, CLOSED)
    cpu_s = time.process_time() - began
    table = Table("", "found", "wanted", title=f"{runs:,} simulated runs of {ITEMS} items")
    for name, (value, (low, high)) in found.items():
        is_share = high > 1e-6
        told = [f"{one:.1%}" if is_share else f"{one:.1e}" for one in (value, low, high)]
        table.add_row(name, told[0], f"{told[1]} to {told[2]}")
    console = Console(width=110)
    console.print(table)
    misses = [name for name, (value, (low, high)) in found.items() if not low <= value <= high]
    for miss in misses:
        console.print(f"missed: {miss}", markup=False)
    figures = {name: value for name, (value, _) in found.items()}
    told_json = json.dumps({"bench": "statistics", "runs": runs, "cpu_s": round(cpu_s, 1), **figures})
    console.print(told_json, soft_wrap=True, markup=False, highlight=False)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
