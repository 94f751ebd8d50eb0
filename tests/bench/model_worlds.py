"""`make bench BENCH=model_worlds ARGS="--model gemma-3-270m"`: what a pretrained model can do, untaught, in the worlds
that the built-in apprentice learns in (`terminal`, `swe`, `workbench`).

A worker on the kept model tries held-out tasks as `tentalis eval run WORKER --environment WORLD` has it do, sampled;
what came of each try, its turns and its tokens are what the evaluation kept. There is no bar but that every try was
verified: whatever it shows is where learning would begin. Without the model nothing is measured, and the exit code is
2.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tentalis.client.clients import Client
from tentalis.kept_models import KeptModel, KeptModelError, find_model, models_directory
from tentalis.platform.home import Home
from tentalis.platform.model_adding import add_model
from tentalis.platform.up import RunningStack
from tests.bench.own_work import LoopOpenError, wait_for
from tests.chaos.stage import chaos_stack, read_admin_token

WORLDS: Final = ("terminal", "swe", "workbench")
ITEMS: Final = 30
ANSWER_TOKENS: Final = 96
"""As the apprentice of `world_loop` has."""
STACK: Final = {"TENTALIS_TORCH_THREADS": "1", "TENTALIS_LEASE_SECONDS": "60"}
PATIENCE_S: Final = 3_600.0
NOT_MEASURED: Final = 2
WORKER: Final = "untaught"


@dataclass(frozen=True)
class WorldRow:
    """What a model did in a world.

    Args:
        outcome: mean over tries, with its 95 % interval. unscored: tries that nobody could verify.
        turns, written, read: means a try; tokens. tokens_s: written by all tries together, a second of the evaluation.
    """

    world: str
    tries: int
    outcome: float | None
    low: float | None
    high: float | None
    unscored: int
    turns: float
    read: float
    written: float
    seconds: float
    tokens_s: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gemma-3-270m", help="as it is kept in the home")
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep-in", type=Path, help="a home that stays, with its logs")
    options = parser.parse_args(argv)
    console = Console(width=160)
    try:
        kept = find_model(Home.find(os.environ).root, options.model)
    except KeptModelError as error:
        console.print(f"NOT MEASURED: {error}", markup=False, highlight=False)
        return NOT_MEASURED
    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as name:
        home = options.keep_in or Path(name)
        keep(home, kept)
        with chaos_stack(settings=STACK, keep_in=home) as stack:
            rows = play(stack, options, console)
    bars = {f"{row.world}: unverified": {"found": row.unscored, "wanted": 0, "met": not row.unscored} for row in rows}
    told = {"bench": "model_worlds", "model": options.model, "rows": [asdict(row) for row in rows], "bars": bars}
    print(json.dumps(told))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


def keep(home: Path, kept: KeptModel) -> None:
    """The model in the bench's home: with the plain template, where its own has no place for tools."""
    place = models_directory(home) / kept.name
    if place.exists():
        return
    template = kept.directory / "chat_template.jinja"
    if template.is_file() and "tools" in template.read_text(encoding="utf-8"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(kept.directory, target_is_directory=True)
        return
    Home(home).prepare()
    add_model(home, kept.directory, name=kept.name, template="plain", licence=kept.licence, say=lambda words: None)


def play(stack: RunningStack, options: argparse.Namespace, console: Console) -> list[WorldRow]:
    rows = []
    with Client(stack.state().addresses["console_url"], token=read_admin_token(stack)) as team:
        slug = f"worlds-{time.time_ns() // 10**6}"
        team.create_project(slug=slug, name=options.model)
        team.create_worker(
            project=slug, name=WORKER, kind="chat", base_model=options.model,
            sampling={"max_tokens": ANSWER_TOKENS, "temperature": 1.0},
        )  # fmt: skip
        for world in options.worlds:
            row = try_world(team, slug, world, items=options.items, seed=options.seed)
            console.print(json.dumps(asdict(row)), soft_wrap=True, markup=False, highlight=False)
            rows.append(row)
    print_rows(console, rows, title=f"{options.model}, untaught, held-out tasks, sampled")
    return rows


def try_world(team: Client, slug: str, world: str, *, items: int, seed: int) -> WorldRow:
    asked = team.ask_evaluation(project=slug, worker=WORKER, environment=world, size=items, draw=seed, seed=seed)

    def is_over() -> Mapping[str, Any] | None:
        told = team.get_evaluation(asked["id"])
        if told["state"] == "failed":
            raise LoopOpenError(f"{world}: {told['failure']}")
        return told if told["state"] == "done" else None

    found = wait_for(is_over, f"{world}: tries stay open", patience_s=PATIENCE_S)
    tries = list(team.iterate(partial(team.list_tries, asked["id"])))
    written = [one["completion_tokens"] or 0 for one in tries]
    return WorldRow(
        world=world, tries=len(tries), outcome=found["mean_outcome"], low=found["low"], high=found["high"],
        unscored=found["unscored"], turns=statistics.fmean(one["turns"] or 0 for one in tries),
        read=statistics.fmean(one["prompt_tokens"] or 0 for one in tries), written=statistics.fmean(written),
        seconds=found["seconds"], tokens_s=sum(written) / found["seconds"] if found["seconds"] else 0.0,
    )  # fmt: skip


def print_rows(console: Console, rows: Sequence[WorldRow], *, title: str) -> None:
    table = Table(title=title)
    for name in ("world", "tries", "right (95 %)", "unverified", "turns", "tokens read", "written", "s", "tokens/s"):
        table.add_column(name, justify="left" if name == "world" else "right")
    for row in rows:
        right = "-" if row.outcome is None else f"{row.outcome:.1%} [{row.low or 0:.1%}, {row.high or 0:.1%}]"
        table.add_row(
            row.world, str(row.tries), right, str(row.unscored), f"{row.turns:.1f}", f"{row.read:,.0f}",
            f"{row.written:,.0f}", f"{row.seconds:.0f}", f"{row.tokens_s:.1f}",
        )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
