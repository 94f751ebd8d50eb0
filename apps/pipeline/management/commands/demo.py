"""`manage.py demo`: the closed loop on the stack that runs; prints the result table and one JSON line."""

import json
from textwrap import shorten
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.table import Table

from apps.accounts.models import User
from apps.base.errors import TentalisError
from apps.pipeline.demonstration import (
    DemoOutcome,
    Desk,
    Ground,
    OwnItems,
    Report,
    Round,
    ask_a_person,
    make_demo_project,
    run_loop,
)
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model


class Command(BaseCommand):
    help = "Let a worker learn its manager's rules and print what came of it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", default="", help="slug, with a worker and tasksets; default: a new desk's")
        parser.add_argument("--updates", type=int, default=24)
        parser.add_argument("--seed", type=int, default=0)
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
            outcome = run_loop(
                ground,
                by=by,
                updates=updates,
                seed=options["seed"],
                report=lambda done: console.print(_line(done, updates), highlight=False),
            )
            ask_a_person(ground, by=by, seed=options["seed"])
        except TentalisError as error:
            raise CommandError(str(error)) from error
        before, after = outcome.before, outcome.after
        _print_table(console, ground, before, after)
        if not options["project"]:
            console.print(BASE)
        expected = options["updates"] * worker.project.batch_tasks * worker.project.group_size
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


SLOW_S = 20.0
MOST_SHOWN = 400
BASE = (
    "How the base was made: it read tickets of many shops, where this house's option stands 36 % of the time and a "
    "rival's 42 %. Greedy answers flip as soon as one overtakes the other; the sampled row says how much was learnt."
)


def _line(done: Round, updates: int) -> str:
    held_out = "  --  " if done.held_out is None else f"{done.held_out:6.1%}"
    state = "serves" if done.deployed else "refused"
    left = f"  {(updates - done.update) * done.wall_s / 60:4.0f} min left" if done.wall_s > SLOW_S else ""
    return (
        f"update {done.update:>3}  reward {done.reward:.3f}  held-out {held_out}  {state:<8}{done.wall_s:6.2f} s{left}"
    )


def _print_table(console: Console, ground: Ground, before: Report, after: Report) -> None:
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
    for (prompt, first), (_, last) in zip(before.replies, after.replies, strict=True):
        replies = Table(title=shorten(prompt, MOST_SHOWN), show_header=False)
        replies.add_row("before", shorten(first, MOST_SHOWN))
        replies.add_row("after", shorten(last, MOST_SHOWN))
        console.print(replies, markup=False)
