"""`manage.py demo`: the closed loop on the desk, on the stack that runs; prints the result table and one JSON line."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.table import Table

from apps.accounts.models import User
from apps.base.errors import TentalisError
from apps.pipeline.demonstration import DemoOutcome, Round, ask_a_person, make_demo_project, run_loop


class Command(BaseCommand):
    help = "Let a desk worker learn its manager's rules and print what came of it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--updates", type=int, default=24)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--install-s", type=float, default=0.0)
        parser.add_argument("--console-url", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        console = Console(file=self.stdout, width=100)  # type: ignore[arg-type]
        by = User.objects.filter(is_superuser=True).order_by("pk").first()
        if by is None:
            raise CommandError("there is no admin: run bootstrap first")
        worker = make_demo_project(by)
        console.print(f"project {worker.project.slug}: {options['updates']} updates of 24 tickets x 8 attempts")
        try:
            outcome = run_loop(
                worker=worker,
                by=by,
                updates=options["updates"],
                seed=options["seed"],
                report=lambda done: console.print(_line(done), highlight=False),
            )
            ask_a_person(worker=worker, by=by, seed=options["seed"])
        except TentalisError as error:
            raise CommandError(str(error)) from error
        _print_table(console, outcome)
        expected = options["updates"] * worker.project.batch_tasks * worker.project.group_size
        result = {
            "updates": options["updates"],
            "attempts": outcome.attempts,
            "rollouts": outcome.rollouts,
            "base_sampled": round(outcome.base_sampled, 4),
            "base_greedy": round(outcome.base_greedy, 4),
            "final_sampled": round(outcome.final_sampled, 4),
            "final_greedy": round(outcome.final_greedy, 4),
            "interval": outcome.interval,
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
    if outcome.final_sampled <= outcome.base_sampled:
        faults.append(f"nothing was learned: {outcome.base_sampled:.3f} before, {outcome.final_sampled:.3f} after")
    return faults


BASE = (
    "How the base was made: it read tickets of many shops, where this house's option stands 36 % of the time and a "
    "rival's 42 %. Greedy answers flip as soon as one overtakes the other; the sampled row says how much was learnt."
)


def _line(done: Round) -> str:
    held_out = "  --  " if done.held_out is None else f"{done.held_out:6.1%}"
    state = "serves" if done.deployed else "refused"
    return f"update {done.update:>3}  reward {done.reward:.3f}  held-out {held_out}  {state:<8}{done.wall_s:6.2f} s"


def _print_table(console: Console, outcome: DemoOutcome) -> None:
    table = Table(title="Held-out tickets answered right (300, never trained on)")
    for name in ("", "before", "after", "gain"):
        table.add_column(name, justify="left" if not name else "right")
    for name, before, after in (
        ("sampled (T=1)", outcome.base_sampled, outcome.final_sampled),
        ("greedy", outcome.base_greedy, outcome.final_greedy),
    ):
        table.add_row(name, f"{before:.1%}", f"{after:.1%}", f"{100 * (after - before):+.1f} points")
    console.print(table)
    low, high = outcome.interval
    console.print(f"95 % interval of the sampled share after learning: {low:.1%} to {high:.1%}")
    console.print(BASE)
