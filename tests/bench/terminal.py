"""`python -m tests.bench.terminal`: can the terminal world be done, only by who does it, and is anything learnt in it?

First floors, in sandboxes of an own host: the house's way is right in every task, doing nothing and random commands are
not. Then the built-in apprentice learns on stacks of their own, from rows and queues (`world_loop`), once by outcomes,
step scores and the rule book's hints and once by outcomes alone; and where rewards are drawn by lot, as a control.
Beside them what needs no training: hints that are remembered and told for the likest task (memory), and the best text
of so many tries to put behind every prompt (prompt search).
"""

import argparse
import importlib
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from rich.console import Console

from tentalis.core.hints import hinted_prompt
from tentalis.core.terminal.scenes import NAMES
from tentalis.core.terminal.tasks import FAMILIES, Task, draw_task, list_hints, read_task
from tentalis.core.worlds import AttemptDraft, PanelItem, ToolCall
from tentalis.platform.up import RunningStack
from tentalis.sandbox.client import start_host
from tests.bench.packages import installed
from tests.bench.world_loop import (
    BASE,
    OUTCOME,
    STACK,
    WHOLE,
    LoopArm,
    LoopRow,
    LoopSizes,
    Referee,
    Say,
    examine,
    learn,
    make_row,
    print_rows,
)
from tests.chaos.stage import chaos_stack

PACKAGE: Final = Path(__file__).parents[1] / "plugged" / "lottery_package.py"
POINT: Final = "[tentalis.worlds]\nlottery = tentalis_lottery:LotteryWorld\n"
LOTTERY: Final = replace(OUTCOME, name="rewards by lot", environment="lottery")
MEMORY, SEARCH = "memory", "prompt search"
LEARNING: Final[Mapping[str, LoopArm]] = {"whole": WHOLE, "outcome": OUTCOME, "lottery": LOTTERY}
ARMS: Final = (*LEARNING, "memory", "search")
FLOOR_TASKS, FLOOR = 240, 0.05
MOST_CALLS: Final = 4
BEFORE: Final = (0.15, 0.45)
GAIN, MINUTES = 0.25, 15.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--updates", type=int, default=LoopSizes().updates)
    parser.add_argument("--tasks", type=int, default=LoopSizes().tasks)
    parser.add_argument("--held-out", type=int, default=LoopSizes().held_out)
    parser.add_argument("--floor-tasks", type=int, default=FLOOR_TASKS)
    parser.add_argument("--keep-in", type=Path, help="a home that stays, with its logs")
    options = parser.parse_args(argv)
    console = Console(width=160)
    sizes = LoopSizes(updates=options.updates, tasks=options.tasks, held_out=options.held_out)
    settings.configure(SANDBOXES=None)
    floors = measure_floors(options.floor_tasks)
    console.print("floors: " + ", ".join(f"{name} {share:.1%}" for name, share in floors.items()), highlight=False)
    rows: list[LoopRow] = []
    with (
        tempfile.TemporaryDirectory(prefix="tentalis-bench-") as directory,
        installed(Path(directory) / "site", "tentalis_lottery", PACKAGE, POINT),
    ):
        for seed in options.seeds:
            with chaos_stack(settings=STACK, keep_in=options.keep_in) as stack:
                rows += [run_arm(stack, arm, seed, sizes=sizes, console=console) for arm in options.arms]
    print_rows(console, rows, title="the built-in apprentice in the terminal, held-out tasks, sampled")
    bars = judge_rows(floors, rows)
    print(json.dumps({"bench": "terminal", "floors": floors, "rows": [asdict(row) for row in rows], "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


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


def run_arm(stack: RunningStack, arm: str, seed: int, *, sizes: LoopSizes, console: Console) -> LoopRow:
    world = importlib.import_module("apps.worlds.terminal").WORLD
    if arm in LEARNING:
        if LEARNING[arm] is LOTTERY:
            examine(stack, LOTTERY.environment, accept="a control: its rewards are drawn by lot on purpose")
        row = learn(stack, world, LEARNING[arm], seed, sizes=sizes, console=console)
    else:
        do = remember if arm == "memory" else search_prompt
        row = do(Referee.of(stack, world, sizes), seed)
    console.print(f"seed {seed} {row.arm}: {row.base:.3f} -> {row.final:.3f}", highlight=False)
    return row


# --- without training ------------------------------------------------------------------------------------------------


def remember(referee: Referee, seed: int) -> LoopRow:
    """Hints are kept, and each held-out task is told those of the likest task seen: as many as the learning arms see,
    a hint each, as the manager wrote it for them."""
    sizes, rng, started = referee.sizes, random.Random(seed + 100), time.monotonic()
    seen = [draw_task(rng, held_out=False) for _ in range(sizes.updates * sizes.tasks)]
    minutes = (time.monotonic() - started) / 60

    def say(prompt: str) -> str:
        words = set(prompt.split())
        likest = max(reversed(seen), key=lambda task: _overlap(words, set(task.text.split())))
        return hinted_prompt(prompt, (likest.house.hint,))

    base, final = referee.measure(BASE, seed=seed), referee.measure(BASE, seed=seed, say=say)
    return make_row(MEMORY, seed, base, final, attempts=0, minutes=round(minutes, 1))


def _overlap(words: set[str], others: set[str]) -> float:
    return len(words & others) / len(words | others)


def search_prompt(referee: Referee, seed: int) -> LoopRow:
    """One text for all prompts, climbed to: a few hints behind the task, with one changed at a time, each judged by as
    many attempts as an update has."""
    sizes, rng, started = referee.sizes, random.Random(seed + 100), time.monotonic()
    best: tuple[str, ...] = ()
    found = -1.0
    for _ in range(sizes.updates):
        tried = _change(best, rng) if found >= 0 else best
        items = [PanelItem(prompt=draw_task(rng, held_out=False).text, seed=rng.randrange(2**31))
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


def _change(hints: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    kept = [hint for hint in hints if rng.random() < 0.7]
    return tuple(dict.fromkeys([*kept, rng.choice(list_hints())]))


# --- floors ----------------------------------------------------------------------------------------------------------


def measure_floors(count: int) -> dict[str, float]:
    """Share of held-out tasks, of every family alike, that go right: by the house's way, by nothing, and by commands
    of all families about what the task names, at random."""
    world = importlib.import_module("apps.worlds.terminal").WORLD
    tasks = [read_task(item.prompt) for item in world.skills(count, 11)]
    rng = random.Random(5)

    def draw_commands(task: Task) -> list[str]:
        """What tasks of any family would take that name the same."""
        name = next(word for word in NAMES if word in re.split(r"\W+", task.text))
        drawn = [draw_task(rng, held_out=False, families=[family]) for family in FAMILIES]
        alike = [read_task(re.sub(rf"\b({'|'.join(NAMES)})\b", name, one.text)) for one in drawn]
        known = [command for one in alike for way in one.scene.ways.values() for command, _ in way.commands]
        return [rng.choice(known) for _ in range(rng.randint(1, MOST_CALLS))]

    scripts: dict[str, list[Sequence[str]]] = {
        "oracle": [[command for command, _ in (*task.scene.looks, *task.house.commands)] for task in tasks],
        "nothing": [[] for _ in tasks],
        "random": [draw_commands(task) for task in tasks],
    }

    def play(task: Task, commands: Sequence[str]) -> float:
        state = world.reset(task.text, 0)
        try:
            for place, command in enumerate(commands):
                call = ToolCall(id="c", name="run", arguments=json.dumps({"command": command}))
                world.act(state, call, f"{place}")
            return float(world.verify_state(task.text, None, state, AttemptDraft()).outcome)
        finally:
            world.close(state)

    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as directory, start_host(Path(directory)):
        settings.SANDBOXES = Path(directory)
        with ThreadPoolExecutor(4) as pool:
            return {name: statistics.fmean(pool.map(play, tasks, script)) for name, script in scripts.items()}


if __name__ == "__main__":
    sys.exit(main())
