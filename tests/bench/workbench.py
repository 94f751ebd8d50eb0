"""`python -m tests.bench.workbench`: can tasks of a company be done, only by who does them, and is its house learnt?

First floors, without a model: the solver does every task with the fewest calls there are, nothing and random calls do
none. Then the built-in apprentice learns on a stack of its own, from rows and queues (`world_loop`), seven families by
outcomes, judged calls and the rule book's hints. The referee measures the three families that are never trained on
(transfer), all ten in words that are held out (forgetting), and sequences of 20 tasks in one company that lasts.

The habit slope is the change of the share of habits that are decided otherwise than this house does, from one update to
the next in the tasks that it learns from; below 0 it learns the house. Its interval is over places of tasks.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx
from django.conf import settings
from rich.console import Console
from rich.table import Table

from tentalis.client.clients import Client
from tentalis.client.endpoints.calls import Call
from tentalis.core.learning.gate import compare_paired
from tentalis.core.workbench import episode
from tentalis.core.workbench.company import CLIENTS, ITEMS, make_company
from tentalis.core.workbench.figures import Figures, Slope, measure, measure_habit_slope
from tentalis.core.workbench.solving import PlannedCall, solve
from tentalis.core.workbench.tasks import (
    FAMILIES,
    HELD_OUT_FAMILIES,
    TRAINED_FAMILIES,
    make_sequence,
    make_task,
    parse_task,
)
from tentalis.core.workbench.tools import TOOLS
from tentalis.core.worlds import PanelItem
from tests.bench.own_work import LoopOpenError
from tests.bench.world_loop import (
    ANSWER_TOKENS,
    BASE,
    CONFIDENCE,
    STACK,
    WHOLE,
    LoopRow,
    LoopSizes,
    Referee,
    learn,
    print_rows,
)
from tests.chaos.stage import chaos_stack, read_admin_token

FLOOR_TASKS, FLOOR, LEAST_A_MINUTE = 400, 0.05, 30.0
RANDOM_CALLS: Final = 8
GAIN: Final = 0.15
SEQUENCES: Final = 6
SKILLS: Final = 140
Act = Callable[[episode.State], None]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2], help="none: floors alone")
    parser.add_argument("--updates", type=int, default=LoopSizes().updates)
    parser.add_argument("--tasks", type=int, default=LoopSizes().tasks)
    parser.add_argument("--held-out", type=int, default=LoopSizes().held_out)
    parser.add_argument("--skills", type=int, default=SKILLS)
    parser.add_argument("--sequences", type=int, default=SEQUENCES)
    parser.add_argument("--keep-in", type=Path, help="a home that stays, with its logs")
    options = parser.parse_args(argv)
    console = Console(width=160)
    settings.configure(SANDBOXES=None)
    floors = measure_floors()
    print_floors(console, floors)
    sizes = LoopSizes(updates=options.updates, tasks=options.tasks, held_out=options.held_out)
    found = [
        learn_house(
            seed,
            sizes=sizes,
            skills=options.skills,
            sequences=options.sequences,
            keep_in=options.keep_in,
            console=console,
        )
        for seed in options.seeds
    ]
    if found:
        print_rows(console, [one.row for one in found], title="the built-in apprentice, families held out")
        print_learnt(console, found)
    bars = judge(floors, found)
    print(json.dumps({"bench": "workbench", "floors": {name: asdict(one) for name, one in floors.items()},
                      "rows": [asdict(one) for one in found], "bars": bars}))  # fmt: skip
    return 0 if all(bar["met"] for bar in bars.values()) else 1


# --- floors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FloorRow:
    """What an agent without a model comes to."""

    figures: Figures
    episodes_a_minute: float


def measure_floors() -> dict[str, FloorRow]:
    """Agent -> what it comes to, on tasks of all families alike."""
    agents: Mapping[str, Callable[[Random], Act]] = {
        "oracle": lambda rng: follow_plan, "nothing": lambda rng: lambda state: None, "random": call_randomly,
        "another house": do_otherwise,
    }  # fmt: skip
    found = {}
    for name, make in agents.items():
        rng, started, judged = Random(7), time.process_time(), []
        for place in range(FLOOR_TASKS):
            task = make_task(rng, families=[FAMILIES[place % len(FAMILIES)]])
            state = episode.begin(task.text, place)
            make(rng)(state)
            judged.append(episode.judge(state))
        minutes = (time.process_time() - started) / 60
        found[name] = FloorRow(measure(judged), round(FLOOR_TASKS / minutes, 1))
    return found


def follow_plan(state: episode.State) -> None:
    for one in solve(parse_task(state["prompt"]), state["before"]).calls:
        make_call(state, one)


def make_call(state: episode.State, planned: PlannedCall) -> None:
    episode.act(state, episode.CALL, json.dumps({"tool": planned.tool, "args": planned.arguments}))


def call_randomly(rng: Random) -> Act:
    """Tools of the company with arguments that they take, about what the task names or anything else."""

    def act(state: episode.State) -> None:
        words = [word.strip(".,") for word in state["prompt"].split()]
        named = [word for word in words if word in CLIENTS or word in ITEMS]
        for _ in range(RANDOM_CALLS):
            tool = rng.choice(list(TOOLS.values()))
            told = {
                name: rng.randint(1, 99) if kind is int else rng.choice(named) if isinstance(kind, type)
                else rng.choice([*[one for one in kind if one in words], *kind])
                for name, kind in tool.fields.items()
            }  # fmt: skip
            make_call(state, PlannedCall(tool.name, told))

    return act


def do_otherwise(rng: Random) -> Act:
    """The right calls, with each habit as any house has it."""
    from tentalis.core.workbench.habits import HABITS

    def act(state: episode.State) -> None:
        task = parse_task(state["prompt"])
        choices = {habit: rng.choice(HABITS[habit].options) for habit in task.house}
        for one in solve(task, state["before"], choices).calls:
            make_call(state, one)

    return act


# --- learning --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learnt:
    """What came of one seed.

    Args:
        slope: of the share of habits decided otherwise, an update.
        sequences: before and after, in companies that last; within: their own slope.
        families: name -> success before and after, in words that are held out.
        transfer: gain on the held-out families over the gain on the others; None where these gained nothing.
        forgotten: families that do worse than before, beyond chance.
    """

    row: LoopRow
    slope: Slope
    sequences: tuple[Figures, Figures]
    within: tuple[Slope, Slope]
    families: Mapping[str, tuple[float, float]]
    transfer: float | None
    forgotten: Sequence[str]


def learn_house(
    seed: int, *, sizes: LoopSizes, skills: int, sequences: int, keep_in: Path | None, console: Console
) -> Learnt:
    from apps.worlds.workbench.world import WorkbenchWorld

    world = WorkbenchWorld()
    with chaos_stack(settings=STACK, keep_in=keep_in) as stack:
        row = learn(stack, world, WHOLE, seed, sizes=sizes, console=console)
        with Client(stack.state().addresses["console_url"], token=read_admin_token(stack)) as team:
            faults, serves = read_faults(team, sizes)
        referee = Referee.of(stack, world, sizes)
        items = world.skills(skills, 2_000 + seed)
        before, after = (referee.try_items(name, items, sizes.tries) for name in (BASE, serves))
        played = [play_sequences(referee, name, sequences, seed) for name in (BASE, serves)]
    families, transfer, forgotten = compare_families(items, before, after)
    figures = [measure([one for row in rows for one in row]) for rows in played]
    within = [measure_habit_slope([[float(one.faults) for one in row] for row in rows]) for rows in played]
    slope = measure_habit_slope(faults)
    return Learnt(row, slope, (figures[0], figures[1]), (within[0], within[1]), families, transfer, forgotten)


def read_faults(team: Client, sizes: LoopSizes) -> tuple[list[list[float]], str]:
    """(places, updates) share of habits that attempts decided otherwise, of each task that was learnt from in their
    order; and what serves now."""
    tasks = sorted(int(one["id"]) for one in team.iterate(team.list_tasks))[-sizes.updates * sizes.tasks :]
    counted = []
    for task in tasks:
        shares = []
        for attempt in team.list_attempts(task)["results"]:
            told = team.send(Call("GET", f"attempts/{attempt['id']}"))["verification"]
            if not told or told["outcome"] is None:
                raise LoopOpenError(f"attempt {attempt['id']} of task {task} was not verified: {told}")
            if decided := told["details"]["habits"]:
                shares.append(told["details"]["habit_faults"] / decided)
        counted.append(statistics.fmean(shares) if shares else 1.0)
    rows = [counted[place :: sizes.tasks][: sizes.updates] for place in range(sizes.tasks)]
    adapters = list(team.iterate(team.list_adapters))
    return rows, next((one["name"] for one in adapters if one["state"] == "deployed"), BASE)


def compare_families(
    items: Sequence[PanelItem], before: Sequence[float], after: Sequence[float]
) -> tuple[dict[str, tuple[float, float]], float | None, list[str]]:
    by_family: dict[str, list[tuple[float, float]]] = {name: [] for name in FAMILIES}
    for item, old, new in zip(items, before, after, strict=True):
        by_family[parse_task(item.prompt).family].append((old, new))
    means = {
        name: (statistics.fmean(old for old, _ in pairs), statistics.fmean(new for _, new in pairs))
        for name, pairs in by_family.items()
    }

    def gain(families: Sequence[str]) -> float:
        return statistics.fmean(means[name][1] - means[name][0] for name in families)

    forgotten = [
        name
        for name, pairs in by_family.items()
        if compare_paired([new for _, new in pairs], [old for old, _ in pairs], confidence=CONFIDENCE).high < 0
    ]
    learnt = gain(TRAINED_FAMILIES)
    return means, round(gain(HELD_OUT_FAMILIES) / learnt, 3) if learnt > 0 else None, forgotten


def play_sequences(referee: Referee, model: str, count: int, seed: int) -> list[list[episode.Judgement]]:
    """(sequences, tasks) what each task came to, in companies that last."""
    bearer = {"Authorization": f"Bearer {referee.engine_key}"}
    with (
        httpx.Client(base_url=f"{referee.engine_url}/v1/", headers=bearer, timeout=120) as http,
        ThreadPoolExecutor(count) as pool,
    ):
        return list(pool.map(lambda place: play_sequence(http, model, 10_000 * seed + place), range(count)))


def play_sequence(http: httpx.Client, model: str, seed: int) -> list[episode.Judgement]:
    tasks = make_sequence(seed)
    company = make_company(seed, [one.client for one in tasks if one.client], [one.item for one in tasks if one.item])
    judged = []
    for place, task in enumerate(tasks):
        state = episode.begin(task.text, company=company)
        play_task(http, model, state, seed=seed * len(tasks) + place)
        judged.append(episode.judge(state))
        company = state["company"]
    return judged


def play_task(http: httpx.Client, model: str, state: episode.State, *, seed: int) -> None:
    from apps.worlds.workbench.world import WorkbenchWorld

    messages: list[dict[str, Any]] = [{"role": "user", "content": state["prompt"]}]
    for turn in range(WorkbenchWorld.limits.turns):
        body = {
            "model": model, "messages": messages, "tools": list(episode.FUNCTIONS), "max_tokens": ANSWER_TOKENS,
            "temperature": 1.0, "seed": (101 * seed + turn) % 2**31,
        }  # fmt: skip
        said = http.post("chat/completions", json=body).raise_for_status().json()["choices"][0]["message"]
        messages.append(said)
        if not said.get("tool_calls"):
            return
        for call in said["tool_calls"]:
            function = call["function"]
            seen = episode.act(state, function["name"], function["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": seen})


# --- what is wanted --------------------------------------------------------------------------------------------------


def judge(floors: Mapping[str, FloorRow], found: Sequence[Learnt]) -> dict[str, dict[str, Any]]:
    oracle, speed = floors["oracle"].figures, floors["oracle"].episodes_a_minute
    bars: dict[str, dict[str, Any]] = {
        "oracle": {"found": oracle.success, "wanted": 1.0, "met": oracle.success == oracle.efficiency == 1.0},
        "episodes a minute": {"found": speed, "wanted": LEAST_A_MINUTE, "met": speed >= LEAST_A_MINUTE},
    }
    for name in ("nothing", "random"):
        share = floors[name].figures.success
        bars[name] = {"found": share, "wanted": f"below {FLOOR}", "met": share < FLOOR}
    for one in found:
        seed = f"seed {one.row.seed}"
        bars[f"{seed}: gain above 0"] = {"found": one.row.low, "wanted": 0.0, "met": one.row.low > 0.0}
        bars[f"{seed}: habit slope below 0"] = {"found": one.slope.high, "wanted": 0.0, "met": one.slope.high < 0.0}
        bars[f"{seed}: nothing forgotten"] = {"found": list(one.forgotten), "wanted": [], "met": not one.forgotten}
    if found:
        gain = statistics.fmean(one.row.gain for one in found)
        bars["mean gain"] = {"found": gain, "wanted": GAIN, "met": gain >= GAIN}
    return bars


def print_floors(console: Console, floors: Mapping[str, FloorRow]) -> None:
    table = Table(title=f"{FLOOR_TASKS} tasks of ten families, without a model")
    for name in ("agent", "success", "efficiency", "wasted", "habit faults", "episodes a CPU minute"):
        table.add_column(name, justify="left" if name == "agent" else "right")
    for name, row in floors.items():
        one = row.figures
        table.add_row(name, f"{one.success:.1%}", f"{one.efficiency:.1%}", f"{one.wasted:.2f}", f"{one.faults:.2f}",
                      f"{row.episodes_a_minute:,.0f}")  # fmt: skip
    console.print(table)


def print_learnt(console: Console, found: Sequence[Learnt]) -> None:
    table = Table(title="sequences of 20 tasks in companies that last, before and after")
    for name in ("seed", "success", "efficiency", "wasted", "habit faults", "slope an update", "transfer", "forgotten"):
        table.add_column(name, justify="right")
    for one in found:
        before, after = one.sequences
        table.add_row(
            str(one.row.seed), f"{before.success:.1%} {after.success:.1%}",
            f"{before.efficiency:.1%} {after.efficiency:.1%}", f"{before.wasted:.2f} {after.wasted:.2f}",
            f"{before.faults:.2f} {after.faults:.2f}",
            f"{one.slope.slope:+.4f} [{one.slope.low:+.4f}, {one.slope.high:+.4f}]",
            "" if one.transfer is None else f"{one.transfer:.2f}", ", ".join(one.forgotten) or "nothing",
        )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
