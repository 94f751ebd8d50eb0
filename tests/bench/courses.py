"""`python -m tests.bench.courses`: do the models that come along learn benchmarks by `tentalis train BENCH`?

Each benchmark is a project with a worker on the installation's own engine, and a course over REST: rounds of tasks from
its train split, trainings and the gate, from rows and queues. The referee is an evaluation of the base and of what
serves at the end on the same held-out items with the same seeds, compared by item. Exit 1 where fewer than five of them
gain (interval above 0), or fewer than all where these are not so many.

Beside benchmarks of what these models were made for stand two generators of reasoning-gym: those of whose questions
that fit the model it answers most by chance before it learns anything, told apart by name where it answers as many.

A data set with held-out items copied into its train split is offered first, and has to be refused.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from apps.evals.catalogue.reasoning import ENTRIES, SLOW
from apps.evals.reasoning import find_answer, score
from gpu_workers.apprentice import base_directory
from gpu_workers.engine.engine import Engine
from tentalis.client.clients import Client
from tentalis.client.errors import ApiError, BadRequestError
from tests.bench.own_work import LoopOpenError, wait_for
from tests.bench.world_loop import ANSWER_TOKENS, BASE, STACK
from tests.chaos.stage import chaos_stack, read_admin_token

BENCHMARKS: Final = ("desk/order", "desk/return", "terminal", "swe", "workbench")
REASONING: Final = "reasoning"
"""Stands for the generators of reasoning-gym that the rule chooses."""
GENERATORS_CHOSEN, QUESTIONS, ANSWERS, MOST_TOKENS = 2, 12, 8, 400
ROUNDS, TASKS, GROUP, PATIENCE, TRIES = 12, 24, 8, 6, 4
PATIENCE_S: Final = 3_600.0
GATE: Final = {"sweep_size": 0, "skills_size": 0}
LEAKED: Final = 0.3
GAIN_WANTED: Final = 5


@dataclass(frozen=True)
class CourseRow:
    """What came of one; shares of held-out items, each the mean of its tries."""

    benchmark: str
    rounds: int
    promoted: int
    base: float
    final: float
    gain: float
    low: float
    high: float
    ended: str
    minutes: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benchmarks", nargs="*", default=(*BENCHMARKS, REASONING))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep-in", type=Path, help="a home that stays, with its logs")
    options = parser.parse_args(argv)
    console = Console(width=160)
    names = [name for name in options.benchmarks if name != REASONING]
    if REASONING in options.benchmarks:
        names += choose_generators(console)
    with (
        chaos_stack(settings=STACK, keep_in=options.keep_in) as stack,
        Client(stack.state().addresses["console_url"], token=read_admin_token(stack)) as team,
    ):
        refused = offer_leak(team)
        console.print(f"a data set with {LEAKED:.0%} of its held-out items in its train split: {refused}")
        rows = [try_to_learn(team, name, options, console) for name in names]
    print_rows(console, rows)
    gained = sum(row.low > 0 for row in rows)
    is_met = gained >= min(len(rows), GAIN_WANTED) and bool(refused)
    told = {"rows": [asdict(row) for row in rows], "gained": gained, "leak_refused": refused, "met": is_met}
    console.print(json.dumps(told), soft_wrap=True, markup=False, highlight=False)
    return 0 if is_met else 1


def choose_generators(console: Console) -> list[str]:
    """Those whose easiest questions the base answers most; what is too long for it, or slow to make, is left out."""
    engine = Engine(BASE, base_directory())
    shares: dict[str, float] = {}
    for whole in ENTRIES:
        entry, generator = whole.at_level(0) if whole.at_level else whole, whole.name.removeprefix("rg/")
        if generator in SLOW:
            continue
        items = entry.list_items("train", count=QUESTIONS)
        texts = [engine.codec.render_chat([{"role": "user", "content": item.prompt}]) for item in items]
        prompts = engine.codec.encode(texts, add_special_tokens=False)
        if sum(map(len, prompts)) > MOST_TOKENS * len(prompts):
            continue
        drawn = engine.generate(prompts, n=ANSWERS, max_tokens=ANSWER_TOKENS, temperature=1.0, seed=0)
        graded = [
            score(
                generator,
                find_answer(engine.codec.decode(sample.token_ids)),
                {"question": item.prompt, **item.reference},
                item.reference["settings"],
            )
            for item, samples in zip(items, drawn, strict=True)
            for sample in samples
        ]
        shares[entry.name] = sum(graded) / len(graded)
    chosen = sorted(shares, key=lambda name: (-shares[name], name))[:GENERATORS_CHOSEN]
    told = ", ".join(f"{name} ({shares[name]:.2%})" for name in chosen)
    console.print(f"of {len(shares)} generators whose questions fit, the base answers most of {told}")
    return chosen


def try_to_learn(team: Client, name: str, options: Any, console: Console) -> CourseRow:
    """As `learn`; a course that did not come to its end has gained nothing, and says why."""
    try:
        return learn(team, name, options, console)
    except (ApiError, LoopOpenError) as error:
        return CourseRow(name, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, f"failed: {error}"[:200], 0.0)


def learn(team: Client, name: str, options: Any, console: Console) -> CourseRow:
    """Have a fresh worker learn a benchmark in a project of its own, and measure what came of it."""
    slug, started = f"course-{time.time_ns() // 10**6}", time.monotonic()
    world = name.partition("/")[0]
    team.create_project(
        slug=slug, name=name, group_size=GROUP, batch_tasks=1_000, review_policy={"who": "none"},
        recipe={"w_rl": 1.0, "w_opd": 0.0, "step_mix": 0.0}, gate_policy=GATE,
    )  # fmt: skip
    if world == "desk":
        team.create_worker(project=slug, name="learner", kind="desk")
    else:
        sampling = {"max_tokens": ANSWER_TOKENS, "temperature": 1.0}
        team.create_worker(project=slug, name="learner", kind="chat", base_model=BASE, sampling=sampling)
    benchmark = team.install_benchmark(project=slug, name=name, seed=options.seed)
    course = team.start_course(
        project=slug, worker="learner", benchmark=benchmark["id"], rounds=options.rounds, tasks=options.tasks,
        group_size=GROUP, patience=PATIENCE, seed=options.seed,
    )  # fmt: skip

    def find_end() -> Any:
        told = team.get_course(course["id"])
        return told if told["state"] not in ("running", "paused") else None

    ended = wait_for(find_end, f"the course of {name} goes on", patience_s=PATIENCE_S)
    curve = team.get_curve(course["id"])["results"]
    for point in curve:
        told = "" if point["mean"] is None else f"held-out {point['mean']:.3f}"
        console.print(f"{name} {point['round']:>2}: {told} {point['words']}", soft_wrap=True, highlight=False)
    adapters = [one["name"] for one in team.iterate(team.list_adapters, project=slug) if one["state"] == "deployed"]
    asked: dict[str, Any] = {
        "worker": "learner",
        "benchmark": benchmark["id"],
        "tries": TRIES,
        "seed": options.seed + 1,
    }
    base, final = (measure(team, slug, asked | more) for more in ({}, {"adapter": adapters[0]} if adapters else {}))
    minutes = (time.monotonic() - started) / 60
    found = {"difference": 0.0, "low": 0.0, "high": 0.0}
    if adapters:
        found = team.compare_evaluations(final["id"], base["id"])["outcomes"]
    return CourseRow(
        name, len(curve) - 1, sum(bool(point["is_better"]) for point in curve), base["mean_outcome"],
        final["mean_outcome"], found["difference"], found["low"], found["high"], ended["reason"], round(minutes, 1),
    )  # fmt: skip


def measure(team: Client, slug: str, asked: dict[str, Any]) -> Any:
    """An evaluation that is done."""
    made = team.ask_evaluation(project=slug, **asked)

    def find_done() -> Any:
        told = team.get_evaluation(made["id"])
        if told["state"] in ("failed", "cancelled"):
            raise LoopOpenError(f"evaluation {made['id']} {told['state']}: {told['failure']}")
        return told if told["state"] == "done" else None

    return wait_for(find_done, f"evaluation {made['id']} goes on", patience_s=PATIENCE_S)


def offer_leak(team: Client) -> str:
    """The refusal of a data set whose train split holds some of what it is measured on; "" where it is taken."""
    team.create_project(slug="leak", name="Leak")
    words = ("sea", "lake", "river", "hill", "road", "town", "field", "wood", "bridge", "tower")
    rows = [{"prompt": f"Name the {word} that lies nearest to us.", "split": "held_out"} for word in words]
    rows += [{"prompt": f"Which {word} would you go to see first?", "split": "train"} for word in words]
    rows += [row | {"split": "train"} for row in rows[: int(LEAKED * len(words))]]
    made = team.make_taskset(project="leak", name="leaking", environment="chat")
    try:
        team.add_items(made["id"], split="train", text="\n".join(map(json.dumps, rows)), form="jsonl")
    except BadRequestError as error:
        return str(error)[:200]
    return ""


def print_rows(console: Console, rows: Sequence[CourseRow]) -> None:
    table = Table(title="Courses of the models that come along, outcomes alone")
    for name in ("benchmark", "before", "after", "gain (95%)", "rounds", "promoted", "ended", "min"):
        table.add_column(name, justify="left" if name in ("benchmark", "ended") else "right")
    for row in rows:
        gain = f"{100 * row.gain:+.1f} [{100 * row.low:+.1f}, {100 * row.high:+.1f}]"
        table.add_row(
            row.benchmark, f"{row.base:.1%}", f"{row.final:.1%}", gain, str(row.rounds), str(row.promoted), row.ended,
            f"{row.minutes:.1f}",
        )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
