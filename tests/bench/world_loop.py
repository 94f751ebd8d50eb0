"""Learning in a world with turns, from rows and queues: what the benches of single worlds have in common.

A worker of kind `chat` on the installation's own engine gets tasks over REST, each attempt is an episode, and after
each portion it is trained; the gate measures every adapter on held-out tasks before it serves. The referee is not the
platform: the base and what serves at the end play each held-out task some times at the engine's chat API, in sandboxes
of the same host, and the world's own verdict on the state counts.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
from django.conf import settings
from rich.console import Console
from rich.table import Table

from tentalis.client.clients import Client
from tentalis.client.endpoints.calls import Call
from tentalis.core.learning.gate import compare_paired
from tentalis.core.worlds import AttemptDraft, PanelItem, ToolCall, World
from tentalis.platform.up import RunningStack
from tests.bench.own_work import LoopOpenError, wait_for
from tests.chaos.stage import make_environ, read_admin_token

BASE: Final = "apprentice"
WORKER: Final = "apprentice"
ANSWER_TOKENS: Final = 96
CONFIDENCE: Final = 0.95
AT_ONCE: Final = 32
PATIENCE_S: Final = 900.0
"""With an update: a world of the platform is examined before the first one."""
GATE: Final = {"sweep_size": 0, "skills_size": 0}
"""The gate measures each adapter on the held-out tasks alone, not at other strengths nor on what the base could do."""
STACK: Final = {
    "TENTALIS_LEASE_SECONDS": "60",
    "TENTALIS_RUN_SILENCE_SECONDS": "120",
    "TENTALIS_QUEUE_PROCESSES": "workers=threads:16;scorers,hints,gates,control=threads:8",
}
Say = Callable[[str], str]
"""What a task's prompt is told as."""


@dataclass(frozen=True)
class LoopSizes:
    """How much is learnt from, and measured on.

    Args:
        tasks: an update. group: attempts a task. gate_items: held-out tasks that the gate has.
        held_out: of the referee, each tried so many `tries`.
    """

    updates: int = 10
    tasks: int = 24
    group: int = 8
    gate_items: int = 24
    held_out: int = 120
    tries: int = 4


@dataclass(frozen=True)
class LoopArm:
    """One way to learn.

    Args:
        environment: another name for the world that tasks are given in; "": the world's own.
    """

    name: str
    review_policy: Mapping[str, Any] = field(default_factory=lambda: {"who": "none"})
    recipe: Mapping[str, Any] = field(default_factory=dict)
    environment: str = ""


OUTCOME: Final = LoopArm("outcome only", recipe={"w_rl": 1.0, "w_opd": 0.0, "step_mix": 0.0})
WHOLE: Final = LoopArm(
    "outcome, steps and hints",
    review_policy={"who": "ai", "ai_manager": "rule-book"},
    recipe={"w_rl": 0.7, "w_opd": 0.3},
)


@dataclass(frozen=True)
class LoopRow:
    """What came of one arm with one seed; shares of held-out tries that went right."""

    arm: str
    seed: int
    base: float
    final: float
    gain: float
    low: float
    high: float
    updates: int = 0
    attempts: int = 0
    promoted: int = 0
    minutes: float = 0.0


def learn(stack: RunningStack, world: World, arm: LoopArm, seed: int, *, sizes: LoopSizes, console: Console) -> LoopRow:
    """Let a fresh worker learn in a project of its own, and measure what came of it."""
    slug, started = f"loop-{time.time_ns() // 10**6}", time.monotonic()
    rng, referee = random.Random(seed + 100), Referee.of(stack, world, sizes)
    environment = arm.environment or world.name
    with Client(stack.state().addresses["console_url"], token=read_admin_token(stack)) as team:
        set_up(team, slug, environment, arm, sizes, seed=seed)
        for update in range(1, sizes.updates + 1):
            begun = time.monotonic()
            teach(team, slug, environment, [world.draw_prompt(rng) or "" for _ in range(sizes.tasks)], rng)
            taught_s = time.monotonic() - begun
            adapter, words = train(team, slug, update)
            told = f"update {update:>2}: worked {taught_s:4.1f} s, all {time.monotonic() - begun:5.1f} s, "
            console.print(f"{told}{adapter} {words}", soft_wrap=True, markup=False, highlight=False)
        adapters = list(team.iterate(team.list_adapters, project=slug))
    minutes = (time.monotonic() - started) / 60
    serves = next((one["name"] for one in adapters if one["state"] == "deployed"), BASE)
    base, final = (referee.measure(name, seed=seed) for name in (BASE, serves))
    return make_row(
        arm.name, seed, base, final, updates=sizes.updates, attempts=sizes.updates * sizes.tasks * sizes.group,
        promoted=sum(one["state"] in {"deployed", "retired"} for one in adapters), minutes=round(minutes, 1),
    )  # fmt: skip


def make_row(arm: str, seed: int, base: Sequence[float], final: Sequence[float], **rest: Any) -> LoopRow:
    """Args: base, final: (items,) shares of tries."""
    found = compare_paired(final, base, confidence=CONFIDENCE)
    return LoopRow(
        arm, seed, statistics.fmean(base), statistics.fmean(final), found.difference, found.low, found.high, **rest
    )


def examine(stack: RunningStack, world: str, *, accept: str = "") -> None:
    """Once, as whoever installed a world of another package does: nothing trains in one that nobody examined.

    Args:
        accept: why it may train whatever is found.
    """
    asked = [sys.executable, "-m", "tentalis", "world", "doctor", world, f"--accept={accept}"]
    environ = {**make_environ(), "TENTALIS_HOME": str(stack.home.root)}
    done = subprocess.run(asked, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoopOpenError(f"{world} failed its examination: {done.stdout}{done.stderr}")


def set_up(team: Client, slug: str, environment: str, arm: LoopArm, sizes: LoopSizes, *, seed: int) -> None:
    """A project, a worker on the installation's own engine, and held-out tasks for the gate."""
    team.create_project(
        slug=slug, name=f"{environment}, {arm.name}, {seed}", group_size=sizes.group, batch_tasks=1_000,
        review_policy=dict(arm.review_policy), recipe=dict(arm.recipe), gate_policy=dict(GATE),
    )  # fmt: skip
    team.create_worker(
        project=slug, name=WORKER, kind="chat", base_model=BASE,
        sampling={"max_tokens": ANSWER_TOKENS, "temperature": 1.0},
    )  # fmt: skip
    team.send(Call("POST", "tasksets", body={"project": slug, "name": "held-out", "environment": environment}))
    (taskset,) = team.iterate(team.list_tasksets, project=slug)
    drawn = {"split": "held_out", "count": sizes.gate_items, "seed": seed + 1}
    team.send(Call("POST", f"tasksets/{taskset['id']}/items", body=drawn))


def teach(team: Client, slug: str, environment: str, prompts: Sequence[str], rng: random.Random) -> None:
    """Give tasks, and wait until all of it is done."""
    lines = [json.dumps({"prompt": prompt, "seed": rng.randrange(2**31)}) for prompt in prompts]
    team.import_tasks(project=slug, text="\n".join(lines), form="jsonl", environment=environment, worker=WORKER)

    def is_done() -> bool | None:
        told = list(team.iterate(team.list_tasks, project=slug))
        if failed := [one for one in told if one["state"] == "failed"]:
            raise LoopOpenError(f"task {failed[0]['id']} failed: {failed[0]}")
        return all(one["state"] == "done" for one in told) or None

    wait_for(is_done, "tasks stay open", patience_s=PATIENCE_S)


def train(team: Client, slug: str, update: int) -> tuple[str, str]:
    """Train with what the batch holds; the adapter and what the gate says, or why nothing could be learnt."""
    run = team.train(project=slug, worker=WORKER)

    def find_adapter() -> tuple[str, str] | None:
        told = team.get_run(run["id"])
        if told["state"] in {"failed", "refused", "cancelled"}:
            if "nothing" in str(told.get("failure")).lower():
                return "", f"{told['state']}: {told.get('failure')}"
            raise LoopOpenError(f"update {update}: run {run['id']} {told['state']}: {told.get('failure')}")
        made = [one for one in team.iterate(team.list_adapters, project=slug) if one["run"] == run["id"]]
        if not made or made[0]["state"] == "verified" or not (found := team.list_verdicts(made[0]["id"])["results"]):
            return None
        said = " | ".join(f"{one['question']}: {one['words']}" for one in found)
        return f"{made[0]['name']} {made[0]['state']}", said

    return wait_for(find_adapter, f"update {update}: no adapter was judged", patience_s=PATIENCE_S)


@dataclass(frozen=True)
class Referee:
    """Plays at the engine's chat API, and asks the world what came of it. Its sandboxes are those of the stack."""

    engine_url: str
    engine_key: str
    world: World
    sizes: LoopSizes

    @classmethod
    def of(cls, stack: RunningStack, world: World, sizes: LoopSizes) -> "Referee":
        settings.SANDBOXES = stack.home.sandboxes
        key = stack.environment(os.environ)["TENTALIS_ENGINE_KEY"]
        return cls(stack.state().addresses["engine_url"], key, world, sizes)

    def measure(self, model: str, *, seed: int, say: Say = str) -> list[float]:
        """(items,) share of tries at each held-out task that go right; every seed has tasks of its own."""
        return self.try_items(model, self.world.panel(self.sizes.held_out, 1_000 + seed), self.sizes.tries, say)

    def try_items(self, model: str, items: Sequence[PanelItem], tries: int, say: Say = str) -> list[float]:
        """(items,) shares of tries that go right."""
        places = [(item, place) for item in items for place in range(tries)]
        bearer = {"Authorization": f"Bearer {self.engine_key}"}
        with (
            httpx.Client(base_url=f"{self.engine_url}/v1/", headers=bearer, timeout=120) as http,
            ThreadPoolExecutor(AT_ONCE) as pool,
        ):
            found = list(pool.map(lambda one: self._play(http, model, one[0], one[1], say(one[0].prompt)), places))
        return [statistics.fmean(found[start : start + tries]) for start in range(0, len(found), tries)]

    def _play(self, http: httpx.Client, model: str, item: PanelItem, place: int, prompt: str) -> float:
        world, state = self.world, self.world.reset(item.prompt, item.seed + place)
        tools = list(world.tools(item.prompt))
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        try:
            for turn in range(world.limits.turns):
                body = {
                    "model": model, "messages": messages, "tools": tools, "max_tokens": ANSWER_TOKENS,
                    "temperature": 1.0, "seed": (item.seed + 7_919 * place + 101 * turn) % 2**31,
                }  # fmt: skip
                answer = http.post("chat/completions", json=body).raise_for_status().json()
                said = answer["choices"][0]["message"]
                messages.append(said)
                ends = not said.get("tool_calls")
                for number, call in enumerate(said.get("tool_calls") or ()):
                    function = call["function"]
                    made = ToolCall(id=call["id"], name=function["name"], arguments=function["arguments"])
                    seen = world.act(state, made, f"{turn}-{number}")
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": seen.text})
                    ends = ends or seen.ends
                if ends:
                    break
            told = world.verify_state(item.prompt, None, state, AttemptDraft())
            if told is None or told.outcome is None:
                raise LoopOpenError(f"{world.name} could not verify {item.prompt!r}: {told}")
            return float(told.outcome)
        finally:
            world.close(state)


def print_rows(console: Console, rows: Sequence[LoopRow], *, title: str) -> None:
    table = Table(title=title)
    gained = f"gain ({CONFIDENCE:.0%})"
    for name in ("arm", "seed", "before", "after", gained, "updates", "attempts", "promoted", "min"):
        table.add_column(name, justify="left" if name == "arm" else "right")
    for row in rows:
        gain = f"{100 * row.gain:+.1f} [{100 * row.low:+.1f}, {100 * row.high:+.1f}]"
        table.add_row(
            row.arm, str(row.seed), f"{row.base:.1%}", f"{row.final:.1%}", gain, str(row.updates), str(row.attempts),
            str(row.promoted), f"{row.minutes:.1f}",
        )  # fmt: skip
    console.print(table)
