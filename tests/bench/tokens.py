"""`python -m tests.bench.tokens`: are an episode's tokens those that the engine sampled and was given?

Episodes of each kind of agent (the desk, a chat agent that answers once, one that takes turns in a world with
tools) at several temperatures, against an engine in this process whose own log of jobs is kept: every stretch that an
agent calls sampled must be in it, behind exactly the tokens that stand before it, with the same log-probs. Then the
trainer's own code reads each sequence with the same weights: at the policy that sampled, the ratio of its
probabilities to the told ones is 1. Exit 1 when one sequence differs, or a ratio is further away than a thousandth.
"""

import argparse
import asyncio
import json
import math
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from aiohttp import web
from rich.console import Console
from rich.table import Table

from tests.bench.plugged_world import install_doors
from tests.local_server import find_free_port

EPISODES, GROUP = 1_000, 8
TEMPERATURES = (0.6, 1.0, 1.3)
KINDS = ("desk", "chat", "turned chat")
RATIO_WITHIN = 1e-3


Drawn = dict[tuple[tuple[int, ...], tuple[int, ...]], list[Any]]
"""(prompt, answer) -> the log-probs that it was drawn with, each time that it was."""


class Sequenced(NamedTuple):
    """A sequence of tokens as an agent hands it on."""

    prompt: Sequence[int]
    tokens: Sequence[int]
    logprobs: Sequence[float]
    sampled: Sequence[bool]


@dataclass(frozen=True)
class Found:
    """One row of the table.

    Args:
        sequences: more than episodes where one is several. differing: of them, those the engine's log does not have.
        ratio_off: how far the trainer's probability of a sampled token is from the told one at most, as a ratio.
    """

    kind: str
    temperature: float
    episodes: int
    turns: int
    sequences: int
    tokens: int
    differing: int
    ratio_off: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=EPISODES, help="of each kind, over all temperatures")
    options = parser.parse_args(argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tentalis.settings.test")
    each = -(-options.episodes // len(TEMPERATURES))
    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as directory, install_doors(Path(directory)):
        import django

        django.setup()
        rows = [row for kind in KINDS for row in measure_kind(kind, each)]
    print_table(rows)
    differing, off = sum(row.differing for row in rows), max(row.ratio_off for row in rows)
    bars: dict[str, dict[str, Any]] = {
        "sequences that differ": {"found": differing, "wanted": 0, "met": not differing},
        "ratio off 1": {"found": off, "wanted": RATIO_WITHIN, "met": off <= RATIO_WITHIN},
        "episodes of each kind": {"found": each * len(TEMPERATURES), "wanted": options.episodes, "met": True},
    }
    print(json.dumps({"bench": "tokens", "rows": [asdict(row) for row in rows], "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


def measure_kind(kind: str, count: int) -> Iterator[Found]:
    """One row a temperature."""
    from apps.inference.client import ModelClient
    from gpu_workers.backends.base_models import load_base
    from gpu_workers.backends.micro_batches import score_answers
    from gpu_workers.desk import base_directory
    from tests.plugged.doors_model import make_doors_model

    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as directory:
        model = base_directory() if kind == "desk" else Path(directory) / "doors-model"
        if kind != "desk":
            make_doors_model(model)
        base = load_base(str(model))
        with serve_logged(str(model)) as (address, log):
            client = ModelClient(address, allow_private=True)
            for temperature in TEMPERATURES:
                log.clear()
                found, turns = PLAYERS[kind](client, temperature, count)
                drawn: Drawn = {}
                for job in log:
                    for place, sample in enumerate(job.samples):
                        prompt = tuple(job.prompts[place // job.options.n])
                        drawn.setdefault((prompt, tuple(sample.token_ids)), []).append(sample.logprobs)
                items = [(one.prompt, one.tokens) for one in found]
                read = score_answers(base, items, {}, [temperature] * len(items))
                yield Found(
                    kind=kind, temperature=temperature, episodes=count, turns=turns, sequences=len(found),
                    tokens=sum(sum(one.sampled) for one in found),
                    differing=sum(not is_logged(one, drawn) for one in found),
                    ratio_off=max(
                        abs(math.expm1(now - told))
                        for one, row in zip(found, read, strict=True)
                        for now, told, own in zip(row, one.logprobs, one.sampled, strict=True)
                        if own
                    ),
                )  # fmt: skip


def is_logged(one: Sequenced, drawn: Drawn) -> bool:
    """Whether each sampled stretch is an answer of the engine's to exactly what stands before it.

    The last may be cut short: an agent with a budget of tokens leaves out what is beyond it.
    """
    place = 0
    while place < len(one.tokens):
        if not one.sampled[place]:
            place += 1
            continue
        end = next((at for at in range(place, len(one.tokens)) if not one.sampled[at]), len(one.tokens))
        before, run = (*one.prompt, *one.tokens[:place]), tuple(one.tokens[place:end])
        told = drawn.get((before, run), [])
        if not told and end == len(one.tokens):
            told = [
                row for key, rows in drawn.items() if key[0] == before and key[1][: len(run)] == run for row in rows
            ]
        mine = np.asarray(one.logprobs[place:end], dtype=np.float32)
        if not any(np.array_equal(mine, row[: len(run)]) for row in told):
            return False
        place = end
    return len(one.tokens) == len(one.sampled) == len(one.logprobs)


# --- the kinds of agents ---------------------------------------------------------------------------------------------


def play_desk(client: Any, temperature: float, count: int) -> tuple[list[Sequenced], int]:
    from apps.worlds.desk.agent import DeskAgent
    from apps.worlds.desk.world import DeskWorld
    from tentalis.core.desk import make_tickets

    prompts = [ticket.text for ticket in make_tickets(11, -(-count // GROUP), held_out=False)]
    return work(DeskAgent(client, temperature=temperature), DeskWorld(), prompts, "desk", count)


def play_chat(client: Any, temperature: float, count: int) -> tuple[list[Sequenced], int]:
    from apps.workers.agents.chat import ChatAgent
    from apps.worlds.chat.world import ChatWorld

    agent = ChatAgent(client, temperature=temperature, max_tokens=40)
    return work(agent, ChatWorld(), draw_doors(-(-count // GROUP)), "doors-model", count)


def work(agent: Any, world: Any, prompts: Sequence[str], model: str, count: int) -> tuple[list[Sequenced], int]:
    seeds = list(range(len(prompts)))
    groups = agent.work(prompts=prompts, world=world, group_size=GROUP, seeds=seeds, model=model)
    drafts = [draft for group in groups for draft in group][:count]
    return [Sequenced(one.prompt_token_ids, one.token_ids, one.logprobs, one.sampled) for one in drafts], len(drafts)


def play_turns(client: Any, temperature: float, count: int) -> tuple[list[Sequenced], int]:
    from apps.workers.agents.chat import ChatAgent
    from apps.worlds.episodes import Episode
    from apps.worlds.playing import play
    from tentalis.core.conversations.joining import Call, join_calls, split_chains
    from tests.plugged.doors_package import DoorsWorld

    world = DoorsWorld()
    episodes = [
        Episode(key=f"{place}", prompt=prompt, seed=place, sampling_seed=place, opening=world.messages_for(prompt, ""))
        for place, prompt in enumerate(draw_doors(count))
    ]
    agent = ChatAgent(client, temperature=temperature, max_tokens=40, context_tokens=512)
    play(episodes, world=world, agent=agent, model="doors-model")
    found = []
    for episode in episodes:
        drafts = [turn.draft for turn in episode.turns]
        calls = [Call(one.prompt_token_ids, one.token_ids, one.logprobs, one.sampled) for one in drafts]
        found += [Sequenced(*join_calls(chain)[:4]) for chain in split_chains(calls)]
    return found, sum(len(episode.turns) for episode in episodes)


def draw_doors(count: int) -> list[str]:
    from tests.plugged.doors_package import DoorsWorld

    rng = Random(7)
    return [DoorsWorld().draw_prompt(rng) for _ in range(count)]


PLAYERS: dict[str, Callable[[Any, float, int], tuple[list[Sequenced], int]]] = {
    "desk": play_desk,
    "chat": play_chat,
    "turned chat": play_turns,
}


# --- the engine, and its log -----------------------------------------------------------------------------------------


@contextmanager
def serve_logged(model: str) -> Iterator[tuple[str, list[Any]]]:
    """An engine in this process; its address, and every job that it was given."""
    from gpu_workers.engine import Engine
    from gpu_workers.engine.jobs import Job
    from gpu_workers.engine.server import EngineServer

    log: list[Job] = []

    class LoggedEngine(Engine):
        def submit(self, job: Job) -> None:
            log.append(job)
            super().submit(job)

    port, loop = find_free_port(), asyncio.new_event_loop()
    server = EngineServer(LoggedEngine(Path(model).name if Path(model).name != "base" else "desk", Path(model)),
                          host="127.0.0.1")  # fmt: skip
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> web.AppRunner:
        runner = web.AppRunner(server.app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        server.start()
        return runner

    async def stop(runner: web.AppRunner) -> None:
        await server.stop(drain_s=5)
        await runner.cleanup()

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield f"http://127.0.0.1:{port}", log
    finally:
        asyncio.run_coroutine_threadsafe(stop(runner), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def print_table(rows: Sequence[Found]) -> None:
    table = Table(title="episodes' tokens against the engine's own log, and against the trainer")
    for column in (
        "agent",
        "temperature",
        "episodes",
        "turns",
        "sequences",
        "sampled tokens",
        "differing",
        "ratio off",
    ):
        table.add_column(column, justify="left" if column == "agent" else "right")
    for row in rows:
        table.add_row(
            row.kind, f"{row.temperature:g}", str(row.episodes), str(row.turns), str(row.sequences), str(row.tokens),
            str(row.differing), f"{row.ratio_off:.1e}",
        )  # fmt: skip
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
