"""`python -m tests.bench.swe`: is a patch known for what it is, and is anything learnt in repositories?

Grading: planted bad tasks are to be quarantined, cheating patches not to be resolved, fixes to be; how long that takes;
and tasks of two real packages' releases, under interpreters and packages of their own, side by side (pip fetches them).
Floors: the house's way is right in every held-out task, doing nothing and guessing are not. Learning: the built-in
apprentice gets better in it, in some ways (`world_arms`).
"""

import argparse
import importlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from rich.console import Console
from rich.table import Table

from tentalis.core.swe.mini_repos import draw_task, list_hints
from tentalis.core.swe.repo_tasks import Status
from tentalis.sandbox.client import SandboxClient, start_host
from tentalis.verification.admitting import admit_task, find_tests
from tentalis.verification.loading import LoadedTask
from tentalis.verification.verifying import Verifier
from tests.bench.swe_releases import RELEASES, fetch_task
from tests.bench.world_arms import Ground, add_options, judge_rows, run_arms
from tests.bench.world_loop import LoopRow, print_rows
from tests.verification.bad_tasks import BAD_TASKS
from tests.verification.repos import (
    CHEATS,
    FILES,
    GOLD,
    PYTEST_CHEATS,
    load,
    make_cases_task,
    make_pytest_task,
    make_task,
    pin_wheels,
)
from tests.worlds.swe.playing import Agent, at_random, do_nothing, play, solve

PARTS: Final = ("grading", "releases", "floors", "learning")
GOLD_TASKS, FLOOR_TASKS, TIMED = 60, 240, 40
SHORT_S: Final = 2.0
"""Of tests that hang."""
VERIFY_MS: Final = 150.0
AT_LEAST_BAD, AT_LEAST_CHEATS = 20, 25
Add = Callable[[str, Any, Any, bool], None]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    add_options(parser)
    parser.add_argument("--floor-tasks", type=int, default=FLOOR_TASKS)
    options = parser.parse_args(argv)
    console, bars, rows = Console(width=160), dict[str, dict[str, Any]](), list[LoopRow]()
    settings.configure(SANDBOXES=None)

    def add(name: str, found: Any, wanted: Any, met: bool) -> None:
        bars[name] = {"found": found, "wanted": wanted, "met": met}
        console.print(f"{name}: {found} (wanted {wanted}){'' if met else '  MISSED'}", highlight=False, markup=False)

    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as name, start_host(Path(name) / "host"):
        settings.SANDBOXES = Path(name) / "host"
        client = SandboxClient(settings.SANDBOXES)
        verifier = Verifier(lambda: client)
        if "grading" in options.part:
            grade(verifier, Path(name), add)
        if "releases" in options.part:
            verify_releases(verifier, Path(name), add)
        floors = measure_floors(options.floor_tasks) if "floors" in options.part else {}
        client.close()
    if "learning" in options.part:
        ground = Ground(importlib.import_module("apps.worlds.swe").WORLD, list_hints())
        rows = run_arms(ground, options, console)
        print_rows(console, rows, title="the built-in apprentice in repositories, held-out tasks, sampled")
    bars |= judge_rows(floors, rows)
    print_bars(console, bars)
    print(json.dumps({"bench": "swe", "floors": floors, "rows": [asdict(row) for row in rows], "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


def grade(verifier: Verifier, place: Path, add: Add) -> None:
    """Bad tasks, cheats, fixes, and how long a verification takes."""
    refused = {name: admit_task(verifier, make()) for name, (make, _) in BAD_TASKS.items()}
    quarantined = sum(not one.is_admitted and one.is_known for one in refused.values())
    add("bad tasks quarantined", f"{quarantined} of {len(refused)}", "all of at least 20",
        quarantined == len(refused) >= AT_LEAST_BAD)  # fmt: skip
    environment = pin_wheels(place / "wheels")
    plain = LoadedTask(make_pytest_task(environment=environment), FILES, place / "wheels")
    hanging = load(make_task(timeout_s=SHORT_S))
    found = {
        name: verifier.verify(hanging if name in {"hangs", "stops who counts"} else load(make_task()), patch)
        for name, patch in CHEATS.items()
    }
    found |= {name: verifier.verify(plain, patch) for name, patch in PYTEST_CHEATS.items()}
    through = [name for name, report in found.items() if report.is_resolved or not report.is_known]
    add("cheating patches resolved", through or 0, f"none of at least {AT_LEAST_CHEATS}",
        not through and len(found) >= AT_LEAST_CHEATS)  # fmt: skip
    add("cheating patches by status", dict(Counter(str(report.status) for report in found.values())), "-", True)
    rng = random.Random(9)
    minis = [draw_task(rng, held_out=place % 2 == 0) for place in range(GOLD_TASKS)]
    loaded = [LoadedTask(mini.as_repo_task(), mini.files) for mini in minis]
    admitted = sum(admit_task(verifier, one, rounds=1).is_admitted for one in loaded)
    add("made-up tasks admitted", f"{admitted} of {len(loaded)}", "all", admitted == len(loaded))
    fixes = [(one, one.task.gold_patch) for one in loaded] + [(load(make_task()), GOLD), (plain, GOLD)]
    resolved = sum(verifier.verify(one, patch).status is Status.RESOLVED for one, patch in fixes)
    add("fixes resolved", f"{resolved} of {len(fixes)}", "all", resolved == len(fixes))
    timed = {"cases": load(make_cases_task()), "unittest": load(make_task()), "pytest": plain}
    for label, task in timed.items():
        wanted = None if task is plain else VERIFY_MS
        taken = time_verifying(verifier, task)
        add(f"verify a mini-repository by {label}, ms p50", round(taken, 1), wanted, wanted is None or taken <= wanted)


def time_verifying(verifier: Verifier, task: LoadedTask) -> float:
    taken = []
    for _ in range(TIMED):
        started = time.perf_counter()
        verifier.verify(task, GOLD)
        taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken)


def verify_releases(verifier: Verifier, place: Path, add: Add) -> None:
    """Real repositories: each has an interpreter and packages of its own; both are verified at the same time."""
    tasks = [fetch_task(release, place) for release in RELEASES]
    chosen = [replace(one, task=find_tests(verifier, one)) for one in tasks]
    for one in chosen:
        found = admit_task(verifier, one)
        tests = f"{len(one.task.fail_to_pass)} and {len(one.task.pass_to_pass)} tests"
        add(f"{one.task.name} admitted", found.reason or tests, "admitted", found.is_admitted)
    with ThreadPoolExecutor(len(chosen)) as pool:
        reports = list(pool.map(lambda one: verifier.verify(one, one.task.gold_patch), chosen))
    environments = {report.environment_hash for report in reports}
    add("releases verified side by side", [str(report.status) for report in reports], "resolved, in other environments",
        all(report.is_resolved for report in reports) and len(environments) == len(chosen))  # fmt: skip


def measure_floors(count: int) -> dict[str, float]:
    """Share of held-out tasks, of every mistake alike, that go right: by the house's way, by nothing, and by code of
    the right grammar that is put anywhere."""
    world = importlib.import_module("apps.worlds.swe").WORLD
    prompts = [item.prompt for item in world.skills(count, 11)]
    agents: Mapping[str, Agent] = {"oracle": solve, "nothing": do_nothing, "random": at_random(random.Random(5))}
    return {
        name: statistics.fmean(play(world, prompt, agent).outcome or 0.0 for prompt in prompts)
        for name, agent in agents.items()
    }


def print_bars(console: Console, bars: Mapping[str, Mapping[str, Any]]) -> None:
    table = Table(title="tasks in repositories")
    for name in ("what", "found", "wanted", ""):
        table.add_column(name)
    for name, bar in bars.items():
        table.add_row(name, str(bar["found"]), str(bar["wanted"]), "" if bar["met"] else "missed")
    console.print(table, markup=False)


if __name__ == "__main__":
    sys.exit(main())
