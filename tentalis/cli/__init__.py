"""The `tentalis` command. Each command lives in a module of its own, which is imported when that command is called."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command as build_command

OUR_PACKAGES = ("tentalis", "apps", "gpu_workers")


class Entry(NamedTuple):
    """Where a command lives: `attribute` of `module` is a function, or a `typer.Typer` for a group of commands.

    Attributes:
        passes_on: options it does not know are arguments, for somebody else.
    """

    module: str
    attribute: str
    help: str
    passes_on: bool = False


COMMANDS: dict[str, Entry] = {
    # this machine
    "init": Entry("tentalis.cli.local", "init", "Make the home directory and its configuration."),
    "up": Entry("tentalis.cli.local", "up", "Start everything on this machine."),
    "down": Entry("tentalis.cli.local", "down", "Stop what `up` started."),
    "status": Entry("tentalis.cli.local", "status", "Show the processes of this machine."),
    "logs": Entry("tentalis.cli.local", "logs", "Show what the processes wrote."),
    "doctor": Entry("tentalis.cli.doctor", "doctor", "Show the settings in effect and find what is wrong."),
    "manage": Entry("tentalis.cli.manage", "manage", "Run a command of `manage.py` on this installation.", True),
    "backup": Entry("tentalis.cli.keeping", "backup", "Back up this installation while it runs."),
    "restore": Entry("tentalis.cli.keeping", "restore", "Bring a backup back into an empty home."),
    "drill": Entry("tentalis.cli.keeping", "drill", "Prove that the newest backup can be brought back."),
    "demo": Entry("tentalis.cli.demo", "demo", "Watch a worker learn on the built-in desk."),
    "gateway": Entry("tentalis.cli.gateway", "gateway", "Serve agents: models, with every token kept."),
    "serve-engine": Entry("tentalis.cli.local", "serve_engine", "Serve a model with the local engine."),
    "sandbox": Entry("tentalis.cli.sandbox", "app", "Run what nobody trusts."),
    "verify": Entry("tentalis.cli.repo_task", "verify", "Find out what a patch of a repository comes to."),
    "repo-task": Entry("tentalis.cli.repo_task", "app", "Tasks in repositories: admit, import and add them."),
    "plugin": Entry("tentalis.cli.plugin", "app", "What other packages add, and why one is not used."),
    # for agents
    "agent": Entry("tentalis.cli.agent", "app", "Agents of your own: a package to begin with, and who works where."),
    "mcp": Entry("tentalis.cli.mcp", "mcp", "Serve the platform's tools to an agent (Model Context Protocol)."),
    "openclaw": Entry("tentalis.cli.openclaw", "app", "Connect an OpenClaw."),
    # a platform, here or elsewhere
    "login": Entry("tentalis.cli.account", "login", "Sign in to a platform."),
    "confirm": Entry("tentalis.cli.account", "confirm", "Prove who you are, for what takes a fresh proof."),
    "logout": Entry("tentalis.cli.account", "logout", "Revoke the token and forget it."),
    "whoami": Entry("tentalis.cli.account", "whoami", "Show who you are on the platform."),
    "project": Entry("tentalis.cli.project", "app", "Projects, and why nothing trains."),
    "user": Entry("tentalis.cli.user", "app", "Accounts of people, for admins."),
    "member": Entry("tentalis.cli.member", "app", "Who belongs to a project."),
    "world": Entry("tentalis.cli.world", "app", "The environments that agents work in, and their doctor."),
    "worker": Entry("tentalis.cli.worker", "app", "The agents that do tasks."),
    "ensemble": Entry("tentalis.cli.ensemble", "app", "Workers that are asked together."),
    "model": Entry("tentalis.cli.model", "app", "Models kept here, and the servers of models."),
    "task": Entry("tentalis.cli.task", "app", "Submit tasks and look at them."),
    "review": Entry("tentalis.cli.review", "app", "Judge what was done."),
    "gold": Entry("tentalis.cli.gold", "app", "Control items: tasks whose right judgement is known."),
    "proposal": Entry("tentalis.cli.proposal", "app", "What a running agent wants to do, and your word on it."),
    "rollout": Entry("tentalis.cli.rollout", "app", "What was done and judged, as training data."),
    "train": Entry("tentalis.cli.run", "train", "Train a worker now, or on a benchmark."),
    "course": Entry("tentalis.cli.course", "app", "Workers that learn a benchmark, round by round."),
    "run": Entry("tentalis.cli.run", "app", "Look at trainings and watch them."),
    "prm": Entry("tentalis.cli.prm", "app", "Trained step scorers: train one, look, retire."),
    "judge": Entry("tentalis.cli.judge", "app", "Judges: is one fair, and as it was; may it train."),
    "manager": Entry("tentalis.cli.manager", "app", "Calibration of AI managers."),
    "adapter": Entry("tentalis.cli.adapter", "app", "What was learnt, and what serves."),
    "canary": Entry("tentalis.cli.canary", "app", "Adapters tried on a share of the work."),
    "shadow": Entry(
        "tentalis.cli.shadow", "app", "Shadow tests: adapters that repeat a share of the tasks, answers not shown."
    ),
    "check": Entry("tentalis.cli.check", "app", "What a right answer is, as data."),
    "skill": Entry("tentalis.cli.skill", "app", "Written procedures workers may use."),
    "dataset": Entry("tentalis.cli.dataset", "app", "Data sets: fetch, look at, register, remove."),
    "benchmark": Entry("tentalis.cli.benchmark", "app", "Benchmarks that come along, and those a project has."),
    "eval": Entry(
        "tentalis.cli.evaluation",
        "app",
        "Run a benchmark: `eval BENCH`; how models do on items, and two of them compared.",
    ),
    "experiment": Entry("tentalis.cli.experiment", "app", "Comparisons that were asked together: run them, results."),
    "taskset": Entry("tentalis.cli.taskset", "app", "What workers are measured on: named sets of tasks."),
    "session": Entry("tentalis.cli.conversation", "app", "Conversations the gateway saw."),
    "webhook": Entry("tentalis.cli.webhook", "app", "Addresses told what happens."),
    "search": Entry("tentalis.cli.search", "search", "Find tasks, feedback, sessions, runs and more by their words."),
    "dead-letter": Entry("tentalis.cli.dead_letter", "app", "Work that failed for good, and its replay."),
    "audit": Entry("tentalis.cli.audit", "app", "Check and export what happened."),
    "forget": Entry("tentalis.cli.forget", "forget", "Delete what is known of a person."),
    "token": Entry("tentalis.cli.token", "app", "Tokens for programs and agents."),
}


class LazyGroup(TyperGroup):
    """Lists commands from the table and imports a module only to run its command, so that --help is fast."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=entry.help) for name, entry in COMMANDS.items()}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and (entry := COMMANDS.get(args[0])):
            self.commands[args[0]] = load_command(args[0], entry)
        return super().resolve_command(ctx, args)


def load_command(name: str, entry: Entry) -> Any:
    """Import one command's module and build its command."""
    target = getattr(import_module(entry.module), entry.attribute)
    if isinstance(target, typer.Typer):
        target.info.help = entry.help
        command: Any = build_command(target)
    else:
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        settings = {"ignore_unknown_options": True} if entry.passes_on else None
        single.command(help=entry.help if not target.__doc__ else None, context_settings=settings)(target)
        command = build_command(single)
    command.name = name
    return command


app = typer.Typer(
    cls=LazyGroup,
    help="Tentalis: agents that get better at your work because a manager reviews it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """Tentalis: agents that get better at your work because a manager reviews it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command: an error of ours is one line and exit 1, bad use is exit 2, a defect keeps its trace."""
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="tentalis")
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in OUR_PACKAGES:
            raise
        sys.stderr.write(f"tentalis: {error}\n")
        raise SystemExit(1) from None
