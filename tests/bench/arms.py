"""`python -m tests.bench.arms --model NAME`: what teaches a pretrained model a manager's rules, at equal samples.

Every arm is a project of its own out of the same tickets, rules and seeds, on the platform's own rows, queues, trainer
and gate: prompts alone (examples, the rules in words, the best that a search finds), people's edits by SFT and by DPO,
checks by GRPO, checks with people's hints, and two naive arms. What the base and what serves at the end reply to the
same held-out tickets is compared by ticket. Arms are data: another one is another line of `ARMS`. Of arms that train
nothing the base's figures are those that count.

A naive arm is what a hurried team does: five checks that are easily kept, no KL, a high learning rate. One learns as
all others do, from what its gate lets serve. Of the other every adapter is promoted by hand in a project that measures
nothing, so that the updates add up (`tests.bench.arms_unwatched`); each of its adapters is handed in at the gate of a
second project with the same five checks, where the base serves first, as continuing the one before it: its shares and
verdicts are those of that project.

The model is one that is kept in the home (`tentalis model get`); the stack runs in a home of the bench's own. Nothing
is judged but the naive arms: whatever the others show is printed. Alarms must fire on each by its fifth update, and no
adapter of it may be promoted.

Small sizes try the line (`--updates 1 --tasks 2 --group 4 --a-sentence 2 --arms checks naive --seeds 0`); the defaults
take a night on two cores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

from rich.console import Console
from rich.table import Table

from tentalis.cli.support_desk import RULES, Rule, Ticket, make_tickets, write_checks, write_support_desk
from tentalis.client.clients import Client
from tentalis.client.errors import ClientError
from tentalis.core.learning.gate import GatePolicy
from tentalis.kept_models import find_model, models_directory
from tentalis.platform.home import Home
from tentalis.platform.stack import PROJECT_DIRECTORY
from tentalis.platform.up import RunningStack, launch_stack
from tests.bench.arms_prompts import Sizes, list_examples, list_rules, search_prompt, write_prompt
from tests.chaos.stage import make_environ, read_admin_token

HOME = Path(".cache/bench/arms/home")
ALARMED_BY = 5
"""Update of a naive arm by which an alarm must have fired."""
POLL_S = 1.0
NAIVE, UNWATCHED = "naive", "naive, unwatched"
SHOWS_NONE = GatePolicy().base_distance_nats
"""No arm is shown the manager's own replies before it is asked."""
Say = Callable[[Ticket, str], Mapping[str, Any]]
"""What a person says of a reply to a ticket, as the client gives it."""


def edit(ticket: Ticket, _: str) -> Mapping[str, Any]:
    """Write what the reply should have been."""
    return {"edited_answer": ticket.write_right_reply()}


def hint(ticket: Ticket, reply: str) -> Mapping[str, Any]:
    """Say in words what the rules want of this ticket."""
    lacking = (
        [] if ticket.customer in reply and ticket.order in reply else ["name the customer, the order and the item"]
    )
    told = [*lacking, f"pay back {ticket.refund} euros by {ticket.by}", "end with: With sea air, your Quayside desk."]
    return {"text": f"Next time {'; '.join(told)}"}


@dataclass(frozen=True)
class Arm:
    """One way to teach.

    Args:
        recipe: beside the project's own.
        prompt: of the worker, made of its usual one and the tickets to train on.
        say: what people say of each reply; None: checks alone judge.
        learns: whether weights are trained.
        searches: whether the prompt is the best of as many as there are updates, each judged by an update's attempts.
        rules: what replies are checked for, each as much as another.
        is_watched: whether a gate decides what it goes on from; else a person promotes whatever was trained.
    """

    name: str
    recipe: Mapping[str, Any] = field(default_factory=dict)
    prompt: Callable[[str, Sequence[Ticket]], str] = lambda usual, _: usual
    say: Say | None = None
    learns: bool = True
    searches: bool = False
    rules: Sequence[Rule] = RULES
    is_watched: bool = True


def show_examples(usual: str, tickets: Sequence[Ticket]) -> str:
    return write_prompt(usual, list_examples(tickets))


def tell_rules(usual: str, _: Sequence[Ticket]) -> str:
    return write_prompt(usual, list_rules())


SINGLE_RULES: Sequence[Rule] = (
    *((f"names-{name}", f"The reply names the {name}.", {"check": "contains", "value": {"fact": name}})
      for name in ("customer", "order", "item")),
    *(rule for rule in RULES if rule[0] in {"house-ending", "right-length"}),
)  # fmt: skip
"""What a reply keeps by saying the right words, whatever it makes of them."""
CHECKED = {"w_rl": 1.0, "w_opd": 0.0, "kl_coef": 0.05}
HURRIED = {"w_rl": 1.0, "w_opd": 0.0, "kl_coef": 0.0, "learning_rate": 2e-4}
ARMS = (
    Arm("examples in the prompt", prompt=show_examples, learns=False),
    Arm("rules in the prompt", prompt=tell_rules, learns=False),
    Arm("prompt search", learns=False, searches=True),
    Arm("sft on edits", {"algorithm": "sft", "learning_rate": 1e-4}, say=edit),
    Arm("dpo on edits", {"algorithm": "dpo", "learning_rate": 2e-5}, say=edit),
    Arm("checks", CHECKED),
    Arm("checks and hints", {"w_rl": 0.7, "w_opd": 0.3, "kl_coef": 0.05}, say=hint),
    Arm(NAIVE, HURRIED, rules=SINGLE_RULES),
    Arm(UNWATCHED, HURRIED, rules=SINGLE_RULES, is_watched=False),
)


@dataclass(frozen=True)
class Learned:
    """What came of an arm with a seed; figures are shares, gains (difference, low, high) in points at 90 %.

    Args:
        alarmed_at: the first update whose adapter raised an alarm, from 1; None: none did.
        failure: why it did not come to its end; "" where it did.
    """

    arm: str
    seed: int
    samples: int = 0
    base: float | None = None
    final: float | None = None
    gain: Sequence[float] | None = None
    passed: float | None = None
    gain_passed: Sequence[float] | None = None
    promoted: int = 0
    adapters: int = 0
    alarms: Mapping[str, int] = field(default_factory=dict)
    alarmed_at: int | None = None
    capability: str = ""
    wall_s: float = 0.0
    failure: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gemma-3-270m", help="as it is kept in the home")
    parser.add_argument("--arms", nargs="+", choices=[arm.name for arm in ARMS], default=[arm.name for arm in ARMS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--a-sentence", type=int, default=10)
    options = parser.parse_args(argv)
    console = Console(width=200)
    sizes = Sizes(options.updates, options.tasks, options.group, options.a_sentence)
    arms = [arm for arm in ARMS if arm.name in options.arms]
    with arms_stack(options.model) as stack:
        rows = [
            learn(stack, arm, seed, model=options.model, sizes=sizes, console=console)
            for seed in options.seeds
            for arm in arms
        ]
    title = f"{options.model} on support-desk, {sizes.updates} updates of {sizes.tasks} x {sizes.group}"
    print_table(console, rows, title=title)
    bars = judge_naive([row for row in rows if row.arm in {NAIVE, UNWATCHED}], sizes)
    print(json.dumps({"bench": "arms", "model": options.model, "rows": [asdict(row) for row in rows], "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


def judge_naive(rows: Sequence[Learned], sizes: Sizes) -> dict[str, dict[str, Any]]:
    """Whether the naive arms were seen through with every seed; no bars where there were too few updates for that."""
    if sizes.updates < ALARMED_BY:
        return {}
    bars: dict[str, dict[str, Any]] = {}
    for row in rows:
        is_alarmed = row.alarmed_at is not None and row.alarmed_at <= ALARMED_BY
        found = row.failure or row.alarmed_at
        bars[f"{row.arm}, seed {row.seed}: alarms by update"] = {
            "found": found,
            "wanted": ALARMED_BY,
            "met": is_alarmed,
        }
        is_held = not row.promoted and not row.failure
        bars[f"{row.arm}, seed {row.seed}: promoted"] = {"found": row.promoted, "wanted": 0, "met": is_held}
    return bars


@contextmanager
def arms_stack(model: str) -> Iterator[RunningStack]:
    """A stack in a home of the bench's own, that serves the model which is kept in the usual one."""
    kept = find_model(Home.find(os.environ).root, model)
    home = Home(HOME.absolute())
    home.prepare()
    models_directory(home.root).mkdir(exist_ok=True)
    link = models_directory(home.root) / model
    if not link.exists():
        link.symlink_to(kept.directory, target_is_directory=True)
    environ = make_environ() | {name: os.environ[name] for name in ("TENTALIS_TORCH_THREADS",) if name in os.environ}
    stack = launch_stack(home, environ, dies_with_us=True)
    try:
        yield stack
    finally:
        stack.stop()


def learn(stack: RunningStack, arm: Arm, seed: int, *, model: str, sizes: Sizes, console: Console) -> Learned:
    """One arm with one seed, in a project of its own."""
    slug, started = f"arm-{time.time_ns() // 10**6}", time.monotonic()
    environment = stack.environment(os.environ)
    tickets = list(make_tickets(seed=seed + 1, a_sentence=sizes.a_sentence))
    project = write_project(arm, seed, tickets, sizes)
    updates = sizes.updates if arm.learns else 0
    argv = ["--updates", str(updates), "--seed", str(seed)]
    samples = 0
    with Client(stack.state().addresses["console_url"], token=read_admin_token(stack)) as client:
        if arm.searches:
            tried = f"{slug}-tried"
            make_project(tried, hold_nothing_out(project, learns=False), model=model, environment=environment)
            best = search_prompt(client, tried, project["worker"]["system_prompt"], _train(tickets), sizes, seed=seed)
            console.print(f"found by {best.share:.3f} of the checks:\n{best.prompt}", markup=False, highlight=False)
            project["worker"]["system_prompt"] = best.prompt
            samples = sizes.updates * sizes.tasks * sizes.group
        make_project(slug, project, model=model, environment=environment)
        if arm.is_watched:
            with Reviewers(client, slug, arm.say, tickets):
                done = _run(["django", "demo", "--project", slug, *argv], environment, may_fail=True)
        else:
            unwatched = f"{slug}-unwatched"
            make_project(unwatched, hold_nothing_out(project), model=model, environment=environment)
            projects = ["--watched", slug, "--unwatched", unwatched]
            done = _run(["tests.bench.arms_unwatched", *projects, *argv], environment, may_fail=True)
            console.print(done.stdout, soft_wrap=True, markup=False, highlight=False)
        found = read_outcome(client, slug, done)
    found["samples"] = found.get("samples", 0) + samples
    row = Learned(arm=arm.name, seed=seed, wall_s=round(time.monotonic() - started, 1), **found)
    told = row.failure or f"{row.base:.3f} -> {row.final:.3f}, promoted {row.promoted}, alarms {dict(row.alarms)}"
    console.print(f"seed {seed} {arm.name}: {told}  {row.wall_s:.0f} s", soft_wrap=True, markup=False, highlight=False)
    return row


def make_project(slug: str, told: Mapping[str, Any], *, model: str, environment: Mapping[str, str]) -> None:
    """One that `write_project` wrote."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "project.json"
        file.write_text(json.dumps(told), encoding="utf-8")
        _run(["tentalis", "project", "new", slug, "--from", str(file), "--model", model], environment)


def hold_nothing_out(told: Mapping[str, Any], *, learns: bool = True) -> dict[str, Any]:
    """The same project without what a gate could measure on."""
    rows = [row for row in told["rows"] if row["split"] == "train"]
    project = {**told["project"], "held_out_percent": 0, "learning_enabled": learns}
    return {**told, "project": project, "rows": rows}


def _train(tickets: Sequence[Ticket]) -> list[Ticket]:
    return [ticket for ticket in tickets if not ticket.is_held_out]


def write_project(arm: Arm, seed: int, tickets: Sequence[Ticket], sizes: Sizes) -> dict[str, Any]:
    """The support desk, as the arm has it."""
    told = write_support_desk(seed=seed + 1)
    project, worker = told["project"], told["worker"]
    return told | {
        "project": project
        | {
            "batch_tasks": sizes.tasks,
            "group_size": sizes.group,
            "review_policy": {"who": "none"} if arm.say is None else {"who": "human", "undo_s": 0},
            "recipe": project["recipe"] | arm.recipe,
            "gate_policy": project["gate_policy"] | {"least_solved": 0, "base_distance_nats": SHOWS_NONE},
        },
        "checks": write_checks(arm.rules),
        "worker": worker | {"system_prompt": arm.prompt(worker["system_prompt"], _train(tickets))},
        "rows": _write_rows(tickets),
        "shown": {"recipe": {}, "replies": []},
    }


def _write_rows(tickets: Sequence[Ticket]) -> list[dict[str, Any]]:
    return [
        {
            "prompt": ticket.prompt,
            "split": "held_out" if ticket.is_held_out else "train",
            "checks": {"use": "house"},
            "metadata": ticket.facts,
        }
        for ticket in tickets
    ]


class Reviewers:
    """People who judge whatever waits for them in a project, until the block ends; nobody where they have no word."""

    def __init__(self, client: Client, slug: str, say: Say | None, tickets: Sequence[Ticket]) -> None:
        self._client, self._slug, self._say = client, slug, say
        self._tickets = {ticket.prompt: ticket for ticket in tickets}
        self._stop, self._thread = Event(), Thread(target=self._work, name="reviewers")

    def __enter__(self) -> Self:
        if self._say is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._say is not None:
            self._thread.join()

    def _work(self) -> None:
        while not self._stop.wait(POLL_S):
            waiting = list(self._client.iterate(self._client.list_reviews, project=self._slug, state="open"))
            for review in waiting:
                try:
                    self._judge(review)
                except ClientError as error:
                    sys.stderr.write(f"review {review['id']}: {error}\n")

    def _judge(self, review: Mapping[str, Any]) -> None:
        task = self._client.get_task(review["task"])
        ticket, say = self._tickets[task["prompt"]], self._say
        attempts = [one for one in self._client.list_attempts(task["id"])["results"] if one["state"] == "answered"]
        if say is None or not attempts:
            return
        first = attempts[0]
        self._client.give_feedback(review["id"], preferred_attempt=first["index"], **say(ticket, first["answer"]))


def read_outcome(client: Client, slug: str, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What was told in JSON, and what the gate said of each adapter."""
    adapters = sorted(client.iterate(client.list_adapters, project=slug), key=lambda one: one["version"])
    alarms: dict[str, int] = {}
    alarmed_at = None
    for number, adapter in enumerate(adapters, start=1):
        verdicts = client.list_verdicts(adapter["id"])["results"]
        raised = [one["detector"] for verdict in verdicts for one in verdict["details"].get("alarms", [])]
        for detector in raised:
            alarms[detector] = alarms.get(detector, 0) + 1
        if raised and alarmed_at is None:
            alarmed_at = number
    found: dict[str, Any] = {
        "adapters": len(adapters),
        "promoted": sum(one["state"] in {"deployed", "retired"} for one in adapters),
        "alarms": alarms,
        "alarmed_at": alarmed_at,
    }
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return found | {"failure": (done.stderr.strip().splitlines() or ["no result"])[-1][:300]}
    told = json.loads(lines[-1])
    return found | {
        "samples": told["attempts"],
        "base": told["base_sampled"],
        "final": told["final_sampled"],
        "gain": told["gain"],
        "passed": told["final_passed"],
        "gain_passed": told["gain_passed"],
        "capability": told["capability"],
    }


def _run(argv: Sequence[str], environment: Mapping[str, str], *, may_fail: bool = False) -> Any:
    command = [sys.executable, "-m", *argv]
    done = subprocess.run(
        command, env=dict(environment), cwd=PROJECT_DIRECTORY, capture_output=True, text=True, check=False
    )
    if done.returncode and not may_fail:
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done


def print_table(console: Console, rows: Sequence[Learned], *, title: str) -> None:
    table = Table(title=title)
    for name in ("arm", "seed", "samples", "checks: base", "after", "gain", "all rules: after", "gain", "promoted",
                 "alarms", "first at", "s"):  # fmt: skip
        table.add_column(name, justify="left" if name in {"arm", "alarms"} else "right")
    for row in rows:
        table.add_row(
            row.arm, str(row.seed), str(row.samples), *map(_share, (row.base, row.final)), _points(row.gain),
            _share(row.passed), _points(row.gain_passed), f"{row.promoted} of {row.adapters}",
            row.failure or ", ".join(f"{name} {count}" for name, count in row.alarms.items()),
            str(row.alarmed_at or ""), f"{row.wall_s:.0f}",
        )  # fmt: skip
    console.print(table, markup=False)
    for row in rows:
        if row.capability:
            console.print(f"{row.arm}, seed {row.seed}: {row.capability}", markup=False, highlight=False)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _points(gain: Sequence[float] | None) -> str:
    return "" if gain is None else "{:+.1f} [{:+.1f}, {:+.1f}]".format(*gain)


if __name__ == "__main__":
    sys.exit(main())
