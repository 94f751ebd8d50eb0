"""`python -m tests.bench.pipeline`: what the platform adds to an attempt, alone and on top of a million older ones.

Per attempt: the loop's wall time less the engine's and the optimiser's, and the CPU time of every process that is
neither. Both on the same stack: first with an almost empty database, then with the history in it. And how long a task
that is submitted alone takes until it is done, which only what is on the same machine can be compared with.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import LiteralString

import psutil
import psycopg
from rich.console import Console
from rich.table import Table

from tentalis.platform.up import RunningStack, running_stack
from tests.chaos.stage import make_environ, own_home

GROUP, BATCH_TASKS = 8, 24
WARM_UP = 1
ALONE = 20
BAR_MS = 6.0
CPU_BAR_MS = 9.0
GROWTH_BAR = 1.5
HISTORY = Path(__file__).with_name("history.sql")
OURS = ("web", "relay", "queue-workers", "queue-control", "postgres", "redis")
UNSEALED: LiteralString = "SELECT count(*) FROM audit_auditentry WHERE id NOT IN (SELECT entry_id FROM audit_auditseal)"
SCANNED_ROWS = 1_000_000
"""A table of which so many rows were read in sequence while we measured has a query without an index."""


@dataclass(frozen=True)
class Measured:
    """One row of the table; milliseconds an attempt, but for the counts and the wall time.

    Args:
        added_ms: wall less engine and optimiser.
        cpu_ms: of the platform's own processes and of the driver of the loop; shares_ms: the same by process.
        alone_ms: from submitting one task until it is done, the median.
    """

    name: str
    attempts_before: int
    updates: int
    wall_s: float
    engine_s: float
    train_s: float
    added_ms: float
    cpu_ms: float
    shares_ms: dict[str, float]
    alone_ms: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=6)
    parser.add_argument("--history", type=int, default=1_000_000, help="attempts put into the database in between")
    parser.add_argument("--drive", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--alone", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--write", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        return drive(options.drive)
    if options.alone:
        return submit_alone(options.alone)
    if options.write:
        return write_history(options.write)
    console = Console(width=120)
    with own_home() as home, running_stack(home, make_environ(), is_throwaway=True) as stack:
        run_driver(stack, WARM_UP)
        alone = measure(stack, "empty database", options.updates)
        console.print(f"writing a history of {options.history:,} attempts", highlight=False)
        wait_until_sealed(stack)
        run_self(stack, "--write", options.history // GROUP, TENTALIS_DATABASE_URL=admin_url(stack))
        run_driver(stack, WARM_UP)
        before = read_scans(stack)
        crowded = measure(stack, "with the history", options.updates)
        scanned = {
            name: rows - before.get(name, 0)
            for name, rows in read_scans(stack).items()
            if rows - before.get(name, 0) > SCANNED_ROWS
        }
    growth = crowded.added_ms / alone.added_ms
    cpu_growth = crowded.cpu_ms / alone.cpu_ms
    print_table(console, (alone, crowded))
    for row in (alone, crowded):
        shares = ", ".join(f"{name} {share:.2f}" for name, share in row.shares_ms.items())
        console.print(f"CPU ms an attempt, {row.name}: {shares}", highlight=False)
    for name, rows in scanned.items():
        console.print(f"{name}: {rows:,} rows read in sequence while measuring")
    console.print(
        f"bars: {BAR_MS:g} ms and {CPU_BAR_MS:g} ms of CPU an attempt; {GROWTH_BAR:g} times as much with the history "
        f"({growth:.2f} and {cpu_growth:.2f} found)"
    )
    result = {
        "bench": "pipeline",
        "rows": [asdict(alone), asdict(crowded)],
        "ratios": {"added_ms": alone.added_ms, "growth": round(growth, 3), "cpu_growth": round(cpu_growth, 3)},
        "scanned": scanned,
    }
    console.print(json.dumps(result), soft_wrap=True, markup=False, highlight=False)
    is_low = alone.added_ms <= BAR_MS and alone.cpu_ms <= CPU_BAR_MS
    return 0 if is_low and max(growth, cpu_growth) <= GROWTH_BAR else 1


def measure(stack: RunningStack, name: str, updates: int) -> Measured:
    """Let the loop run for some updates and see where its time went."""
    attempts_before = count_attempts(stack)
    names = (*OURS, "engine")
    before = {name: cpu_of(stack, name) for name in names}
    loop = run_driver(stack, updates)
    spent = {name: cpu_of(stack, name) - before[name] for name in names}
    engine_s = spent.pop("engine")
    spent["driver"] = loop["driver_cpu_s"]
    attempts = updates * BATCH_TASKS * GROUP
    return Measured(
        name=name,
        attempts_before=attempts_before,
        updates=updates,
        wall_s=round(loop["wall_s"], 2),
        engine_s=round(engine_s, 2),
        train_s=round(loop["train_s"], 2),
        added_ms=round(1000 * (loop["wall_s"] - engine_s - loop["train_s"]) / attempts, 3),
        cpu_ms=round(1000 * sum(spent.values()) / attempts, 3),
        shares_ms={name: round(1000 * cpu_s / attempts, 3) for name, cpu_s in spent.items()},
        alone_ms=float(run_self(stack, "--alone", ALONE)),
    )


def cpu_of(stack: RunningStack, name: str) -> float:
    """CPU seconds of a service and all its children, living and waited for.

    The engine decodes in one thread, so that its CPU time is the time it was busy, and on a busy machine less.
    """
    process = psutil.Process(stack.pid_of(name))
    times = process.cpu_times()
    total = times.user + times.system + times.children_user + times.children_system
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += sum(child.cpu_times()[:2])
    return float(total)


def run_driver(stack: RunningStack, updates: int) -> dict[str, float]:
    """Drive the loop from a process of its own, as the demo does."""
    return dict(json.loads(run_self(stack, "--drive", updates).splitlines()[-1]))


def run_self(stack: RunningStack, option: str, number: int, **environment: str) -> str:
    """Run one of this file's other halves in the stack's environment and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.pipeline", option, str(number)],
        env=stack.environment(os.environ) | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{option} stopped: {done.stderr[-2000:]}")
    return done.stdout


def drive(updates: int) -> int:
    """Inside the driver: run updates on one project, which stays the same over all drivers of a stack."""
    import django

    django.setup()
    from apps.accounts.models import User
    from apps.pipeline.demonstration import Desk, make_demo_project, run_update
    from apps.rollouts.models import Batch
    from apps.workers.models import Worker

    by = User.objects.filter(is_superuser=True).order_by("pk")[0]
    worker = Worker.objects.filter(project__slug="demo-1").select_related("project").first() or make_demo_project(by)
    last = Batch.objects.filter(worker=worker).order_by("-number").first()
    first = (last.number if last else 0) + 1
    began, cpu_began = time.monotonic(), time.process_time()
    rounds = [run_update(Desk(worker), by=by, update=first + number, seed=0) for number in range(updates)]
    result = {
        "wall_s": time.monotonic() - began,
        "train_s": sum(done.train_s for done in rounds),
        "driver_cpu_s": time.process_time() - cpu_began,
    }
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


def submit_alone(tasks: int) -> int:
    """Inside a driver: submit one task after another to a project of its own, each when the last is done."""
    import django

    django.setup()
    from apps.accounts.models import User
    from apps.pipeline import flow
    from apps.pipeline.demonstration import make_demo_project
    from apps.tasks.models import Task
    from tentalis.core.desk import make_tickets

    by = User.objects.filter(is_superuser=True).order_by("pk")[0]
    worker, took_ms = make_demo_project(by), []
    for ticket in make_tickets(0, tasks, held_out=False):
        began = time.monotonic()
        task = flow.submit(project=worker.project, prompt=ticket.text, environment="desk", by=by, worker=worker)
        while not Task.objects.filter(pk=task.pk, state="done").exists():
            time.sleep(0.002)
        took_ms.append(1000 * (time.monotonic() - began))
    sys.stdout.write(f"{median(took_ms):.2f}\n")
    return 0


@contextmanager
def connected(stack: RunningStack) -> Iterator["psycopg.Connection"]:
    with psycopg.connect(admin_url(stack), autocommit=True) as connection:
        yield connection


def admin_url(stack: RunningStack) -> str:
    return stack.state().addresses["admin_database_url"]


def count_attempts(stack: RunningStack) -> int:
    with connected(stack) as connection:
        row = connection.execute("SELECT count(*) FROM tasks_attempt").fetchone()
    return int(row[0]) if row else 0


def write_history(tasks: int) -> int:
    """Put finished tasks of the loop's own project and worker into the database; in a process of its own."""
    import django

    django.setup()
    from apps.accounts.models import User
    from apps.workers.models import Worker
    from tests.bench.history import write_rows

    worker = Worker.objects.get(project__slug="demo-1")
    admin = User.objects.filter(is_superuser=True).order_by("pk")[0]
    sizes = {"tasks": tasks, "group_size": GROUP, "batch_tasks": BATCH_TASKS}
    write_rows(HISTORY, {"project": worker.project_id, "worker": worker.pk, "admin": admin.pk} | sizes)
    return 0


def wait_until_sealed(stack: RunningStack) -> None:
    with connected(stack) as connection:
        while connection.execute(UNSEALED).fetchone() != (0,):
            time.sleep(0.2)


def read_scans(stack: RunningStack) -> dict[str, int]:
    """Rows read in sequence since the statistics began, by table."""
    with connected(stack) as connection:
        return dict(connection.execute("SELECT relname, seq_tup_read FROM pg_stat_user_tables").fetchall())


def print_table(console: Console, rows: Sequence[Measured]) -> None:
    table = Table(title=f"The loop: updates of {BATCH_TASKS} tasks x {GROUP} attempts")
    for name in (
        "",
        "attempts before",
        "updates",
        "wall s",
        "engine s",
        "optimiser s",
        "added ms/attempt",
        "CPU ms/attempt",
        "one task alone ms",
    ):
        table.add_column(name, justify="left" if not name else "right")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.attempts_before:,}",
            str(row.updates),
            f"{row.wall_s:.1f}",
            f"{row.engine_s:.1f}",
            f"{row.train_s:.1f}",
            f"{row.added_ms:.2f}",
            f"{row.cpu_ms:.2f}",
            f"{row.alone_ms:.0f}",
        )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
