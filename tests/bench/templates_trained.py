"""Agents made of a template learn on the installation's own engine, as a stranger has them do it: by its commands.

Each is a package that `tentalis agent init` makes and that is installed into an environment of its own, a worker on a
built-in model, and a benchmark of the stranger's own rows; `tentalis eval`, `tentalis train`, and `tentalis eval` of
what serves then, compared by item. Settings, recipe and gate are those that an installation comes with.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from rich.console import Console
from rich.table import Table

from tentalis.agent_templates import FRAMEWORKS
from tentalis.core.desk import Ticket, make_tickets, solve
from tentalis.core.workbench import solving, tasks
from tentalis.core.workbench.episode import begin
from tentalis.platform.stack import PROJECT_DIRECTORY
from tentalis.platform.up import running_stack
from tests.bench.templates_made import CallCounts, InstallError, count_calls, install_package
from tests.chaos.stage import make_environ, own_home

TRAIN, HELD_OUT, TRIES = 200, 60, 4
Rows = Iterator[dict[str, Any]]
ONE_HABIT: Final = ("meet", "restock", "file", "refund", "close")
"""Families of the workbench's tasks in which one thing is decided."""


def make_orders() -> Rows:
    """Tickets of a shop, each answered by a sum: what its house does with an order stands nowhere."""
    for split, count, is_held_out in (("train", TRAIN, False), ("held_out", HELD_OUT, True)):
        drawn = make_tickets(random.Random(split), 4 * count, held_out=is_held_out, families=["order"])
        told = {ticket.text: ticket for ticket in drawn}
        for text, ticket in list(told.items())[:count]:
            yield {"prompt": text, "reference": find_sum(ticket), "grader": "number", "split": split}


def find_sum(ticket: Ticket) -> int:
    kind, text = solve(ticket, ticket.house_option)[-1]
    if kind != "answer":
        raise ValueError(f"wanted a ticket that ends with its answer, found {kind}: {text}")
    return int(text.split()[0])


def make_errands() -> Rows:
    """Things to do at a company; right is to have done what its house does, and nothing else."""
    rng = random.Random(0)
    for split, count, is_kept in (("train", TRAIN, False), ("held_out", HELD_OUT, True)):
        told: dict[str, tasks.Task] = {}
        while len(told) < count:
            task = tasks.make_task(rng, families=ONE_HABIT, kept=is_kept)
            told[task.text] = task
        for text, task in told.items():
            plan = solving.solve(task, begin(text)["company"])
            done = [[one.tool, dict(one.arguments)] for one in plan.calls if one.changes]
            yield {"prompt": text, "reference": json.dumps(done, sort_keys=True), "grader": "exact", "split": split}


AT_A_COMPANY: Final = '''"""An agent at a company's tools: what it has changed there is its answer."""

import json

from tentalis.core.workbench.episode import FUNCTIONS, act, begin  # stands for the company
from tentalis.core.workbench.tools import TOOLS

from .loop import run_loop


class Agent:
    """Does errands at a company."""

    label = "Company"

    async def arun(self, task, config):
        company = begin(task.prompt)

        async def call(name, arguments):
            return act(company, name, json.dumps(arguments))

        await run_loop(task, config, tools=FUNCTIONS, call=call)
        made = [[one["tool"], one["args"]] for one in company["calls"] if "tool" in one]
        return json.dumps([one for one in made if TOOLS[one[0]].changes], sort_keys=True)
'''


@dataclass(frozen=True)
class Case:
    """An agent, its model and what it learns.

    Args:
        rounds: of its course; the errands take several calls a try.
        template: "": any.
        files: of its package, by name, written over what the template made.
        paths: directories whose modules it finds.
    """

    name: str
    model: str
    make_rows: Callable[[], Rows]
    rounds: int
    template: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    paths: Sequence[Path] = ()


CASES: Final = (
    Case("orders", "desk", make_orders, 8),
    Case("errands", "apprentice", make_errands, 4, "react", {"agent.py": AT_A_COMPANY}, [PROJECT_DIRECTORY]),
)
"""An agent as its template makes it, with a model that calls no tools; one with a company's tools, which its model
calls several times a try."""


@dataclass
class TrainedRow:
    """What came of a case; shares of held-out tries that were right. `words`: why it did not come to its end.

    Args:
        unscored: tries of both evaluations that nothing is known of.
        passed: adapters that the gate let through; refused: what it said of the others.
    """

    case: str
    template: str
    model: str
    words: str = ""
    tries: int = 0
    unscored: int = 0
    before: float = 0.0
    after: float = 0.0
    gain: float = 0.0
    low: float = 0.0
    high: float = 0.0
    rounds: int = 0
    passed: int = 0
    refused: list[str] = field(default_factory=list)
    ended: str = ""
    calls: CallCounts = field(default_factory=CallCounts)
    minutes: float = 0.0

    @property
    def kind(self) -> str:
        return f"{self.case}_{self.template.replace('-', '_')}"

    @property
    def worker(self) -> str:
        return self.kind.replace("_", "-")


class CommandError(Exception):
    """A command did not do what a stranger wants of it."""


@dataclass(frozen=True)
class Shell:
    """Where the stranger types; what it exports is what `tentalis up` was started with."""

    home: Path
    environ: Mapping[str, str]

    def run(self, *argv: str) -> str:
        """What a command prints.

        Raises:
            CommandError: it ended with another code than 0.
        """
        environ = {**self.environ, "TENTALIS_HOME": str(self.home), "TERM": "dumb"}
        command = [sys.executable, "-m", "tentalis", *argv]
        done = subprocess.run(command, env=environ, cwd=PROJECT_DIRECTORY, capture_output=True, text=True, check=False)
        if done.returncode:
            told = (done.stderr or done.stdout).strip()
            raise CommandError(f"`tentalis {' '.join(argv)}` ended with {done.returncode}: {told[-400:]}")
        return done.stdout

    def ask(self, *argv: str) -> Any:
        return json.loads(self.run(*argv, "--json"))


def add_options(parser: argparse.ArgumentParser) -> None:
    told = parser.add_argument_group("of --part trained")
    told.add_argument(
        "--cases", nargs="*", default=[case.name for case in CASES], choices=[case.name for case in CASES]
    )
    told.add_argument("--template", default="react", choices=sorted(FRAMEWORKS), help="of the cases that take any")
    told.add_argument("--rounds", type=int, help="at most; none: each case's own")
    told.add_argument("--keep-in", type=Path, help="a home that stays, with its logs")


def measure(options: argparse.Namespace) -> bool:
    """Each case on one installation, one after the other; whether every bar is met."""
    cases = [case for case in CASES if case.name in options.cases]
    rows = [TrainedRow(case.name, case.template or options.template, case.model) for case in cases]
    with own_home(options.keep_in) as home:
        venvs = []
        for case, row in zip(cases, rows, strict=True):
            try:
                made = install_package(row.kind, row.template, keep=options.keep, files=case.files, paths=case.paths)
            except InstallError as error:
                row.words = f"COULD NOT BE INSTALLED: {error}"
            else:
                venvs.append(made.venv)
        environ = make_environ() | {"TENTALIS_AGENT_ENVIRONMENTS": ",".join(map(str, venvs))}
        with running_stack(home, environ, is_throwaway=True) as stack:
            for case, row in zip(cases, rows, strict=True):
                if row.words:
                    continue
                started = time.monotonic()
                try:
                    learn(Shell(home.root, environ), case, row, rounds=options.rounds or case.rounds)
                except CommandError as error:
                    row.words = str(error)
                row.minutes = round((time.monotonic() - started) / 60, 1)
                with psycopg.connect(stack.state().addresses["admin_database_url"]) as database:
                    row.calls = count_calls(database, row.worker)
    print_rows(rows)
    bars = find_bars(rows)
    told = {"bench": "templates", "part": "trained", "rows": [asdict(row) for row in rows], "bars": bars}
    print(json.dumps(told | {"load": [round(one, 1) for one in os.getloadavg()]}))
    return all(bar["met"] for bar in bars.values())


def learn(shell: Shell, case: Case, row: TrainedRow, *, rounds: int) -> None:
    """From an installed package to what serves in the end."""
    project, benchmark = case.name, f"own/{case.name}"
    of = ("--project", project)
    file = shell.home / f"{case.name}.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in case.make_rows()), encoding="utf-8")
    shell.run("plugin", "check", row.kind)
    shell.run("project", "create", project)
    shell.run("project", "judges", project, "--who", "none")
    shell.run("worker", "create", row.worker, "--kind", row.kind, "--base-model", case.model, *of)
    shell.run("benchmark", "install", benchmark, "--file", str(file), *of)
    asked = ("eval", benchmark, "--agent", row.worker, "--attempts", str(TRIES), "--seed", "1", *of)
    before = shell.ask(*asked)
    tell(f"{row.kind}: {before['mean']:.1%} of {before['tries']} tries right, unscored {before['causes']}")
    row.before = row.after = before["mean"]
    row.tries, row.unscored = before["tries"], sum(before["causes"].values())
    course = shell.ask("train", benchmark, "--agent", row.worker, "--rounds", str(rounds), "--watch", *of)
    for point in course["curve"]:
        share = "" if point["mean"] is None else f"held-out {point['mean']:.3f}"
        tell(f"{row.kind} {point['round']:>2}: {share} {point['words']}")
    row.ended, row.rounds = course["reason"], len(course["curve"]) - 1
    row.passed = sum(bool(point["is_better"]) for point in course["curve"])
    row.refused = [point["words"] for point in course["curve"] if point["is_better"] is False]
    serving = [one["name"] for one in shell.ask("adapter", "list", *of) if one["state"] == "deployed"]
    if serving:
        after = shell.ask(*asked, "--adapter", serving[0])
        row.after, row.unscored = after["mean"], row.unscored + sum(after["causes"].values())
        (found,) = shell.ask("eval", "compare", str(after["id"]), str(before["id"]))
        row.gain, row.low, row.high = (found[name] for name in ("difference", "low", "high"))


def find_bars(rows: Sequence[TrainedRow]) -> dict[str, dict[str, Any]]:
    bars: dict[str, dict[str, Any]] = {}
    for row in rows:
        met = not row.words and row.passed > 0 and row.low > 0 and not row.unscored and row.calls.are_exact
        told = f"{row.passed} of {row.rounds} rounds' adapters, {say_gain(row)}, {row.unscored} unscored"
        found = row.words or f"{told}, {row.calls.exact} of {row.calls.made} calls exact"
        wanted = "an adapter that passes the gate, a gain above 0, no try unscored, all calls exact"
        bars[f"{row.template}, {row.case}"] = {"found": found, "wanted": wanted, "met": met}
    return bars


def say_gain(row: TrainedRow) -> str:
    return f"{100 * row.gain:+.1f} [{100 * row.low:+.1f}, {100 * row.high:+.1f}]"


def tell(words: str) -> None:
    print(words, flush=True)


def print_rows(rows: Sequence[TrainedRow]) -> None:
    table = Table(title="Agents made of templates, learning on the installation's own engine")
    for name in ("template", "model", "learns", "before", "after", "gain (95%)", "passed", "calls", "exact", "min"):
        table.add_column(name, justify="left" if name in ("template", "model", "learns") else "right")
    for row in rows:
        table.add_row(
            row.template, row.model, row.words or row.case, f"{row.before:.1%}", f"{row.after:.1%}", say_gain(row),
            f"{row.passed} of {row.rounds}", str(row.calls.made), str(row.calls.exact), f"{row.minutes:.1f}",
        )  # fmt: skip
    Console(width=150).print(table)
