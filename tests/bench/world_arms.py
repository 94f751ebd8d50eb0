"""Ways to get better in a world with turns, side by side: what the benches of the terminal and of repositories share.

The built-in apprentice learns on stacks of their own, from rows and queues (`world_loop`), once by outcomes, step
scores and the rule book's hints and once by outcomes alone; and where rewards are drawn by lot, as a control. Beside
them what needs no training: hints that are remembered and told for the likest task (memory), and the best text of so
many tries to put behind every prompt (prompt search).
"""

import random
import statistics
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from tentalis.core.hints import hinted_prompt
from tentalis.core.worlds import PanelItem, World
from tentalis.platform.up import RunningStack
from tests.bench.packages import installed
from tests.bench.world_loop import (
    BASE,
    OUTCOME,
    STACK,
    WHOLE,
    LoopRow,
    LoopSizes,
    Referee,
    Say,
    examine,
    learn,
    make_row,
)
from tests.chaos.stage import chaos_stack

PACKAGE: Final = Path(__file__).parents[1] / "plugged" / "lottery_package.py"
POINTS: Final = (
    "[tentalis.worlds]\n"
    "terminal_lottery = tentalis_lottery:TerminalLottery\n"
    "swe_lottery = tentalis_lottery:SweLottery\n"
)
LOTTERY: Final = replace(OUTCOME, name="rewards by lot")
MEMORY, SEARCH = "memory", "prompt search"
ARMS: Final = ("whole", "outcome", "lottery", "memory", "search")
FLOOR: Final = 0.05
BEFORE: Final = (0.15, 0.45)
GAIN, MINUTES = 0.25, 15.0


@dataclass(frozen=True)
class Ground:
    """Where it is learnt.

    Args:
        hints: every hint there is in the world.
    """

    world: World
    hints: Sequence[str]


def add_options(parser: ArgumentParser) -> None:
    sizes = LoopSizes()
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2], help="none: floors alone")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--updates", type=int, default=sizes.updates)
    parser.add_argument("--tasks", type=int, default=sizes.tasks)
    parser.add_argument("--held-out", type=int, default=sizes.held_out)
    parser.add_argument("--keep-in", type=Path, help="a home that stays, with its logs")


def run_arms(ground: Ground, options: Namespace, console: Console) -> list[LoopRow]:
    """Every arm with every seed, a seed on a stack of its own."""
    sizes = LoopSizes(updates=options.updates, tasks=options.tasks, held_out=options.held_out)
    rows: list[LoopRow] = []
    with (
        tempfile.TemporaryDirectory(prefix="tentalis-bench-") as directory,
        installed(Path(directory) / "site", "tentalis_lottery", PACKAGE, POINTS),
    ):
        for seed in options.seeds:
            with chaos_stack(settings=STACK, keep_in=options.keep_in) as stack:
                for arm in options.arms:
                    row = run_arm(stack, ground, arm, seed, sizes=sizes, console=console)
                    console.print(f"seed {seed} {row.arm}: {row.base:.3f} -> {row.final:.3f}", highlight=False)
                    rows.append(row)
    return rows


def run_arm(stack: RunningStack, ground: Ground, arm: str, seed: int, *, sizes: LoopSizes, console: Console) -> LoopRow:
    world = ground.world
    if arm == "memory":
        return remember(Referee.of(stack, world, sizes), seed)
    if arm == "search":
        return search_prompt(Referee.of(stack, world, sizes), ground.hints, seed)
    way = {"whole": WHOLE, "outcome": OUTCOME}.get(arm)
    if way is None:
        way = replace(LOTTERY, environment=f"{world.name}_lottery")
        examine(stack, way.environment, accept="a control: its rewards are drawn by lot on purpose")
    return learn(stack, world, way, seed, sizes=sizes, console=console)


def judge_rows(floors: Mapping[str, float], rows: Sequence[LoopRow]) -> dict[str, dict[str, Any]]:
    bars: dict[str, dict[str, Any]] = {
        name: {"found": share, "wanted": "1" if name == "oracle" else f"below {FLOOR}",
               "met": share == 1.0 if name == "oracle" else share < FLOOR}
        for name, share in floors.items()
    }  # fmt: skip
    whole = [row for row in rows if row.arm == WHOLE.name]
    for row in whole:
        low, high = BEFORE
        bars[f"seed {row.seed}: before"] = {"found": row.base, "wanted": BEFORE, "met": low <= row.base <= high}
        bars[f"seed {row.seed}: gain above 0"] = {"found": row.low, "wanted": 0.0, "met": row.low > 0.0}
        bars[f"seed {row.seed}: minutes"] = {"found": row.minutes, "wanted": MINUTES, "met": row.minutes <= MINUTES}
    if whole:
        gain = statistics.fmean(row.gain for row in whole)
        bars["mean gain"] = {"found": gain, "wanted": GAIN, "met": gain >= GAIN}
    for row in (row for row in rows if row.arm == LOTTERY.name):
        bars[f"seed {row.seed}: by lot, no gain"] = {"found": row.low, "wanted": "0 or less", "met": row.low <= 0.0}
    return bars


# --- without training ------------------------------------------------------------------------------------------------


def remember(referee: Referee, seed: int) -> LoopRow:
    """Hints are kept, and each held-out task is told those of the likest task seen: as many as the learning arms see,
    the rule book's of each, as the manager wrote them for those."""
    sizes, rng, started = referee.sizes, random.Random(seed + 100), time.monotonic()
    seen = [referee.world.draw_prompt(rng) or "" for _ in range(sizes.updates * sizes.tasks)]
    minutes = (time.monotonic() - started) / 60

    def say(prompt: str) -> str:
        words = set(prompt.split())
        likest = max(reversed(seen), key=lambda told: _overlap(words, set(told.split())))
        return hinted_prompt(prompt, referee.world.find_rules(likest) or ())

    base, final = referee.measure(BASE, seed=seed), referee.measure(BASE, seed=seed, say=say)
    return make_row(MEMORY, seed, base, final, attempts=0, minutes=round(minutes, 1))


def _overlap(words: set[str], others: set[str]) -> float:
    return len(words & others) / len(words | others)


def search_prompt(referee: Referee, hints: Sequence[str], seed: int) -> LoopRow:
    """One text for all prompts, climbed to: a few hints behind the task, with one changed at a time, each judged by as
    many attempts as an update has."""
    sizes, rng, started = referee.sizes, random.Random(seed + 100), time.monotonic()
    best: tuple[str, ...] = ()
    found = -1.0
    for _ in range(sizes.updates):
        tried = _change(best, hints, rng) if found >= 0 else best
        items = [PanelItem(prompt=referee.world.draw_prompt(rng) or "", seed=rng.randrange(2**31))
                 for _ in range(sizes.tasks)]  # fmt: skip
        score = statistics.fmean(referee.try_items(BASE, items, sizes.group, _behind(tried)))
        if score > found:
            best, found = tried, score
    minutes = (time.monotonic() - started) / 60
    base = referee.measure(BASE, seed=seed)
    final = referee.measure(BASE, seed=seed, say=_behind(best))
    attempts = sizes.updates * sizes.tasks * sizes.group
    return make_row(SEARCH, seed, base, final, attempts=attempts, minutes=round(minutes, 1))


def _behind(hints: Sequence[str]) -> Say:
    return lambda prompt: hinted_prompt(prompt, hints)


def _change(hints: Sequence[str], known: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    kept = [hint for hint in hints if rng.random() < 0.7]
    return tuple(dict.fromkeys([*kept, rng.choice(known)]))
