"""`python -m tests.bench.terminal`: can the terminal world be done, only by who does it, and is anything learnt in it?

First floors, in sandboxes of an own host: the house's way is right in every task, doing nothing and random commands are
not. Then the built-in apprentice gets better in it, in some ways (`world_arms`).
"""

import argparse
import importlib
import json
import random
import re
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Final

from django.conf import settings
from rich.console import Console

from tentalis.core.terminal.scenes import NAMES
from tentalis.core.terminal.tasks import FAMILIES, Task, draw_task, list_hints, read_task
from tentalis.core.worlds import AttemptDraft, ToolCall
from tentalis.sandbox.client import start_host
from tests.bench.world_arms import Ground, add_options, judge_rows, run_arms
from tests.bench.world_loop import print_rows

FLOOR_TASKS: Final = 240
MOST_CALLS: Final = 4


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--floor-tasks", type=int, default=FLOOR_TASKS)
    options = parser.parse_args(argv)
    console = Console(width=160)
    settings.configure(SANDBOXES=None)
    floors = measure_floors(options.floor_tasks)
    console.print("floors: " + ", ".join(f"{name} {share:.1%}" for name, share in floors.items()), highlight=False)
    ground = Ground(importlib.import_module("apps.worlds.terminal").WORLD, list_hints())
    rows = run_arms(ground, options, console)
    if rows:
        print_rows(console, rows, title="the built-in apprentice in the terminal, held-out tasks, sampled")
    bars = judge_rows(floors, rows)
    print(json.dumps({"bench": "terminal", "floors": floors, "rows": [asdict(row) for row in rows], "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


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
