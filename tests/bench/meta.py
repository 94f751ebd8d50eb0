"""`python -m tests.bench.meta`: what a manager with outdated rules does to learning, and what audits make of it.

The loop is that of `tests.bench.learning`, but rewards are a manager's: sigmoid(w . phi) over the desk's rubric, from a
rule book of which five of nine rules are wrong. Two groups of each update are audited, which is to say verified.

- fixed: the manager's word is the reward of everything; no audits.
- meta: its weights are refitted to the audits (`core.meta`), by the product's own rules: for two rounds its word counts
  nowhere, then by (2 AUC - 1)^2; audited groups count in full, with their verified outcomes.
- meta with solver: the same, and its rubric holds one item more: whether the answer follows from the option, which the
  world's own solver says. No rubric that a person writes knows that.
- audit only: the same audits, spent as reward and on nothing else.
- verified: everything is audited.

The bars are asked of the arm with the solver, as they always were; what a rubric of rules alone brings, beside the same
audits spent as rewards, is printed whatever it is.
"""

import argparse
import dataclasses
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from gpu_workers.engine import Engine
from tentalis.core.contracts import RolloutRecord
from tentalis.core.desk import HOUSE_RULES, OPTIONS, parse_ticket, read_pieces
from tentalis.core.desk_rubric import FOLLOWS, Rules, find_items, weigh_rules
from tentalis.core.learning.recipes import RECIPES, Recipe
from tentalis.core.meta import Audit, Items, judge_items, refit
from tentalis.core.scoring.ranking import measure_auc
from tests.bench.learning import learn, measure_base

TASKS, GROUP = 20, 8
AUDITED_GROUPS = 2
WRONG_RULES = 5
WINDOW = 200
WITH_SOLVER = "meta with solver"
ARMS = ("fixed", "meta", WITH_SOLVER, "audit only", "verified")
AUC_BAR, GAIN_BAR = 0.9, 2.0
LAST = 5
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "bench" / "meta.jsonl"


def outdate_rules(wrong: int, seed: int) -> Rules:
    """The house's rules with so many of them replaced by another option of their family."""
    rng = random.Random(seed)
    rules = dict(HOUSE_RULES)
    for family, context in rng.sample(sorted(rules), wrong):
        others = [option for option in OPTIONS[family] if option != HOUSE_RULES[family, context]]
        rules[family, context] = rng.choice(others)
    return rules


class OutdatedManager:
    """Judges update after update, in one of the arms."""

    def __init__(self, arm: str, *, seed: int, model: str) -> None:
        self.arm = arm
        self.rng = random.Random(seed + 9_000)
        self.codec = Engine.open(model).codec
        self.start = weigh_rules(outdate_rules(WRONG_RULES, seed))
        if arm == "meta":
            del self.start[FOLLOWS]
        self.weights: Mapping[str, float] = self.start
        self.gate = 0.0
        self.rounds: list[list[Audit]] = []
        self.aucs: list[float | None] = []
        self.audited_aucs: list[float | None] = []
        self.gates: list[float] = []
        self.refused = 0

    def rejudge(self, rollouts: list[RolloutRecord]) -> list[RolloutRecord]:
        """The rollouts of one update with this arm's rewards and weights; those that teach nothing are left out."""
        found = [self._find_items(rollout) for rollout in rollouts]
        said = [judge_items(self.weights, items) for items in found]
        truths = [rollout.reward or 0.0 for rollout in rollouts]
        self.aucs.append(measure_auc(said, truths).value)
        groups = [list(members) for _, members in groupby(range(len(rollouts)), lambda at: rollouts[at].group_id)]
        audited = {at for group in self.rng.sample(groups, AUDITED_GROUPS) for at in group}
        judged = self._judge(rollouts, said, audited)
        if self.arm in {"meta", WITH_SOLVER}:
            self.gates.append(round(self.gate, 3))
            self._learn([Audit(found[at], said[at], truths[at]) for at in sorted(audited)])
        return judged

    def _judge(
        self, rollouts: Sequence[RolloutRecord], said: Sequence[float], audited: set[int]
    ) -> list[RolloutRecord]:
        if self.arm == "verified":
            return list(rollouts)
        if self.arm == "fixed":
            return [dataclasses.replace(rollout, reward=score) for rollout, score in zip(rollouts, said, strict=True)]
        return [
            rollout if at in audited else dataclasses.replace(rollout, reward=score, weight=self.gate)
            for at, (rollout, score) in enumerate(zip(rollouts, said, strict=True))
            if at in audited or self.gate > 0.0
        ]

    def _learn(self, audits: list[Audit]) -> None:
        """What the product's meta training does after an update."""
        self.rounds.append(audits)
        window = self.rounds[-(WINDOW // len(audits)) :]
        found = refit(window, prior=self.start, past_rounds=len(self.rounds) - len(window))
        self.audited_aucs.append((found.candidate if found.applies else found.present).value)
        self.gate = found.gate
        if found.applies:
            self.weights = found.fit.weights
        else:
            self.refused += 1

    def _find_items(self, rollout: RolloutRecord) -> Items:
        reading = read_pieces(self.codec.split_pieces(list(rollout.token_ids)))
        items = find_items(parse_ticket(rollout.messages[0]["content"]), reading.parts)
        return {name: value for name, value in items.items() if name in self.start}

    def describe(self) -> dict[str, Any]:
        last = [auc for auc in self.aucs[-LAST:] if auc is not None]
        first = [auc for auc in self.aucs[:2] if auc is not None]
        return {
            "auc_first": round(statistics.fmean(first), 3) if first else None,
            "auc_last": round(statistics.fmean(last), 3) if last else None,
            "audited_auc": self.audited_aucs[-1] if self.audited_aucs else None,
            "gates": self.gates[::4],
            "refused": self.refused,
            "audits": sum(map(len, self.rounds)),
        }


def choose_recipe(arm: str) -> Recipe:
    """Outcomes alone, one number an attempt; two groups are too few for two minibatches."""
    return dataclasses.replace(RECIPES["desk-outcome"], std_floor=0.05, minibatches=1 if arm == "audit only" else 2)


def run_arm(arm: str, *, seed: int, updates: int, model: str) -> dict[str, Any]:
    clock = time.process_time()
    manager = OutdatedManager(arm, seed=seed, model=model)
    with tempfile.TemporaryDirectory() as directory:
        found = learn(
            choose_recipe(arm),
            seed=seed,
            marks=[updates],
            model=model,
            directory=Path(directory),
            rejudge=manager.rejudge,
            tasks=TASKS,
            group=GROUP,
        )
    accuracy = {"sampled": found[f"sampled_{updates}"], "greedy": found[f"greedy_{updates}"]}
    cpu_s = round(time.process_time() - clock, 1)
    return {"arm": arm, "seed": seed, "updates": updates, **accuracy, **manager.describe(), "cpu_s": cpu_s}


def mean_of_known(values: Iterable[float | None]) -> float:
    """NaN where none is known: an AUC is not, where every attempt is wrong."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else math.nan


def load_rows(path: Path) -> dict[tuple[str, int, int], dict[str, Any]]:
    """Rows of an interrupted run, by arm, seed and updates."""
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["arm"], row["seed"], row["updates"]): row for row in rows}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=24)
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22, 23, 24])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    parser.add_argument("--model", default="desk", help="desk, or a model directory")
    options = parser.parse_args(argv)
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    done = load_rows(CACHE)
    base = measure_base(options.model)
    print(f"base: {base[0]:.3f} sampled, {base[1]:.3f} greedy", flush=True)
    rows: list[dict[str, Any]] = []
    for seed in options.seeds:
        for arm in options.arms:
            row = done.get((arm, seed, options.updates))
            if row is None:
                row = run_arm(arm, seed=seed, updates=options.updates, model=options.model)
                with CACHE.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            rows.append(row)
            print(f"  {row}", file=sys.stderr, flush=True)
    means: dict[str, float] = {}
    print(f"{'arm':18}{'sampled':>10}{'greedy':>10}{'AUC first':>12}{'AUC last':>10}   seeds (sampled)")
    for arm in options.arms:
        of_arm = [row for row in rows if row["arm"] == arm]
        means[arm] = statistics.fmean(row["sampled"] for row in of_arm)
        cells = [
            means[arm],
            *(mean_of_known(row[name] for row in of_arm) for name in ("greedy", "auc_first", "auc_last")),
        ]
        seeds = [round(row["sampled"], 3) for row in of_arm]
        print(f"{arm:18}{cells[0]:10.3f}{cells[1]:10.3f}{cells[2]:12.3f}{cells[3]:10.3f}   {seeds}")
    print(
        f"\n{TASKS} tickets x {GROUP} attempts per update, {options.updates} updates; {WRONG_RULES} of 9 rules wrong; "
        f"{AUDITED_GROUPS * GROUP} audits per update where there are audits.\nAudit only spends the same audits as "
        "reward: it knows as much, and its manager stays as wrong as it was."
    )
    ratios: dict[str, float] = {}
    for arm in ("meta", WITH_SOLVER):
        if not {"fixed", arm} <= set(means):
            continue
        aucs = [row["audited_auc"] for row in rows if row["arm"] == arm]
        ratios[f"{arm} over fixed"] = round(means[arm] / max(means["fixed"], 1e-9), 2)
        ratios[f"{arm}, audited AUC"] = round(statistics.fmean(auc or 0.0 for auc in aucs), 3)
        if "audit only" in means:
            ratios[f"{arm} minus audit only"] = round(means[arm] - means["audit only"], 4)
    bars = {
        name: {"found": ratios[name], "wanted": wanted, "met": ratios[name] >= wanted}
        for name, wanted in ((f"{WITH_SOLVER} over fixed", GAIN_BAR), (f"{WITH_SOLVER}, audited AUC", AUC_BAR))
        if name in ratios
    }
    base_row = {"arm": "base", "sampled": base[0], "greedy": base[1]}
    CACHE.unlink(missing_ok=True)  # a whole run is measured anew the next time
    print(json.dumps({"bench": "meta", "rows": [base_row, *rows], "ratios": ratios, "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
