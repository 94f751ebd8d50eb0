"""`python -m tests.bench.plugged_world`: a world that a stranger's package brings; does the loop close in it?

A package of its own (`tests/plugged/doors_package.py`: one file, two tools, a state) is installed beside the platform
by its entry point; nothing of the repository names it. A team with a model of its own gives doors to open to a `chat`
worker over REST: each attempt is an episode of turns, whose tokens are trained on as they were sampled. The gate
measures every adapter on held-out doors, and no person is asked.

The referee is not the platform: the base and what serves at the end play each held-out door some times at the team's
server, over its chat API with tools, and this file asks the package whether the door is open.
"""

import argparse
import importlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

from tentalis.client.clients import Client
from tentalis.client.endpoints.calls import Call
from tentalis.core.learning.gate import compare_paired
from tentalis.core.worlds import AttemptDraft, ToolCall
from tests.bench.own_work import LoopOpenError, wait_for
from tests.bench.packages import installed
from tests.bench.world_loop import examine
from tests.chaos.stage import chaos_stack, read_admin_token
from tests.engine_process import run_engine
from tests.plugged.doors_model import make_doors_model

PACKAGE = Path(__file__).parents[1] / "plugged" / "doors_package.py"
MOST_LINES = 80
POINT = "[tentalis.worlds]\ndoors = tentalis_doors:DoorsWorld\n"
MODEL, SLUG = "doors-model", "doors"
UPDATES, TASKS, GROUP = 6, 32, 8
HELD_OUT, TRIES = 48, 4
CONFIDENCE = 0.9
STACK = {"TENTALIS_LEASE_SECONDS": "60", "TENTALIS_RUN_SILENCE_SECONDS": "120"}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--keep-in", type=Path, help="a home that stays, with its logs")
    options = parser.parse_args(argv)
    console = Console(width=160)
    with (
        tempfile.TemporaryDirectory(prefix="tentalis-bench-") as directory,
        install_doors(Path(directory) / "s") as world,
    ):
        model = Path(directory) / MODEL
        make_doors_model(model)
        row = learn(world, model, updates=options.updates, keep_in=options.keep_in, console=console)
    print_table(console, row)
    lines = len(PACKAGE.read_text(encoding="utf-8").splitlines())
    bars = {
        "lines of the package": {"found": lines, "wanted": MOST_LINES, "met": lines <= MOST_LINES},
        "offered in REST": {"found": row["is_shown"], "wanted": True, "met": row["is_shown"]},
        "adapters the gate measured": {"found": row["measured"], "wanted": row["adapters"],
                                       "met": row["measured"] == row["adapters"] > 0},
        "held-out gain above 0": {"found": row["low"], "wanted": 0.0, "met": row["low"] > 0.0},
    }  # fmt: skip
    print(json.dumps({"bench": "plugged_world", "rows": [row], "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


@contextmanager
def install_doors(site: Path) -> Iterator[Any]:
    """The package beside us and beside every process that is started meanwhile; its world."""
    with installed(site, "tentalis_doors", PACKAGE, POINT):
        yield importlib.import_module("tentalis_doors").DoorsWorld()


def learn(world: Any, model: Path, *, updates: int, keep_in: Path | None, console: Console) -> dict[str, Any]:
    """Let the team's worker learn in the package's world, on a stack of its own."""
    rng, started = random.Random(3), time.monotonic()
    with (
        run_engine(str(model)) as model_url,
        chaos_stack(settings=STACK, keep_in=keep_in) as stack,
        Client(stack.state().addresses["console_url"], token=read_admin_token(stack)) as team,
    ):
        set_up(team, model_url, model)
        examine(stack, "doors")
        is_shown = is_offered(stack.state().addresses["console_url"])
        measured = 0
        for update in range(1, updates + 1):
            begun = time.monotonic()
            teach(team, [world.draw_prompt(rng) for _ in range(TASKS)], rng)
            adapter, verdicts = train(team, update)
            measured += any(one["outcome"] in {"yes", "no"} for one in verdicts)
            words = " | ".join(f"{one['question']}: {one['words']}" for one in verdicts)
            told = (
                f"update {update:>2}: {adapter['name']} {adapter['state']} {time.monotonic() - begun:5.1f} s  {words}"
            )
            console.print(told, soft_wrap=True, markup=False, highlight=False)
        adapters = list(team.iterate(team.list_adapters, project=SLUG))
        serves = next((one["name"] for one in adapters if one["state"] == "deployed"), MODEL)
        items = world.panel(HELD_OUT, 5)
        base, final = ([play_item(model_url, name, world, item) for item in items] for name in (MODEL, serves))
    found = compare_paired(final, base, confidence=CONFIDENCE)
    return {
        "updates": updates, "held_out": len(items), "base": statistics.fmean(base), "final": statistics.fmean(final),
        "gain": found.difference, "low": found.low, "high": found.high, "adapters": len(adapters),
        "measured": measured, "promoted": sum(one["state"] in {"deployed", "retired"} for one in adapters),
        "is_shown": is_shown, "wall_s": round(time.monotonic() - started, 1),
    }  # fmt: skip


def set_up(team: Client, model_url: str, model: Path) -> None:
    """A project, a model server, a worker and held-out doors, as a stranger makes them."""
    team.create_project(
        slug=SLUG, name="Doors", group_size=GROUP, batch_tasks=1_000, review_policy={"who": "none"},
        recipe={"w_opd": 0.0, "w_rl": 1.0},
    )  # fmt: skip
    server = {"project": SLUG, "name": "own", "kind": "vllm", "base_url": f"{model_url}/v1", "allow_private": True}
    team.send(Call("POST", "providers", body=server))
    team.create_worker(
        project=SLUG, name="porter", kind="chat", provider="own", base_model=MODEL, base_directory=str(model),
        sampling={"max_tokens": 40, "temperature": 1.0},
    )  # fmt: skip
    team.send(Call("POST", "tasksets", body={"project": SLUG, "name": "doors", "environment": "doors"}))
    (taskset,) = team.iterate(team.list_tasksets, project=SLUG)
    drawn = {"split": "held_out", "count": HELD_OUT, "seed": 1}
    team.send(Call("POST", f"tasksets/{taskset['id']}/items", body=drawn))


def is_offered(console_url: str) -> bool:
    """Whether REST's schema offers the package's world to whoever gives a task. (The console's form lists the same:
    `tests/apps/worlds/test_plugins.py`.)"""
    schema = httpx.get(f"{console_url}/api/schema/?format=json", timeout=60).json()
    kinds = json.dumps(schema["components"]["schemas"])
    return '"doors"' in kinds


def teach(team: Client, prompts: Sequence[str], rng: random.Random) -> None:
    """Give doors to open, and wait until all of it is done."""
    lines = [json.dumps({"prompt": prompt, "seed": rng.randrange(2**31)}) for prompt in prompts]
    team.import_tasks(project=SLUG, text="\n".join(lines), form="jsonl", environment="doors", worker="porter")

    def is_done() -> bool | None:
        told = list(team.iterate(team.list_tasks, project=SLUG))
        if failed := [one for one in told if one["state"] == "failed"]:
            raise LoopOpenError(f"task {failed[0]['id']} failed: {failed[0]}")
        return all(one["state"] == "done" for one in told) or None

    wait_for(is_done, "tasks stay open")


def train(team: Client, update: int) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """Train with what the batch holds; the adapter, and what the gate says."""
    run = team.train(project=SLUG, worker="porter")

    def find_adapter() -> Mapping[str, Any] | None:
        told = team.get_run(run["id"])
        if told["state"] in {"failed", "refused", "cancelled"}:
            raise LoopOpenError(f"update {update}: run {run['id']} {told['state']}: {told.get('failure')}")
        made = [one for one in team.iterate(team.list_adapters, project=SLUG) if one["run"] == run["id"]]
        if not made or made[0]["state"] == "verified" or not team.list_verdicts(made[0]["id"])["results"]:
            return None
        return made[0]

    adapter = wait_for(find_adapter, f"update {update}: no adapter was judged")
    return adapter, team.list_verdicts(adapter["id"])["results"]


def play_item(model_url: str, model: str, world: Any, item: Any) -> float:
    """Share of tries at a held-out door in which it opens, at the team's own server."""
    with httpx.Client(base_url=f"{model_url}/v1/", timeout=60) as http, ThreadPoolExecutor(TRIES) as pool:
        return statistics.fmean(pool.map(lambda place: play_once(http.post, model, world, item, place), range(TRIES)))


def play_once(post: Callable[..., httpx.Response], model: str, world: Any, item: Any, place: int) -> float:
    state = world.reset(item.prompt, item.seed + place)
    messages: list[dict[str, Any]] = [{"role": "user", "content": item.prompt}]
    for turn in range(world.limits.turns):
        body = {
            "model": model, "messages": messages, "tools": list(world.tools(item.prompt)), "max_tokens": 40,
            "temperature": 1.0, "seed": item.seed % 2**31 + 101 * place + turn,
        }  # fmt: skip
        said = post("chat/completions", json=body).raise_for_status().json()["choices"][0]["message"]
        messages.append(said)
        if not said.get("tool_calls"):
            break
        for call in said["tool_calls"]:
            seen = act(world, state, call)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": seen})
    outcome: float = world.verify_state(item.prompt, None, state, AttemptDraft()).outcome
    return outcome


def act(world: Any, state: Any, call: Mapping[str, Any]) -> str:
    """As the platform: what is not in the tool's schema does nothing."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    wanted: dict[str, list[Any]] = {"look": [{}], "press": [{"button": one} for one in "abc"]}
    try:
        is_good = json.loads(arguments) in wanted.get(name, [])
    except ValueError:
        is_good = False
    if not is_good:
        return "error"
    text: str = world.act(state, ToolCall(id=call["id"], name=name, arguments=arguments), "").text
    return text


def print_table(console: Console, row: Mapping[str, Any]) -> None:
    table = Table(title="a world from a package, a model of the team's own, nobody asked")
    for column in (
        "held out",
        "base",
        "after",
        f"gain ({CONFIDENCE:.0%})",
        "adapters",
        "measured",
        "promoted",
        "wall s",
    ):
        table.add_column(column, justify="right")
    table.add_row(
        str(row["held_out"]), f"{row['base']:.1%}", f"{row['final']:.1%}",
        f"{100 * row['gain']:+.1f} [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]", str(row["adapters"]),
        str(row["measured"]), str(row["promoted"]), f"{row['wall_s']:.0f}",
    )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
