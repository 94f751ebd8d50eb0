"""`python -m tests.bench.faults`: what is lost when processes are killed, frozen and lose their data under load.

Two rows: this project's stack, and the control (Celery as it is usually advised). The control must lose more than 5 %,
or the faults were too kind to prove anything. Runs in a network namespace of its own where that is allowed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.chaos.control import ControlReport, run_control
from tests.chaos.plan import FULL, Fault, make_plan
from tests.chaos.run import Load, Report, run_faults
from tests.chaos.stage import chaos_stack

ALONE = "FAULTS_IN_OWN_NETWORK"
CONTROL_BAR = 0.05
MEAN_GAP_S = 6.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--mean-gap-s", type=float, default=MEAN_GAP_S, help="between two faults")
    parser.add_argument("--settle-s", type=float, default=900.0, help="patience for the end of the backlog")
    parser.add_argument("--skip-control", action="store_true")
    parser.add_argument("--keep", type=Path, help="keep the home, its logs and the history here")
    options = parser.parse_args()
    enter_own_network()
    console = Console(width=110)
    plan = make_plan(FULL, seed=options.seed, mean_gap_s=options.mean_gap_s)
    over_s = sum(fault.after_s for fault in plan)
    directory = options.keep or Path(tempfile.mkdtemp(prefix="tentalis-faults-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with chaos_stack(keep_in=directory / "home") as stack:
            load = Load(tasks=options.tasks, seed=options.seed, over_s=over_s, settle_s=options.settle_s)
            report = run_faults(stack, load=load, plan=plan, directory=directory)
    finally:
        if options.keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    control = None if options.skip_control else run_control(tasks=options.tasks, over_s=over_s, plan=plan)
    faults = report.faults + judge_control(control)
    print_table(console, plan, report, control)
    for fault in faults:
        console.print(f"seed {options.seed}: {fault}", markup=False)
    console.print(json.dumps(to_json(options.seed, report, control)), soft_wrap=True, markup=False, highlight=False)
    return 1 if faults else 0


def enter_own_network() -> None:
    """Start again in a network namespace with nothing but loopback, where the kernel allows it."""
    if ALONE in os.environ or shutil.which("unshare") is None or shutil.which("ip") is None:
        return
    unshare = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    script = 'ip link set lo up && exec "$0" "$@"'
    probe = subprocess.run([*unshare, "sh", "-c", script, "true"], capture_output=True, check=False)
    if probe.returncode == 0:
        argv = [*unshare, "sh", "-c", script, sys.executable, "-m", "tests.bench.faults", *sys.argv[1:]]
        os.execvpe(argv[0], argv, os.environ | {ALONE: "1"})


def judge_control(control: ControlReport | None) -> list[str]:
    """Whether the faults prove something."""
    if control is None or control.lost > CONTROL_BAR * control.acknowledged:
        return []
    return [f"the control lost {control.lost} of {control.acknowledged}: wanted more than {CONTROL_BAR:.0%}"]


def print_table(console: Console, plan: list[Fault], report: Report, control: ControlReport | None) -> None:
    table = Table(title=f"{len(plan)} faults under load: kills, lost Redis, crashed Postgres, freezes, bad adapters")
    for name in ("", "accepted", "lost", "committed twice", "other faults", "seconds"):
        table.add_column(name, justify="left" if not name else "right")
    doubled = sum("twice" in fault or "more than one" in fault or "doubled" in fault for fault in report.faults)
    table.add_row(
        "Tentalis",
        f"{report.acknowledged:,}",
        f"{report.lost:,}",
        f"{doubled:,}",
        f"{len(report.faults):,}",
        f"{report.wall_s:,.0f}",
    )
    if control is not None:
        table.add_row(
            "Celery, acks_late (control)",
            f"{control.acknowledged:,}",
            f"{control.lost:,} ({control.lost / max(control.acknowledged, 1):.0%})",
            f"{control.doubled:,}",
            "-",
            f"{control.wall_s:,.0f}",
        )
    console.print(table)
    console.print(
        f"{report.messages:,} messages heard, {report.copies:,} copies of them pushed; {report.executions_repeated} "
        f"links done again; {report.retries:,} client retries; {report.settled_s:.0f} s from the last fault to the end"
    )
    console.print(", ".join(f"{count:,} {name}" for name, count in report.rows.items()))
    for words in (*report.refusals, *(f"answered with {error}" for error in report.server_errors[:5])):
        console.print(words, markup=False, highlight=False)


def to_json(seed: int, report: Report, control: ControlReport | None) -> dict[str, object]:
    rows: list[dict[str, object]] = [{"who": "tentalis", "seed": seed, **asdict(report)}]
    ratios: dict[str, float] = {"lost": report.lost / max(report.acknowledged, 1)}
    if control is not None:
        rows.append({"who": "control", "seed": seed, **asdict(control)})
        ratios["control_lost"] = round(control.lost / max(control.acknowledged, 1), 4)
    return {"bench": "faults", "rows": rows, "ratios": ratios}


if __name__ == "__main__":
    sys.exit(main())
