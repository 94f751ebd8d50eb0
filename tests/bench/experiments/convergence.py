"""3: does GRPO on outcomes alone converge? Its loss, advantages, reward and held-out share, update by update.

The driver is a process of the stack's web side; the updates come from rows, queues, the training box and the gate.
Nobody gives hints and nobody reviews: the world's own verdict is all that is learnt from.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from tentalis.core.learning.advantages import group_advantages, is_informative
from tests.bench.experiments.ground import Bar, Findings, Ground, make_table

if TYPE_CHECKING:
    from apps.training.models import TrainingRun

TITLE: Final = "Convergence of GRPO, outcomes alone"
UPDATES, UPDATES_SMALL = 10, 2
RECIPE: Final = {"algorithm": "grpo", "w_rl": 1.0, "w_opd": 0.0, "step_mix": 0.0}
MOST_CLIPPED: Final = 0.2
_Z_95: Final = 1.96


@dataclass(frozen=True)
class UpdateRow:
    """One update.

    Args:
        loss, entropy, kl, clipped, grad_norm: means over its optimiser steps; max_ratio: the largest.
        advantage: mean size of the attempts' advantages; informative: share of groups that differ in their rewards.
        held_out: of the gate's panel, of the adapter that came of it; None: there was none.
    """

    update: int
    reward: float
    loss: float
    entropy: float
    kl: float
    advantage: float
    informative: float
    clipped: float
    max_ratio: float
    grad_norm: float
    held_out: float | None
    state: str


def run(ground: Ground) -> Findings:
    updates = ground.choose(UPDATES, UPDATES_SMALL)
    told = ground.run_inside("-m", "tests.bench.experiments.convergence", "--updates", str(updates))
    rows = [UpdateRow(**row) for row in told["rows"]]
    table = make_table(
        "update", "reward", "loss", "mean |advantage|", "groups that differ", "entropy", "KL", "clipped",
        "largest ratio",
        "gradient", "held out", title=f"3. {TITLE}: {told['groups']} groups of {told['group_size']} an update",
    )  # fmt: skip
    for row in rows:
        held_out = "-" if row.held_out is None else f"{row.held_out:.1%}"
        table.add_row(
            f"{row.update} ({row.state})", f"{row.reward:.3f}", f"{row.loss:+.4f}", f"{row.advantage:.3f}",
            f"{row.informative:.0%}", f"{row.entropy:.3f}", f"{row.kl:.4f}", f"{row.clipped:.2%}",
            f"{row.max_ratio:.2f}",
            f"{row.grad_norm:.3f}", held_out,
        )  # fmt: skip
    slope, low, high = told["slope"]
    _, gain_low, _ = told["gain"]
    clipped = statistics.fmean(row.clipped for row in rows)
    are_finite = all(math.isfinite(row.loss) and math.isfinite(row.grad_norm) for row in rows)
    words = [
        "held out, sampled: {:.1%} before, {:.1%} after; gain {:+.1f} points [{:+.1f}, {:+.1f}]".format(
            told["before"], told["after"], *told["gain"]
        ),
        f"reward of a group: {slope:+.4f} an update [{low:+.4f}, {high:+.4f}]",
    ]
    bars = {
        "held-out gain above 0": Bar(gain_low, "the interval's low end above 0", gain_low > 0),
        "reward rises from update to update": Bar(low, "the interval's low end above 0", low > 0),
        "losses and gradients are numbers": Bar(are_finite, "true", are_finite),
        "ratios that are clipped": Bar(round(clipped, 4), f"at most {MOST_CLIPPED:.0%}", clipped <= MOST_CLIPPED),
    }
    return Findings(table, told, bars, words)


def drive(updates: int, seed: int) -> dict[str, Any]:
    """Inside the web side: learn, and read the rows."""
    import django

    django.setup()
    from apps.accounts.models import User
    from apps.accounts.services import change_project
    from apps.pipeline.demonstration import Desk, Round, make_demo_project, run_loop
    from apps.training.models import TrainingRun

    by = User.objects.filter(is_superuser=True).order_by("pk")[0]
    worker = make_demo_project(by)
    worker.project = change_project(project=worker.project, by=by, recipe=RECIPE, review_policy={"who": "none"})
    rounds: list[Round] = []
    outcome = run_loop(Desk(worker), by=by, updates=updates, seed=seed, imitation={}, report=rounds.append)
    rows, points = [], list[tuple[int, float]]()
    for done in rounds:
        training = TrainingRun.objects.get(batch__worker=worker, batch__number=done.update)
        groups = read_groups(training)
        rows.append(asdict(sum_up(done.update, training, groups, held_out=done.held_out, state=done.state)))
        points += [(done.update, statistics.fmean(rewards)) for rewards in groups]
    gain = outcome.gain
    return {
        "rows": rows, "groups": worker.project.batch_tasks, "group_size": worker.project.group_size,
        "before": outcome.before.sampled, "after": outcome.after.sampled, "slope": fit_slope(points),
        "gain": [100 * one for one in (gain.difference, gain.low, gain.high)] if gain else [0.0, -100.0, 100.0],
    }  # fmt: skip


def read_groups(training: "TrainingRun") -> list[list[float]]:
    """The rewards of its batch, task by task."""
    from apps.rollouts.models import Rollout

    groups: dict[int, list[float]] = {}
    used = Rollout.objects.filter(training_use__batch=training.batch)
    for task, reward in used.order_by("pk").values_list("task", "reward"):
        if reward is not None:
            groups.setdefault(task, []).append(reward)
    return list(groups.values())


def sum_up(
    update: int, training: "TrainingRun", groups: Sequence[Sequence[float]], *, held_out: float | None, state: str
) -> UpdateRow:
    def mean(name: str) -> float:
        return statistics.fmean(float(one[name]) for one in training.metrics) if training.metrics else float("nan")

    return UpdateRow(
        update=update,
        reward=statistics.fmean(reward for rewards in groups for reward in rewards),
        loss=mean("loss_rl"),
        entropy=mean("entropy"),
        kl=mean("kl"),
        advantage=statistics.fmean(abs(one) for rewards in groups for one in group_advantages(rewards)),
        informative=statistics.fmean(is_informative(rewards) for rewards in groups),
        clipped=mean("clip_fraction"),
        max_ratio=max((float(one["max_ratio"]) for one in training.metrics), default=float("nan")),
        grad_norm=mean("grad_norm"),
        held_out=held_out,
        state=state,
    )


def fit_slope(points: Sequence[tuple[int, float]]) -> tuple[float, float, float]:
    """Least squares over groups, which were drawn apart from each other: (slope, low, high) at 95 %."""
    places, values = [float(place) for place, _ in points], [value for _, value in points]
    slope, start = statistics.linear_regression(places, values)
    middle = statistics.fmean(places)
    left = sum((value - start - slope * place) ** 2 for place, value in points) / max(1, len(points) - 2)
    half = _Z_95 * math.sqrt(left / sum((place - middle) ** 2 for place in places))
    return slope, slope - half, slope + half


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sys.stdout.write(json.dumps(drive(options.updates, options.seed)) + "\n")
