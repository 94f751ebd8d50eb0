"""The tables of `tests.bench.learning`: which arms are compared, at what, and what must come out."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tentalis.core.learning.recipes import RECIPES, Recipe

BASES = {"desk": "the built-in one", "sparse": "right answers are rare: the house's habit at .06 instead of .36"}
SPARSE_HABITS = (0.06, 0.60, 0.34)
_T_95: Sequence[float] = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class Arm:
    """One row of a table: a way to learn.

    Args:
        kind: learn (weights), or remember (hints in the prompt alone).
        changes: recipe fields over `recipe`.
    """

    name: str
    recipe: str = "desk"
    kind: str = "learn"
    base: str = "desk"
    lag: int = 0
    corrects: bool = True
    tasks: int = 24
    group: int = 8
    updates: tuple[int, ...] = (8, 16)
    changes: tuple[tuple[str, Any], ...] = ()

    def build_recipe(self) -> Recipe:
        return replace(RECIPES[self.recipe], **dict(self.changes))

    def settings(self, seed: int) -> dict[str, Any]:
        """What decides the result, code apart."""
        recipe = self.build_recipe().hash if self.kind == "learn" else ""
        return asdict(self) | {"name": "", "recipe": recipe, "changes": [], "seed": seed, "panels": 2}


@dataclass(frozen=True)
class Table:
    title: str
    arms: Sequence[Arm]
    note: str


def _lag(lag: int, name: str, **changes: Any) -> Arm:
    """An arm of the reward alone at a lag: distillation would hide what age does."""
    corrects = changes.pop("corrects", True)
    fields = {"max_staleness": max(4, lag)} | changes
    return Arm(
        f"lag {lag}, {name}",
        "desk-steps",
        lag=lag,
        corrects=corrects,
        updates=(16,),
        changes=tuple(sorted(fields.items())),
    )


TABLES: Mapping[str, Table] = {
    "recipes": Table(
        "Every recipe at equal samples",
        (
            Arm("GRPO, outcome only", "desk-outcome"),
            Arm("GRPO, outcome + steps", "desk-steps"),
            Arm("Dr. GRPO", "desk-dr-grpo"),
            Arm("DAPO", "desk-dapo"),
            Arm("CISPO", "desk-cispo"),
            Arm("REINFORCE++ baseline", "desk-reinforce-pp"),
            Arm("reward-weighted SFT", "desk-imitation"),
            Arm("SFT on right answers", "desk-sft"),
            Arm("DPO", "desk-dpo"),
            Arm("IPO", "desk-ipo"),
            Arm("KTO", "desk-kto"),
            Arm("OPD only (told the rule)", "desk-hints"),
            Arm("combined (told the rule)", "desk"),
            Arm("hybrid, top-K (told the rule)", "desk-hybrid"),
        ),
        "All but the last three learn from outcomes (and steps) alone; those were TOLD the rule in words for every\n"
        "attempt: equal samples are not equal information. DAPO without its refilling, which costs samples, is\n"
        "GRPO here: groups that agree move nothing in either, and no answer is overlong.",
    ),
    "opd": Table(
        "Binary reward, OPD, combined, hybrid; and hints without weights",
        (
            Arm("binary (outcome only)", "desk-outcome"),
            Arm("OPD, token level", "desk-hints"),
            Arm("OPD, top-K", "desk-hybrid", changes=(("w_opd", 1.0), ("w_rl", 0.0))),
            Arm("combined", "desk"),
            Arm("hybrid, top-K", "desk-hybrid"),
            Arm("memory only, no weights", kind="remember"),
        ),
        "arXiv:2603.10165 claims, for a personal agent: combined above either alone, .17 to .81 in 16 updates. Its\n"
        "binary reward is a judge's on few turns; ours is checked on every attempt, so outcomes alone go further.",
    ),
    "lag": Table(
        "Rollouts that are older than the policy that learns",
        (
            *(_lag(lag, "clipped") for lag in (0, 2, 4, 8)),
            *(_lag(lag, "start policy, weights capped at 2", importance_cap=2.0) for lag in (2, 4, 8)),
            *(_lag(lag, "uncorrected", corrects=False) for lag in (2, 4, 8)),
        ),
        "clipped: the ratio is taken to the log-probs the engine stored. uncorrected: log-probs computed anew by the\n"
        "policy that learns are called old.",
    ),
    "base": Table(
        "A base that is seldom right",
        (
            Arm("outcome only", "desk-outcome", base="sparse"),
            Arm("outcome + steps", "desk-steps", base="sparse"),
            Arm("DAPO", "desk-dapo", base="sparse"),
            Arm("OPD, token level", "desk-hints", base="sparse"),
            Arm("combined", "desk", base="sparse"),
            Arm("hybrid, top-K", "desk-hybrid", base="sparse"),
        ),
        "Where rewards are rare, groups seldom differ; a hint speaks at every attempt.",
    ),
    "batch": Table(
        "Batch sizes at equal samples (3,072 attempts)",
        (
            Arm("6 x 8, 64 updates", "desk", tasks=6, updates=(64,)),
            Arm("12 x 8, 32 updates", "desk", tasks=12, updates=(32,)),
            Arm("24 x 8, 16 updates", "desk", updates=(16,)),
            Arm("48 x 8, 8 updates", "desk", tasks=48, updates=(8,)),
            Arm("24 x 4, 32 updates", "desk", group=4, updates=(32,)),
            Arm("12 x 16, 16 updates", "desk", tasks=12, group=16, updates=(16,)),
        ),
        "tickets x attempts of one batch; the recipe's two minibatches each.",
    ),
}


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95 % interval by Student's t; half is 0 for one seed."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ±{self.half:.3f}"


def find_interval(values: Sequence[float]) -> Interval:
    if len(values) < 2:
        return Interval(values[0], 0.0)
    t = _T_95[min(len(values) - 2, len(_T_95) - 1)]
    return Interval(statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values)))


def find_pooled_interval(outcomes: Sequence[Sequence[float]]) -> Interval:
    """95 % interval of the mean over trainings and tickets at once: of other tickets after other trainings.

    Args:
        outcomes: (seeds, tickets), the same tickets in each row.
    Source:
        Two-way crossed random effects: the variance of the seeds' means over the seeds, plus that of the tickets' means
        over the tickets. What is left over is in both, so the interval is on the wide side.
    """
    seeds = [statistics.fmean(row) for row in outcomes]
    tickets = [statistics.fmean(one) for one in zip(*outcomes, strict=True)]
    half = 1.96 * math.sqrt(statistics.variance(tickets) / len(tickets))
    return Interval(statistics.fmean(seeds), math.hypot(half, find_interval(seeds).half))


def check_bars(table: str, found: Mapping[str, Sequence[Mapping[str, float]]]) -> list[tuple[str, bool]]:
    """What the table must show, in words, and whether it does."""

    def mean(arm: str, column: str) -> float:
        return statistics.fmean(row[column] for row in found[arm])

    bars: list[tuple[str, bool]] = []
    outcome = next((name for name in ("GRPO, outcome only", "binary (outcome only)") if name in found), None)
    if table in {"recipes", "opd"} and outcome is not None:
        rivals = [name for name in found if name.startswith(("combined", "hybrid"))]
        gains = {name: mean(name, "sampled_16") - mean(outcome, "sampled_16") for name in rivals}
        if gains:
            best = max(gains, key=lambda name: gains[name])
            words = f"{best} beats outcome only by {gains[best]:+.3f} at 16 updates (wanted .08)"
            bars.append((words, round(gains[best], 9) >= 0.08))
    if table == "lag" and {"lag 4, clipped", "lag 4, uncorrected"} <= set(found):
        clipped, without = mean("lag 4, clipped", "sampled_16"), mean("lag 4, uncorrected", "sampled_16")
        bars.append((f"lag 4 clipped reaches {clipped:.3f} (wanted .40)", clipped >= 0.40))
        bars.append((f"lag 4 uncorrected falls to {without:.3f} (wanted below the base's .25)", without < 0.25))
    return bars
