"""One fault run from start to end: a stack, patient clients, a nemesis, and the checker's word on what is left."""

import itertools
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tentalis.core.desk import make_tickets
from tentalis.platform.up import RunningStack
from tests.chaos.broken_adapters import hash_of
from tests.chaos.checker import find_faults
from tests.chaos.clients import Order, PatientClient, Tally, review_until, submit_all
from tests.chaos.duplicator import Duplicator
from tests.chaos.history import History, acknowledged
from tests.chaos.ledger import Ledger, count_unfinished, read_ledger
from tests.chaos.nemesis import Nemesis, path_of
from tests.chaos.plan import Fault
from tests.chaos.stage import read_admin_token

logger = logging.getLogger(__name__)

DESK_SHARE = 0.1
REVIEWED_SHARE = 0.1
BATCH_TASKS = 8
EXTRA_S = 8.0
POLL_S = 0.5
QUIET_POLLS = 4
"""The run is over when nothing is unfinished so many times in a row: between two segments there is a moment."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is asked of the stack.

    Args:
        over_s: submission is spread over so long, so that the faults fall into the work.
        settle_s: how long after the last fault everything may take to end.
    """

    tasks: int
    seed: int
    over_s: float
    clients: int = 4
    settle_s: float = 600.0
    with_training: bool = True


@dataclass
class Report:
    """What a run came to; `faults` is empty for one that kept its promises."""

    faults: list[str]
    acknowledged: int
    lost: int
    executions_repeated: int
    messages: int
    copies: int
    retries: int
    caused: int
    wall_s: float
    settled_s: float
    rows: dict[str, int] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    server_errors: list[str] = field(default_factory=list)


def run_faults(stack: RunningStack, *, load: Load, plan: Sequence[Fault], directory: Path) -> Report:
    """Work a load through a stack while the plan breaks it, wait for the end, check.

    Args:
        directory: the history is kept there.
    """
    began = time.monotonic()
    addresses = stack.state().addresses
    url, database_url = addresses["console_url"], addresses["database_url"]
    token, tally = read_admin_token(stack), Tally()
    history = History(directory / "history.jsonl")
    nemesis = Nemesis(stack, history)
    duplicator = Duplicator(addresses["redis_url"], load.seed)
    stop = threading.Event()
    with PatientClient(url, token, tally) as admin:
        make_projects(admin, load)
        orders = make_orders(load)
        duplicator.start()
        with ThreadPoolExecutor(load.clients + 3) as pool:
            submitting = [
                pool.submit(submit_with, url, token, tally, orders[number :: load.clients], history, load.over_s)
                for number in range(load.clients)
            ]
            breaking = pool.submit(nemesis.carry_out, plan, stop)
            reviewing = [
                pool.submit(review_with, url, token, tally, history, stop, load.seed + number) for number in range(2)
            ]
            try:
                for future in submitting:
                    future.result()
                for round_number in itertools.count():
                    if breaking.done():
                        break
                    # a fault still waits for a training: give it one
                    submit_all(admin, make_extra_orders(load, round_number), history, over_s=EXTRA_S)
                breaking.result()
                duplicator.stop()
                settled_s, left = settle(admin, database_url, load)
            finally:
                stop.set()
                duplicator.stop()
            for future in reviewing:
                future.result()
        chain = admin.send("GET", "audit/verify").json()
    history.close()
    ledger = read_ledger(database_url, chain_faults=list(chain.get("faults", ["the audit could not be asked"])))
    faults = find_faults(history.events, ledger)
    faults += [f"not at its end after {load.settle_s:.0f} s: {left}"] if left else []
    faults += [f"could not be staged: {kind}" for kind in nemesis.not_staged]
    faults += find_bad_deployments(ledger)
    known = acknowledged(history.events, "submit")
    there = {task.id for task in ledger.tasks if task.state in {"done", "failed", "cancelled"}}
    return Report(
        faults=faults,
        acknowledged=len(known),
        lost=sum(details["id"] not in there for details in known.values()),
        executions_repeated=count_repeated(database_url),
        messages=duplicator.seen,
        copies=duplicator.sent,
        retries=tally.retries,
        caused=nemesis.done,
        wall_s=time.monotonic() - began,
        settled_s=settled_s,
        rows=count_rows(ledger),
        refusals=list_refusals(ledger),
        server_errors=sorted(set(tally.server_errors)),
    )


def make_projects(admin: PatientClient, load: Load) -> None:
    """Three teams: one that is not reviewed, one whose reviews wait for a person, and the desk, which learns."""
    people = {"who": "human", "patience_s": 3600, "on_timeout": "fail"}
    projects: list[tuple[str, dict[str, Any], str]] = [
        ("mass", {"review_policy": {"who": "none"}, "group_size": 2, "batch_tasks": BATCH_TASKS}, "echo"),
        ("people", {"review_policy": people, "group_size": 2, "batch_tasks": BATCH_TASKS}, "echo"),
    ]
    if load.with_training:
        # an update here is a few attempts of noise: the gate asks little, so that adapters come into service
        gate = {"panel_size": 60, "margin": 0.9, "second_margin": 0.9}
        policy = {"who": "ai", "ai_manager": "rule-book"}
        projects.append(
            (
                "learners",
                {"review_policy": policy, "gate_policy": gate, "group_size": 4, "batch_tasks": BATCH_TASKS},
                "desk",
            )
        )
    for slug, settings, kind in projects:
        admin.create("projects", {"slug": slug, "name": slug.title(), **settings}, key=f"project-{slug}")
        admin.create("workers", {"project": slug, "name": kind, "kind": kind}, key=f"worker-{slug}")


def make_orders(load: Load) -> list[Order]:
    """The tasks in the order in which they are submitted; the same for a seed."""
    draw = random.Random(load.seed)
    tickets = iter(make_tickets(load.seed, load.tasks, held_out=False))
    orders = []
    for number in range(load.tasks):
        place = draw.random()
        body: dict[str, Any] = {"project": "mass", "environment": "chat", "prompt": f"Say number {number}."}
        if place < DESK_SHARE and load.with_training:
            body = {"project": "learners", "environment": "desk", "prompt": next(tickets).text, "seed": number}
        elif place > 1 - REVIEWED_SHARE:
            body["project"] = "people"
        orders.append(Order(f"task-{number}", body))
    return orders


def make_extra_orders(load: Load, round_number: int) -> list[Order]:
    """Enough for one training more, or for a while of the mass."""
    if not load.with_training:
        return [Order(f"extra-{round_number}", {"project": "mass", "environment": "chat", "prompt": "Say it again."})]
    tickets = make_tickets(load.seed + 1_000 + round_number, BATCH_TASKS, held_out=False)
    return [
        Order(f"extra-{round_number}-{index}", {"project": "learners", "environment": "desk", "prompt": ticket.text})
        for index, ticket in enumerate(tickets)
    ]


def submit_with(url: str, token: str, tally: Tally, orders: Sequence[Order], history: History, over_s: float) -> None:
    with PatientClient(url, token, tally) as client:
        submit_all(client, orders, history, over_s=over_s)


def review_with(url: str, token: str, tally: Tally, history: History, stop: threading.Event, seed: int) -> None:
    with PatientClient(url, token, tally) as client:
        review_until(client, "people", history, stop, scores=_draw_scores(seed), name=str(seed))


def _draw_scores(seed: int) -> Iterator[float]:
    draw = random.Random(seed)
    return (round(draw.random(), 2) for _ in itertools.count())


def settle(admin: PatientClient, database_url: str, load: Load) -> tuple[float, dict[str, int]]:
    """Wait until everything is at its end; what fills a batch then is trained on too.

    Returns:
        (seconds it took, what is left over when the patience ended: {} when nothing is).
    """
    began = time.monotonic()
    closes = itertools.count(1) if load.with_training else None
    quiet = 0
    left: dict[str, int] = {}
    while time.monotonic() - began < load.settle_s:
        try:
            left = count_unfinished(database_url)
        except psycopg.OperationalError:
            left = {"postgres": 1}
        quiet = 0 if left else quiet + 1
        if quiet >= QUIET_POLLS:
            if closes is None:
                return time.monotonic() - began, {}
            answer = admin.send("POST", "runs", {"project": "learners"}, key=f"close-{next(closes)}")
            if answer.status_code == 409:
                return time.monotonic() - began, {}
            quiet = 0
        time.sleep(POLL_S)
    return time.monotonic() - began, left


def find_bad_deployments(ledger: Ledger) -> list[str]:
    """Adapters that are or were deployed although their files are not what their hashes say."""
    served = {entry.subject_id for entry in ledger.entries if entry.kind == "adapter.deployed"}
    return [
        f"adapter {adapter.id} served and is not what its hash says"
        for adapter in ledger.adapters
        if adapter.id in served
        and ("/broken/" in adapter.uri or hash_of(path_of(adapter.uri) / "manifest.json") != adapter.sha256)
    ]


def count_repeated(database_url: str) -> int:
    """Links that had to be done again because their process died, froze or lost its claim."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT COALESCE(sum(jsonb_array_length(errors)), 0) FROM outbox_segment").fetchone()
    return int(row[0]) if row else 0


def list_refusals(ledger: Ledger) -> list[str]:
    """Why runs failed, adapters were refused and segments died; the same words once."""
    words = Counter(f"run failed: {run.failure}" for run in ledger.runs if run.state == "failed")
    words.update(f"adapter refused: {row.words}" for row in ledger.adapters if row.state == "refused")
    words.update(f"dead letter of {row.kind}: {row.last_error}" for row in ledger.segments if row.state == "dead")
    return [f"{count} x {reason}" for reason, count in words.items()]


def count_rows(ledger: Ledger) -> dict[str, int]:
    """How much there was to check."""
    names = ("tasks", "attempts", "rollouts", "uses", "batches", "feedback", "hints", "runs", "adapters", "entries")
    counts = {name: len(getattr(ledger, name)) for name in names}
    counts["refused adapters"] = sum(adapter.state == "refused" for adapter in ledger.adapters)
    counts["failed runs"] = sum(run.state == "failed" for run in ledger.runs)
    counts["dead letters"] = sum(segment.state == "dead" for segment in ledger.segments)
    return counts
