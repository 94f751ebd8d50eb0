"""`python -m tests.bench.gui`: is the GUI world what it says, and what does it cost?

In a real Chromium: the house's own way through tasks of every family, an agent that does nothing, and one that acts at
random (any element of the page, words of the task typed, any option chosen), which also acts ten times as often on the
same pages without a browser; calls a second, alone and side by side; memory of an episode's context; and what is left
behind. Exit 1 when a bar is missed.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from copy import deepcopy
from random import Random
from typing import Any

import django
import psutil
from rich.console import Console
from rich.table import Table

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tentalis.settings.test")
django.setup()

from apps.worlds.gui import world as gui  # noqa: E402 - settings first
from apps.worlds.gui.world import KEYS, GuiState, GuiWorld  # noqa: E402
from tentalis.core.gui.reading import PageReader  # noqa: E402
from tentalis.core.gui.site import START, open_page, send_form  # noqa: E402
from tentalis.core.gui.tasks import FAMILIES, draw_task, read_task, settle_task  # noqa: E402
from tentalis.core.scoring.calibration import wilson_interval  # noqa: E402
from tentalis.core.worlds import AttemptDraft, ToolCall  # noqa: E402

EPISODES = 10
CONTEXTS, AT_ONCE = 8, 4
FLOOR = 0.05
MB = 1e6
WORLD = GuiWorld()
Look = Callable[[], Sequence[Mapping[str, Any]]]
"""The elements of the page as it is now."""
Agent = Callable[[Look, str, Random], Iterator[ToolCall]]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=EPISODES, help="of each family and agent")
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    bars: dict[str, dict[str, Any]] = {}
    agents: dict[str, Agent] = {"oracle": follow_house, "do nothing": do_nothing, "random": act_at_random}
    for name, agent in agents.items():
        done = [play_family(family, agent, options.episodes) for family in FAMILIES]
        rows.append({"agent": name, **sum_up(done)})
    paper = [play_family(family, act_at_random, 10 * options.episodes, on=play_on_paper) for family in FAMILIES]
    rows.append({"agent": "random, without a browser", **sum_up(paper)})
    for row in rows:
        if row["agent"] == "oracle":
            bars["oracle"] = {"found": row["rate"], "wanted": 1.0, "met": row["rate"] == 1.0}
        else:
            bars[f"{row['agent']}, upper end"] = {"found": row["high"], "wanted": FLOOR, "met": row["high"] < FLOOR}
    speed = {"alone": measure_speed(1), f"{AT_ONCE} side by side": measure_speed(AT_ONCE)}
    memory = measure_memory()
    gui._open_host().stop()
    left = len(psutil.Process().children(recursive=True))
    bars["processes left"] = {"found": left, "wanted": 0, "met": left == 0}
    print_tables(Console(width=140), rows, speed, memory)
    print(json.dumps({"bench": "gui", "rows": rows, "calls_per_s": speed, "memory": memory, "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


# --- agents ----------------------------------------------------------------------------------------------------------


def follow_house(look: Look, prompt: str, rng: Random) -> Iterator[ToolCall]:
    yield from WORLD.solve(prompt, None).calls


def do_nothing(look: Look, prompt: str, rng: Random) -> Iterator[ToolCall]:
    yield ToolCall(id="c", name="done")


def act_at_random(look: Look, prompt: str, rng: Random) -> Iterator[ToolCall]:
    """Calls that can be done; words typed are of the task."""
    words = prompt.partition(": ")[2].replace(".", " ").replace(",", " ").split()
    for _ in range(WORLD.limits.turns - 1):
        elements = look()
        number = rng.randint(1, len(elements))
        one = elements[number - 1]
        draw = rng.random()
        told: dict[str, Any] = {"element": number}
        if draw < 0.03:
            name, told = "scroll", {"direction": rng.choice(["up", "down"])}
        elif draw < 0.06:
            name, told = "key", {"key": rng.choice(KEYS)}
        elif one["role"] == "textbox":
            start = rng.randrange(len(words))
            name, told["text"] = "type", " ".join(words[start : start + rng.randint(1, 3)])
        elif one["role"] == "combobox":
            name, told["option"] = "select", rng.choice(one["options"])
        else:
            name = "click"
        yield ToolCall(id="c", name=name, arguments=json.dumps(told))
    yield ToolCall(id="c", name="done")


# --- playing ---------------------------------------------------------------------------------------------------------


def play(agent: Agent, prompt: str, rng: Random) -> dict[str, Any]:
    started = time.monotonic()
    state = WORLD.reset(prompt, None)
    with closing(_Closing(state)):
        began = time.monotonic()
        for place, call in enumerate(agent(lambda: state.view.elements, prompt, rng)):
            WORLD.act(state, call, str(place))
        ended = time.monotonic()
        found = WORLD.verify_state(prompt, None, state, AttemptDraft())
    return {"right": found.outcome == 1.0, "calls": state.calls, "valid": state.valid,
            "reset_s": began - started, "act_s": ended - began}  # fmt: skip


class _Closing:
    def __init__(self, state: GuiState) -> None:
        self.state = state

    def close(self) -> None:
        WORLD.close(self.state)


def play_on_paper(agent: Agent, prompt: str, rng: Random) -> dict[str, Any]:
    """The same by the site's pages alone: what scrolls or presses a key does nothing there."""
    settled = settle_task(read_task(prompt))
    shop, calls = deepcopy(settled.before), 0
    pages = [PageReader(open_page(shop, START).html)]
    for call in agent(lambda: [vars(one) for one in pages[-1].elements], prompt, rng):
        page = pages[-1]
        calls, told = calls + 1, json.loads(call.arguments)
        if call.name in {"type", "select"}:
            page.elements[told["element"] - 1].value = told.get("text") or told.get("option")
        elif call.name == "click" and (asked := page.click(told["element"])):
            method, path, form = asked
            pages.append(PageReader((send_form(shop, path, form) if method == "post" else open_page(shop, path)).html))
    return {"right": shop == settled.after, "calls": calls, "valid": calls, "reset_s": 0.0, "act_s": 0.0}


def play_family(
    family: str, agent: Agent, episodes: int, on: Callable[..., dict[str, Any]] = play
) -> list[dict[str, Any]]:
    """Trained and held-out tasks in turn."""
    rng = Random(f"bench/{family}")
    prompts = [draw_task(rng, held_out=bool(place % 2), family=family).prompt for place in range(episodes)]
    return [on(agent, prompt, rng) for prompt in prompts]


def sum_up(done: Sequence[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    flat = [one for family in done for one in family]
    right, calls = sum(one["right"] for one in flat), sum(one["calls"] for one in flat)
    found = wilson_interval(right, len(flat))
    return {
        "families": len(done), "episodes": len(flat), "right": right, "rate": right / len(flat),
        "low": found.low, "high": found.high, "calls": calls, "valid": sum(one["valid"] for one in flat) / calls,
        "reset_ms": round(1_000 * sum(one["reset_s"] for one in flat) / len(flat), 1),
        "call_ms": round(1_000 * sum(one["act_s"] for one in flat) / calls, 1),
    }  # fmt: skip


def measure_speed(at_once: int) -> float:
    """Calls a second of the house's own way, screenshots included, resets too."""
    rng = Random("bench speed")
    prompts = [draw_task(rng, held_out=False).prompt for _ in range(6 * at_once)]
    started = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        done = list(pool.map(lambda prompt: play(follow_house, prompt, rng), prompts))
    return float(round(sum(one["calls"] for one in done) / (time.monotonic() - started), 1))


def measure_memory() -> dict[str, float]:
    """Of browser and driver, MB that no other process shares: with one context, and for each one more."""
    prompts = [draw_task(Random(place), held_out=False).prompt for place in range(CONTEXTS + 1)]
    with ExitStack() as stack:
        sizes = []
        for prompt in prompts:
            state = WORLD.reset(prompt, None)
            stack.callback(WORLD.close, state)
            for place, call in enumerate(WORLD.solve(prompt, None).calls):
                WORLD.act(state, call, str(place))
            sizes.append(sum_memory())
        return {"one_context_mb": sizes[0], "another_context_mb": round((sizes[-1] - sizes[0]) / CONTEXTS, 1)}


def sum_memory() -> float:
    family = psutil.Process().children(recursive=True)
    return float(round(sum(one.memory_full_info().uss for one in family) / MB, 1))


def print_tables(
    console: Console, rows: Sequence[dict[str, Any]], speed: dict[str, float], memory: dict[str, float]
) -> None:
    table = Table(title="a shop's site in a browser")
    for column in ("agent", "families", "episodes", "right", "95 %", "calls", "valid", "reset ms", "call ms"):
        table.add_column(column, justify="left" if column == "agent" else "right")
    for row in rows:
        interval = f"[{row['low']:.1%}, {row['high']:.1%}]"
        table.add_row(
            row["agent"], str(row["families"]), str(row["episodes"]), f"{row['rate']:.1%}", interval,
            str(row["calls"]), f"{row['valid']:.1%}", str(row["reset_ms"]), str(row["call_ms"]),
        )  # fmt: skip
    console.print(table)
    told = ", ".join(f"{name}: {value}" for name, value in speed.items())
    console.print(f"calls a second, resets and screenshots included: {told}")
    console.print(
        f"memory: {memory['one_context_mb']} MB with one context, {memory['another_context_mb']} MB each more"
    )


if __name__ == "__main__":
    sys.exit(main())
