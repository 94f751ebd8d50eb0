"""Which faults happen in a run and in which order: decided by a seed alone, before anything starts."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    KILL = "kill -9"
    FREEZE = "freeze longer than the lease"
    LOSE_REDIS = "lose all of Redis"
    CRASH_POSTGRES = "crash Postgres"
    KILL_TRAINING = "kill the box in a training"
    TRUNCATED_ADAPTER = "send home a truncated adapter"
    NAN_ADAPTER = "send home an adapter of NaN"


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Args:
        after_s: seconds after the one before it.
        target: name of the service; "" where the kind says it.
    """

    kind: FaultKind
    after_s: float
    target: str = ""


KILL_TARGETS = ("web", "relay", "queue-workers", "queue-scorers", "gpu", "engine")
FREEZE_TARGETS = ("queue-workers", "queue-scorers")

FULL: Mapping[FaultKind, int] = {
    FaultKind.KILL: 20,
    FaultKind.LOSE_REDIS: 3,
    FaultKind.CRASH_POSTGRES: 2,
    FaultKind.FREEZE: 4,
    FaultKind.KILL_TRAINING: 1,
    FaultKind.TRUNCATED_ADAPTER: 1,
    FaultKind.NAN_ADAPTER: 1,
}
SMALL: Mapping[FaultKind, int] = {FaultKind.KILL: 4, FaultKind.LOSE_REDIS: 1, FaultKind.CRASH_POSTGRES: 1}


def make_plan(
    counts: Mapping[FaultKind, int],
    *,
    seed: int,
    mean_gap_s: float,
    kill_targets: Sequence[str] = KILL_TARGETS,
    freeze_targets: Sequence[str] = FREEZE_TARGETS,
) -> list[Fault]:
    """Draw an order and gaps for so many faults of each kind; kills and freezes go round over their targets.

    Args:
        mean_gap_s: gaps are uniform in [0.5, 1.5] times this.
    """
    draw = random.Random(seed)
    targets = {FaultKind.KILL: kill_targets, FaultKind.FREEZE: freeze_targets}
    drawn: list[tuple[FaultKind, str]] = []
    for kind, count in counts.items():
        names = list(targets.get(kind, ("",)))
        draw.shuffle(names)
        drawn += [(kind, names[number % len(names)]) for number in range(count)]
    draw.shuffle(drawn)
    return [Fault(kind, round(mean_gap_s * draw.uniform(0.5, 1.5), 2), target) for kind, target in drawn]
