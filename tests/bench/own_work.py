"""`python -m tests.bench.own_work`: a stranger's own prompts, own checks and own model server; does the loop close?

A team has 400 prompts with what a right answer is, a model of its own on a server of its own, and nothing else: no
world of ours knows its work. It submits them over REST to a `chat` worker in twelve portions, the first of them what it
has when it begins, and trains after each. A share of them holds itself out; the gate decides every adapter on those,
and no person is asked.

The referee is not the platform: the base and what serves at the end answer each held-out prompt some times at the
team's server, and this file compares the answers with the team's references (pairs by prompt, an interval over
prompts). Then every door that training data leaves by is read for held-out prompts.

The team's rules are not those that the built-in desk teaches: its model begins with habits, and other answers count.
"""

import argparse
import json
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, LiteralString, Self, TypeVar

import httpx
import psycopg
from rich.console import Console
from rich.table import Table

from tentalis.client.clients import Client
from tentalis.client.endpoints.calls import Call
from tentalis.core.desk import Ticket, make_ticket, solve
from tentalis.core.learning.gate import compare_paired
from tentalis.platform.up import RunningStack
from tests.bench.own_harness import Harness, make_request, try_at_server
from tests.chaos.stage import chaos_stack, read_admin_token
from tests.engine_process import run_engine
from tests.local_server import LocalHandler, LocalServer

Found = TypeVar("Found")

MODEL = Path("gpu_workers/desk/base")
NAME = "shop-model"
SLUG = "shop"
PROMPTS, UPDATES, GROUP = 400, 12, 8
TRIES = 16
"""Answers of each held-out prompt that the referee asks for."""
ERROR = 0.1
"""Of what judges and people say."""
PEOPLE = 4
"""Who review at a time."""
PATIENCE_S, POLL_S = 900.0, 0.25
CONFIDENCE = 0.9
UNDER_WAY = "queued", "working", "scoring", "in_review", "learning"
"""States of a task, in their order."""
LEFT = frozenset({"candidate", "quarantined"})
"""States of an adapter that the gate left to a person."""
OPTIONS: Mapping[tuple[str, str], str] = {
    ("order", "new"): "gift",
    ("order", "vip"): "plain",
    ("return", "in time"): "fee",
    ("return", "late"): "none",
    ("delay", "small"): "three",
    ("delay", "big"): "flat",
    ("broken", "yes"): "ask",
    ("broken", "no"): "cash",
}
"""What this shop does; the built-in desk's house does otherwise in every case."""
STACK = {
    "TENTALIS_LEASE_SECONDS": "60",
    "TENTALIS_RUN_SILENCE_SECONDS": "120",
    "TENTALIS_QUEUE_PROCESSES": "workers,scorers,hints,gates,control=threads:8",
}
_OF = "JOIN tasks_task task ON task.id = row.task_id WHERE task.prompt = ANY(%s)"
LEARNT: Sequence[LiteralString] = (
    f"SELECT count(*) FROM rollouts_traininguse used JOIN rollouts_rollout row ON row.id = used.rollout_id {_OF}",
    f"SELECT count(*) FROM rollouts_preferencepair row {_OF}",
    f"SELECT count(*) FROM rollouts_demonstration row {_OF}",
    f"SELECT count(*) FROM feedback_hint row {_OF} AND row.text <> ''",
)


class LoopOpenError(Exception):
    """The loop did not close; the message says where."""


@dataclass(frozen=True)
class Work:
    """One prompt of the team's, and what a right answer holds."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class Learned:
    """One row of the table: what came of one seed."""

    seed: int
    held_out: int
    base: float
    final: float
    gain: float
    low: float
    high: float
    adapters: int
    undecided: int
    promoted: int
    leaks: int
    wall_s: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--keep-in", type=Path, help="a home that stays, with its logs")
    parser.add_argument("--arm", choices=sorted(ARMS), default="checks", help="what says how good an answer is")
    options = parser.parse_args(argv)
    console, make = Console(width=180), ARMS[options.arm]
    rows = [
        learn(make, seed, updates=options.updates, keep_in=options.keep_in, console=console) for seed in options.seeds
    ]
    print_table(console, rows, title=make.title)
    bars = {
        f"seed {row.seed}: gain above 0": {"found": row.low, "wanted": 0.0, "met": row.low > 0.0} for row in rows
    } | {
        "adapters left to a person": {
            "found": (found := sum(row.undecided for row in rows)),
            "wanted": 0,
            "met": not found,
        },
        "held-out items in training data": {
            "found": (leaked := sum(row.leaks for row in rows)),
            "wanted": 0,
            "met": not leaked,
        },
    }
    print(json.dumps({"bench": "own_work", "arm": options.arm, "rows": [asdict(row) for row in rows], "bars": bars}))
    return 0 if all(bar["met"] for bar in bars.values()) else 1


def make_work(seed: int) -> list[Work]:
    """Prompts of the team's, each once, and its answers."""
    rng, made = random.Random(f"shop:{seed}"), dict[str, Work]()
    while len(made) < PROMPTS:
        ticket = make_ticket(rng)
        if (option := OPTIONS.get((ticket.family, ticket.context))) is not None:
            made.setdefault(ticket.text, Work(ticket.text, _answer(ticket, option)))
    return list(made.values())


def split_work(work: Sequence[Work], updates: int) -> list[Sequence[Work]]:
    """All of it at first, of which a share is put aside, and then once more, a portion an update."""
    size = -(-len(work) // max(updates - 1, 1))
    return [work, *(work[start : start + size] for start in range(0, len(work), size))][:updates]


def _answer(ticket: Ticket, option: str) -> str:
    return next(text for kind, text in solve(ticket, option) if kind == "answer")


class Arm:
    """What a team has that says how good an answer is: here a right answer with each prompt. Others change it.

    It is open while the team's stack runs.
    """

    title: ClassVar[str] = f"{PROMPTS} own prompts and checks, a model of their own, nobody asked"
    kind: ClassVar[str] = "chat"

    def __init__(self, work: Sequence[Work], seed: int) -> None:
        self.work, self.seed = work, seed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close what it opened."""

    def set_up(self, team: Client, model_url: str, directory: Path, stack: RunningStack) -> None:
        """A project, a model server and a worker, as a stranger makes them."""
        team.create_project(
            slug=SLUG, name="Shop", group_size=GROUP, batch_tasks=PROMPTS, review_policy={"who": "none"},
            recipe={"w_opd": 0.0, "w_rl": 1.0},
        )  # fmt: skip
        server = {"project": SLUG, "name": "own", "kind": "vllm", "base_url": f"{model_url}/v1", "allow_private": True}
        team.send(Call("POST", "providers", body=server))
        team.create_worker(
            project=SLUG, name="clerk", kind=self.kind, provider="own", base_model=NAME, base_directory=str(directory),
            sampling={"max_tokens": 44, "temperature": 1.0},
        )  # fmt: skip

    def make_row(self, one: Work) -> Mapping[str, Any]:
        """A line of the file of tasks."""
        return {"prompt": one.prompt, "reference": {"match": "exact", "value": one.answer}}

    def attend(self, team: Client) -> None:
        """What the team's people do whenever they look; here nothing."""

    def teach(self, team: Client, portion: Sequence[Work]) -> None:
        """Submit a portion and wait until all of it is done."""
        lines = [json.dumps(self.make_row(one)) for one in portion]
        team.import_tasks(project=SLUG, text="\n".join(lines), form="jsonl", environment="chat", worker="clerk")

        def is_done() -> bool | None:
            self.attend(team)
            is_open = any(team.list_tasks(project=SLUG, state=state, limit=1)["results"] for state in UNDER_WAY)
            return not is_open or None

        wait_for(is_done, "tasks stay open")

    def ask(self, model_url: str, model: str, work: Sequence[Work]) -> list[float]:
        """(items,) share of right answers at the team's own server, which the platform has nothing to do with."""
        return [
            statistics.fmean(read_answer(said) == one.answer for said in self.say_at(model_url, model, one, 77 + place))
            for place, one in enumerate(work)
        ]

    def say_at(self, model_url: str, model: str, one: Work, seed: int) -> list[str]:
        """What the server says to a prompt, some times."""
        body = make_request(model, one.prompt, n=TRIES, seed=seed)
        answer = httpx.post(f"{model_url}/v1/chat/completions", json=body, timeout=60).raise_for_status().json()
        return [choice["message"]["content"] for choice in answer["choices"]]


class ArmWithPeople(Arm):
    """A team without a single check: its people say which of a task's answers are better, and err now and then."""

    title = (
        f"{PROMPTS} own prompts and no check; people judge all work, and blind pairs for the gate ({ERROR:.0%} error)"
    )
    review_policy: ClassVar[Mapping[str, Any]] = {"who": "human", "undo_s": 0}
    gate_policy: ClassVar[Mapping[str, Any]] = {"blind_pairs": 120}

    def __init__(self, work: Sequence[Work], seed: int) -> None:
        super().__init__(work, seed)
        self.right = {one.prompt: one.answer for one in work}

    def set_up(self, team: Client, model_url: str, directory: Path, stack: RunningStack) -> None:
        super().set_up(team, model_url, directory, stack)
        team.change_project(SLUG, review_policy=self.review_policy, gate_policy=self.gate_policy)

    def make_row(self, one: Work) -> Mapping[str, Any]:
        return {"prompt": one.prompt}

    def attend(self, team: Client) -> None:
        """Judge what waits in the queue: what is right is better than what is wrong."""
        reviews = list(team.iterate(team.list_reviews, project=SLUG, state="open", audience="human"))
        with ThreadPoolExecutor(PEOPLE) as pool:
            list(pool.map(partial(self.judge, team), reviews))

    def judge(self, team: Client, review: Mapping[str, Any]) -> None:
        prompt, tiers = team.get_task(review["task"])["prompt"], {True: list[int](), False: list[int]()}
        for attempt in team.list_attempts(review["task"])["results"]:
            if attempt["state"] == "answered":
                tiers[self.is_right(prompt, attempt["answer"])].append(attempt["index"])
        errs = self.errs("people", prompt, str(review["id"]))
        ranking = [tiers[is_right] for is_right in ((False, True) if errs else (True, False)) if tiers[is_right]]
        team.give_feedback(review["id"], ranking=ranking, score=float(bool(tiers[True]) != errs))

    def is_right(self, prompt: str, answer: str) -> bool:
        return (read_answer(answer) or answer.strip()) == self.right[prompt]

    def errs(self, *about: str) -> bool:
        """Whether this judgement is wrong, the same whenever it is asked for."""
        return random.Random(":".join((str(self.seed), *about))).random() < ERROR


class ArmWithJudge(ArmWithPeople):
    """A team without a single check, whose model judges; people look at a part of the work, by which it is measured."""

    title = f"{PROMPTS} own prompts and no check; a model judges ({ERROR:.0%} error), people a part of the work"
    review_policy = {
        "who": "both", "human_rate": 0.5, "ai_manager": "llm", "model": "bench/wise", "undo_s": 0,
    }  # fmt: skip
    gate_policy: ClassVar[Mapping[str, Any]] = {}

    def __enter__(self) -> Self:
        arm = self

        class Judge(LocalHandler):
            def do_POST(self) -> None:
                said = arm.say(json.loads(self.read())["messages"][-1]["content"])
                self.answer_chat(json.dumps(said), model="wise")

        self.server = LocalServer(Judge)
        self.server.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.server.__exit__(*error)

    def set_up(self, team: Client, model_url: str, directory: Path, stack: RunningStack) -> None:
        super().set_up(team, model_url, directory, stack)
        url = f"{self.server.url}/v1"
        server = {"project": SLUG, "name": "bench", "kind": "custom", "base_url": url, "allow_private": True}
        team.send(Call("POST", "providers", body=server))

    def say(self, asked: str) -> Mapping[str, Any]:
        """A verdict on an answer, or which of two is better."""
        found = dict(re.findall(r"<<<([A-Z0-9 ]+) fence-\w+\n(.*?)\nfence-", asked, re.DOTALL))
        prompt = found["TASK"]
        if "FIRST ANSWER" not in found:
            is_right = self.is_right(prompt, found["ANSWER"])
            score = float(is_right != self.errs("judge", prompt, found["ANSWER"]))
            count = sum(name.startswith("STEP ") for name in found)
            steps = [{"index": index, "score": score, "reason": ""} for index in range(count)]
            return {"steps": steps, "overall": score, "reason": ""}
        both = found["FIRST ANSWER"], found["SECOND ANSWER"]
        first, second = (self.is_right(prompt, one) for one in both)
        if first == second:
            return {"better": "tie"}
        return {"better": "first" if first != self.errs("judge", prompt, *sorted(both)) else "second"}


class ArmOutside(Arm):
    """A team whose agent is a harness of its own, which makes two calls a try through the gateway."""

    title = f"{PROMPTS} own prompts and checks, done and measured by a harness of their own through the gateway"
    kind = "outside"

    def __enter__(self) -> Self:
        self.closing = ExitStack()
        return self

    def __exit__(self, *error: Any) -> None:
        self.closing.__exit__(*error)

    def set_up(self, team: Client, model_url: str, directory: Path, stack: RunningStack) -> None:
        super().set_up(team, model_url, directory, stack)
        harness = Harness(
            stack.state().addresses, token=read_admin_token(stack), project=SLUG, worker="clerk", read=read_answer
        )
        self.harness = self.closing.enter_context(harness)

    def attend(self, team: Client) -> None:
        if self.harness.refusals:
            raise LoopOpenError(f"the harness was refused: {dict(self.harness.refusals)}")

    def say_at(self, model_url: str, model: str, one: Work, seed: int) -> list[str]:
        return try_at_server(model_url, model, one.prompt, tries=TRIES, seed=seed)


ARMS: Mapping[str, type[Arm]] = {
    "checks": Arm, "judge": ArmWithJudge, "people": ArmWithPeople, "outside": ArmOutside
}  # fmt: skip


def learn(make: type[Arm], seed: int, *, updates: int, keep_in: Path | None, console: Console) -> Learned:
    """Let the team's worker learn from its own work, on a stack of its own."""
    work, started = make_work(seed), time.monotonic()
    left, portions = 0, split_work(work, updates)
    with (
        own_model() as directory,
        run_engine(str(directory)) as model_url,
        chaos_stack(settings=STACK, keep_in=keep_in) as stack,
        Client(stack.state().addresses["console_url"], token=read_admin_token(stack)) as team,
        make(work, seed) as arm,
    ):
        arm.set_up(team, model_url, directory, stack)
        for update, portion in enumerate(portions, start=1):
            begun = time.monotonic()
            arm.teach(team, portion)
            adapter = train(arm, team, update)
            left += adapter["state"] in LEFT
            told = f"seed {seed} update {update:>2}: {adapter['name']} {adapter['state']}"
            told += f" {time.monotonic() - begun:5.1f} s  {say_verdicts(team, adapter)}"
            console.print(told, soft_wrap=True, markup=False, highlight=False)
        adapters = list(team.iterate(team.list_adapters, project=SLUG))
        held_out = find_held_out(team, work)
        serves = next((one["name"] for one in adapters if one["state"] == "deployed"), NAME)
        base, final = (arm.ask(model_url, name, held_out) for name in (NAME, serves))
        leaks = count_leaks(team, stack, held_out)
    found = compare_paired(final, base, confidence=CONFIDENCE) if held_out else None
    return Learned(
        seed=seed, held_out=len(held_out), base=statistics.fmean(base or [0]), final=statistics.fmean(final or [0]),
        gain=found.difference if found else 0.0, low=found.low if found else -1.0, high=found.high if found else 1.0,
        adapters=len(adapters), undecided=left,
        promoted=sum(one["state"] in {"deployed", "retired"} for one in adapters), leaks=leaks,
        wall_s=round(time.monotonic() - started, 1),
    )  # fmt: skip


@contextmanager
def own_model() -> Iterator[Path]:
    """The team's weights in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="tentalis-bench-") as directory:
        yield Path(shutil.copytree(MODEL, Path(directory) / NAME))


def train(arm: Arm, team: Client, update: int) -> Mapping[str, Any]:
    """Train with what the batch holds; the adapter, decided."""
    run = team.train(project=SLUG, worker="clerk")

    def find_adapter() -> Mapping[str, Any] | None:
        arm.attend(team)
        told = team.get_run(run["id"])
        if told["state"] in {"failed", "refused", "cancelled"}:
            raise LoopOpenError(f"update {update}: run {run['id']} {told['state']}: {told.get('failure')}")
        made = [one["id"] for one in team.iterate(team.list_adapters, project=SLUG) if one["run"] == run["id"]]
        if not made or not team.list_verdicts(made[0])["results"]:
            return None
        judged = team.get_adapter(made[0])  # as it is behind its verdict
        return None if judged["state"] == "verified" else judged

    adapter = wait_for(find_adapter, f"update {update}: no adapter was judged")
    if adapter["state"] in LEFT:  # the gate left it to a person: so that the loop goes on, one takes it
        team.promote_adapter(adapter["id"])
    return adapter


def say_verdicts(team: Client, adapter: Mapping[str, Any]) -> str:
    return " | ".join(f"{one['question']}: {one['words']}" for one in team.list_verdicts(adapter["id"])["results"])


def find_held_out(team: Client, work: Sequence[Work]) -> list[Work]:
    """Those of the team's prompts that the platform put aside."""
    by_prompt = {one.prompt: one for one in work}
    sets = team.iterate(team.list_tasksets, project=SLUG)
    items = [item for one in sets for item in team.iterate(partial(team.list_items, one["id"]))]
    return [by_prompt[item["prompt"]] for item in items if item["split"] == "held_out"]


def read_answer(text: str) -> str:
    """What stands between the last answer's tags; "" for none."""
    found = re.findall(r"<answer>(.*?)</answer>", text)
    return found[-1].strip() if found else ""


def count_leaks(team: Client, stack: RunningStack, held_out: Sequence[Work]) -> int:
    """Held-out prompts among what is learnt from: rows, files that the training box read, and the export."""
    kept = [one.prompt for one in held_out]
    with psycopg.connect(stack.state().addresses["admin_database_url"], autocommit=True) as connection:
        rows = sum(connection.execute(query, (kept,)).fetchone()[0] for query in LEARNT)  # type: ignore[index]
    with tempfile.TemporaryDirectory() as directory:
        export = Path(directory) / "rollouts.jsonl"
        team.download("rollouts/export", export, project=SLUG)
        files = [export, *stack.home.root.rglob("*.jsonl")]
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file()]
    return int(rows) + sum(prompt in text for prompt in kept for text in texts)


def wait_for(find: Callable[[], Found | None], what: str, *, patience_s: float = PATIENCE_S) -> Found:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if (found := find()) is not None:
            return found
        time.sleep(POLL_S)
    raise LoopOpenError(f"{what} within {patience_s:.0f} s")


def print_table(console: Console, rows: Sequence[Learned], *, title: str) -> None:
    table = Table(title=title)
    for column in (
        "seed",
        "held out",
        "base",
        "after",
        f"gain ({CONFIDENCE:.0%})",
        "adapters",
        "promoted",
        "left to a person",
        "leaks",
        "wall s",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            str(row.seed), str(row.held_out), f"{row.base:.1%}", f"{row.final:.1%}",
            f"{100 * row.gain:+.1f} [{100 * row.low:+.1f}, {100 * row.high:+.1f}]", str(row.adapters),
            str(row.promoted), str(row.undecided), str(row.leaks), f"{row.wall_s:.0f}",
        )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
