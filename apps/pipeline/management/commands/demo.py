"""`manage.py demo`: the closed loop on the stack that runs; prints the result table and one JSON line."""

import json
import time
from textwrap import shorten
from typing import Any, Self

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from apps.accounts.models import User
from apps.base.errors import TentalisError
from apps.pipeline.demonstration import (
    DemoOutcome,
    Desk,
    Ground,
    OwnItems,
    Round,
    Stage,
    ask_a_person,
    make_demo_project,
    run_loop,
)
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from tentalis.core.learning.gate import PairedComparison


class Command(BaseCommand):
    help = "Let a worker learn its manager's rules and print what came of it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", default="", help="slug, with a worker and tasksets; default: a new desk's")
        parser.add_argument("--updates", type=int, default=24)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--imitation", type=json.loads, default={}, help="recipe for replies that are there: JSON")
        parser.add_argument("--install-s", type=float, default=0.0)
        parser.add_argument("--console-url", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        console = Console(file=self.stdout, width=100)  # type: ignore[arg-type]
        by = User.objects.filter(is_superuser=True).order_by("pk").first()
        if by is None:
            raise CommandError("there is no admin: run bootstrap first")
        try:
            ground = _find_ground(options["project"], by)
            worker, updates = ground.worker, options["updates"]
            batch = f"{worker.project.batch_tasks} tasks x {worker.project.group_size} attempts"
            console.print(f"project {worker.project.slug}: {updates} updates of {batch}")
            with LoopMeter(console, updates) as meter:
                outcome = run_loop(
                    ground,
                    by=by,
                    updates=updates,
                    seed=options["seed"],
                    imitation=options["imitation"],
                    report=meter.report,
                    watch=meter.watch,
                )
            ask_a_person(ground, by=by, seed=options["seed"])
        except TentalisError as error:
            raise CommandError(str(error)) from error
        before, after = outcome.before, outcome.after
        _print_table(console, ground, outcome)
        if not options["project"]:
            console.print(BASE)
        asked = sum(done.reward is not None for done in outcome.rounds)
        expected = asked * worker.project.batch_tasks * worker.project.group_size
        result = {
            "project": worker.project.slug,
            "model": find_base_model(worker),
            "updates": options["updates"],
            "attempts": outcome.attempts,
            "rollouts": outcome.rollouts,
            "base_sampled": round(before.sampled, 4),
            "base_greedy": round(before.greedy, 4),
            "base_passed": round(before.passed, 4),
            "final_sampled": round(after.sampled, 4),
            "final_greedy": round(after.greedy, 4),
            "final_passed": round(after.passed, 4),
            "interval": after.interval,
            "gain": _to_json(outcome.gain),
            "gain_passed": _to_json(outcome.gain_passed),
            "capability": outcome.capability,
            "loop_s": round(outcome.loop_s, 2),
            "install_s": options["install_s"],
            "audit_ok": outcome.audit_ok,
            "console_url": options["console_url"],
        }
        faults = find_faults(outcome, expected)
        for fault in faults:
            console.print(f"the loop did not close: {fault}")
        self.stdout.write(json.dumps(result))
        if faults:
            raise CommandError("the loop did not close")


def _find_ground(slug: str, by: User) -> Ground:
    if not slug:
        return Desk(make_demo_project(by))
    workers = Worker.objects.filter(project__slug=slug).select_related("project").order_by("pk")[:2]
    if len(workers) != 1:
        raise CommandError(f"project {slug}: wanted one worker, found {len(workers) or 'none'}")
    return OwnItems(workers[0])


def find_faults(outcome: DemoOutcome, expected: int) -> list[str]:
    """Why the loop did not really close; [] when it did."""
    faults = [
        f"{name}: wanted {expected}, found {found}"
        for name, found in (
            ("attempts", outcome.attempts),
            ("rollouts", outcome.rollouts),
            ("places in batches", outcome.uses),
        )
        if found != expected
    ]
    if not outcome.audit_ok:
        faults.append("the audit does not verify")
    if not any(done.deployed for done in outcome.rounds):
        faults.append("no adapter was ever deployed")
    before, after = outcome.before.sampled, outcome.after.sampled
    if after <= before:
        faults.append(f"nothing was learned: {before:.3f} before, {after:.3f} after")
    return faults


def _to_json(found: PairedComparison | None) -> list[float] | None:
    """[difference, low, high] in points."""
    if found is None:
        return None
    return [round(100 * value, 1) for value in (found.difference, found.low, found.high)]


SLOW_S, TOLD_S = 20.0, 30.0
STATES = {"deployed": "serves", "candidate": "left"}
"""What became of an adapter, where its state says it less shortly; one that is left waits for a person."""
MOST_SHOWN = 400
BASE = (
    "How the base was made: it read tickets of many shops, where this house's option stands 36 % of the time and a "
    "rival's 42 %. Greedy answers flip as soon as one overtakes the other; the sampled row says how much was learnt."
)


class LoopMeter:
    """Says how far the loop is: a bar on a terminal, else a line every now and then; and a line for each update.

    How long the rest will take is known once an update has ended; before that, how long what is being done will.
    """

    def __init__(self, console: Console, updates: int) -> None:
        self._console, self._updates, self._told_s = console, updates, time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left of this"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[rest]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, rest="")
        self._name, self._rest = "", ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def watch(self, stage: Stage) -> None:
        if self._console.is_terminal:
            if stage.name != self._name:
                self._bar.reset(self._task)
            self._name = stage.name
            self._bar.update(
                self._task, description=stage.name, completed=stage.done, total=stage.of or None, rest=self._rest
            )
        elif time.monotonic() > self._told_s + TOLD_S:
            self._told_s = time.monotonic()
            count = f" {stage.done}{f' of {stage.of}' if stage.of else ''}" if stage.done or stage.of else ""
            self._console.print(f"  {stage.name}{count}", highlight=False)

    def report(self, done: Round) -> None:
        held_out = "  --  " if done.held_out is None else f"{done.held_out:6.1%}"
        reward = "shown" if done.reward is None else f"{done.reward:.3f}"
        state = STATES.get(done.state, done.state)
        minutes = (self._updates - done.update) * done.wall_s / 60
        self._rest = f"about {minutes:.0f} min for all updates" if done.wall_s > SLOW_S else ""
        left = f"  {minutes:4.0f} min left" if done.wall_s > SLOW_S else ""
        self._told_s = time.monotonic()
        self._console.print(
            f"update {done.update:>3}  reward {reward}  held-out {held_out}  {state:<8}{done.wall_s:6.2f} s{left}",
            highlight=False,
        )


def _print_table(console: Console, ground: Ground, outcome: DemoOutcome) -> None:
    before, after = outcome.before, outcome.after
    table = Table(title=f"Mean outcome of {len(ground.report.items)} held-out tasks, never trained on")
    for name in ("", "before", "after", "gain"):
        table.add_column(name, justify="left" if not name else "right")
    for name, was, now in (
        ("sampled (T=1)", before.sampled, after.sampled),
        ("greedy", before.greedy, after.greedy),
        ("all of it right, sampled", before.passed, after.passed),
    ):
        table.add_row(name, f"{was:.1%}", f"{now:.1%}", f"{100 * (now - was):+.1f} points")
    console.print(table)
    low, high = after.interval
    console.print(f"95 % interval of the sampled mean after learning: {low:.1%} to {high:.1%}")
    for name, gain in (("sampled mean", outcome.gain), ("all of it right", outcome.gain_passed)):
        if gain is not None:
            console.print(f"{name}, paired by task, {gain.confidence:.0%} interval: {gain.points}")
    if outcome.capability:
        console.print(f"beside the work: {outcome.capability}")
    last_replies = dict(after.replies)
    for prompt, first in before.replies:
        replies = Table(title=shorten(prompt, MOST_SHOWN), show_header=False)
        replies.add_row("before", shorten(first, MOST_SHOWN))
        replies.add_row("after", shorten(last_replies.get(prompt, ""), MOST_SHOWN))
        console.print(replies, markup=False)
