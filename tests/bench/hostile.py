"""`python -m tests.bench.hostile`: what one hostile reviewer in ten does to learning, with trust weights and without.

The loop is that of `tests.bench.learning`, but rewards and step scores are reviewers' words: each group of attempts is
judged by one of ten, some groups by a second one too, and some are gold, where the truth is known and the reviewer's
standing follows (`core.scoring.calibration`). Honest reviewers err now and then; a hostile one says the opposite.
Every arm sees the same tickets, the same reviewers in the same order, the same gold.
"""

import argparse
import dataclasses
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tentalis.core.contracts import RolloutRecord
from tentalis.core.learning.recipes import RECIPES
from tentalis.core.scoring.calibration import POLICY, Standing
from tests.bench.learning import GROUP, TASKS, learn, measure_base

REVIEWERS = 10
HONEST_ERRORS = 0.05
GOLD_RATE, SECOND_RATE = 0.1, 0.1
BAR = 0.05
ARMS: Mapping[str, tuple[int, bool]] = {
    "clean": (0, True),
    "1 of 10 hostile, weights": (1, True),
    "1 of 10 hostile, no weights": (1, False),
    "3 of 10 hostile, weights": (3, True),
    "3 of 10 hostile, no weights": (3, False),
}
"""Arm -> (hostile reviewers, whether trust weights are used)."""
ASKED = list(ARMS)[:3]
JUDGED = "1 of 10 hostile, weights"
"""The arm that has to come close to the clean one."""


@dataclasses.dataclass
class Reviewer:
    """One of the ten.

    Args:
        rng: for its errors.
        sittings: gold groups it judged; audited: their attempts.
    """

    is_hostile: bool
    rng: random.Random
    standing: Standing = dataclasses.field(default_factory=Standing)
    sittings: int = 0
    audited: int = 0
    is_quarantined: bool = False

    def say(self, truth: float) -> float:
        if self.is_hostile:
            return 1.0 - truth
        return 1.0 - truth if self.rng.random() < HONEST_ERRORS else truth

    def audit(self, judged: Sequence[tuple[float, float]]) -> None:
        """(said, truth) of a gold group."""
        self.standing, _ = self.standing.add(judged)
        self.sittings += 1
        self.audited += len(judged)
        is_known = self.audited >= POLICY.quarantine_items and self.sittings >= POLICY.quarantine_sittings
        self.is_quarantined |= is_known and self.standing.weight() < POLICY.quarantine_below


class Panel:
    """Ten reviewers who judge groups one after the other."""

    def __init__(self, *, hostile: int, uses_weights: bool, seed: int) -> None:
        self.reviewers = [Reviewer(index < hostile, random.Random(seed * 31 + index)) for index in range(REVIEWERS)]
        self.uses_weights = uses_weights
        self.rng = random.Random(seed + 7_000)
        self.dropped = 0

    def rejudge(self, rollouts: list[RolloutRecord]) -> list[RolloutRecord]:
        """The rollouts with reviewers' words as their rewards; groups nobody trusted spoke of are left out."""
        return [
            judged
            for _, group in groupby(rollouts, key=lambda rollout: rollout.group_id)
            for judged in self._judge(list(group))
        ]

    def _judge(self, group: list[RolloutRecord]) -> list[RolloutRecord]:
        order = self.rng.sample(range(REVIEWERS), REVIEWERS)
        is_gold, is_second = self.rng.random() < GOLD_RATE, self.rng.random() < SECOND_RATE
        free = [self.reviewers[place] for place in order if not self._is_out(self.reviewers[place])]
        words: list[tuple[float, list[RolloutRecord]]] = []
        for reviewer in free[: 1 + is_second]:
            said = [self._speak(reviewer, rollout) for rollout in group]
            if is_gold:
                reviewer.audit([(one.reward or 0.0, true.reward or 0.0) for one, true in zip(said, group, strict=True)])
            trust = reviewer.standing.weight() if self.uses_weights else 1.0
            words.append((0.0 if self._is_out(reviewer) else trust, said))
        words = [(trust, said) for trust, said in words if trust > 0.0]
        if not words:
            self.dropped += 1
            return []
        return [_join([(trust, said[place]) for trust, said in words]) for place in range(len(group))]

    def _is_out(self, reviewer: Reviewer) -> bool:
        return self.uses_weights and reviewer.is_quarantined

    @staticmethod
    def _speak(reviewer: Reviewer, rollout: RolloutRecord) -> RolloutRecord:
        steps = [
            step if step.score is None else dataclasses.replace(step, score=reviewer.say(step.score))
            for step in rollout.steps
        ]
        return dataclasses.replace(rollout, reward=reviewer.say(rollout.reward or 0.0), steps=steps)

    def describe(self) -> dict[str, Any]:
        weights = {
            kind: [one.standing.weight() for one in self.reviewers if one.is_hostile == is_hostile]
            for kind, is_hostile in (("honest", False), ("hostile", True))
        }
        return {
            "lowest_honest_weight": round(min(weights["honest"]), 3),
            "highest_hostile_weight": round(max(weights["hostile"]), 4) if weights["hostile"] else None,
            "honest_quarantined": sum(one.is_quarantined for one in self.reviewers if not one.is_hostile),
            "hostile_quarantined": sum(one.is_quarantined for one in self.reviewers if one.is_hostile),
            "hostile_audited": sum(one.audited for one in self.reviewers if one.is_hostile),
            "groups_dropped": self.dropped,
        }


def _join(words: Sequence[tuple[float, RolloutRecord]]) -> RolloutRecord:
    """Several words on one attempt, averaged by trust; its own weight is their mean trust, as the product has it."""
    total = sum(trust for trust, _ in words)
    first = words[0][1]
    reward = sum(trust * (said.reward or 0.0) for trust, said in words) / total
    steps = []
    for at, step in enumerate(first.steps):
        scores = [(trust, score) for trust, said in words if (score := said.steps[at].score) is not None]
        mean = sum(trust * score for trust, score in scores) / total if scores else None
        steps.append(dataclasses.replace(step, score=mean))
    return dataclasses.replace(first, reward=min(1.0, reward), steps=steps, weight=min(1.0, total / len(words)))


def run_arm(arm: str, *, seed: int, updates: int, model: str, recipe: str) -> dict[str, Any]:
    """Held-out accuracy after the updates, and what became of the reviewers."""
    hostile, uses_weights = ARMS[arm]
    panel = Panel(hostile=hostile, uses_weights=uses_weights, seed=seed)
    with tempfile.TemporaryDirectory() as directory:
        found = learn(
            RECIPES[recipe], seed=seed, marks=[updates], model=model, directory=Path(directory), rejudge=panel.rejudge
        )
    accuracy = {"sampled": found[f"sampled_{updates}"], "greedy": found[f"greedy_{updates}"]}
    return {"arm": arm, "seed": seed, **accuracy, **panel.describe()}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=16)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", default=ASKED, choices=list(ARMS))
    parser.add_argument("--recipe", default="desk-steps", choices=list(RECIPES))
    parser.add_argument("--model", default="desk", help="desk, or a model directory")
    options = parser.parse_args(argv)
    started = time.monotonic()
    base = measure_base(options.model)
    print(f"base: {base[0]:.3f} sampled, {base[1]:.3f} greedy", flush=True)
    rows: list[dict[str, Any]] = []
    for seed in options.seeds:
        for arm in options.arms:
            rows.append(run_arm(arm, seed=seed, updates=options.updates, model=options.model, recipe=options.recipe))
            print(f"  {rows[-1]}", file=sys.stderr, flush=True)
    means = {
        arm: {kind: statistics.fmean(row[kind] for row in rows if row["arm"] == arm) for kind in ("sampled", "greedy")}
        for arm in options.arms
    }
    print(f"{'arm':30}{'sampled':>10}{'greedy':>10}   seeds (sampled)")
    for arm, mean in means.items():
        seeds = [round(row["sampled"], 3) for row in rows if row["arm"] == arm]
        print(f"{arm:30}{mean['sampled']:10.3f}{mean['greedy']:10.3f}   {seeds}")
    gaps = {
        arm: {kind: round(abs(means["clean"][kind] - mean[kind]), 4) for kind in mean}
        for arm, mean in means.items()
        if arm != "clean" and "clean" in means
    }
    bars = {
        f"{arm}, sampled: apart from clean": {"found": gap["sampled"], "wanted": BAR, "met": gap["sampled"] < BAR}
        for arm, gap in gaps.items()
        if arm == JUDGED
    }
    print(
        f"\n{TASKS} tickets x {GROUP} attempts per update, {options.updates} updates, recipe {options.recipe}; "
        f"{REVIEWERS} reviewers, honest ones wrong in {HONEST_ERRORS:.0%}; {GOLD_RATE:.0%} of groups are gold, "
        f"{SECOND_RATE:.0%} judged by two."
    )
    for name, bar in bars.items():
        print(f"{'met   ' if bar['met'] else 'MISSED'} {name}: {bar['found']} (wanted below {bar['wanted']})")
    figures = {"bench": "hostile", "rows": rows, "means": means, "gaps": gaps, "bars": bars}
    print(json.dumps(figures | {"wall_s": round(time.monotonic() - started, 1)}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
