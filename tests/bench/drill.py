"""`python -m tests.bench.drill`: a backup under load, brought back into a fresh cluster, where everything goes on.

Tasks are submitted and worked, a webhook is told, an agent asks through the gateway, and meanwhile `tentalis backup`
runs. The load goes on for a while, then the whole stack is killed, as when its machine is lost. `tentalis restore`
brings the backup back into another home, with another Postgres cluster; that is started, gets new work, and everything
is brought to its end. What was acknowledged before the backup's mark must be there, the audit clean and without an
entry that has no place, and each entry told to the webhook under one message's id.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg
from rich.console import Console
from rich.table import Table

from tentalis.platform.home import Home
from tentalis.platform.up import RunningStack, running_stack
from tests.apps.gateway.upstream import StubUpstream
from tests.apps.webhooks.receiver import Receiver, running_receiver
from tests.bench.gateway_crash import run_beside
from tests.chaos.clients import PatientClient, Tally
from tests.chaos.ledger import count_unfinished
from tests.chaos.stage import SETTINGS, environment_of, make_environ, read_admin_token

SERVICES = ("bootstrap", "web", "gateway", "relay", "queue-workers", "queue-scorers")
PROJECT = "mass"
QUIET_POLLS = 4
POLL_S = 0.5
CLI_TIMEOUT_S = 1800


@dataclass
class Acknowledged:
    """What was answered, and when by this machine's clock: task ids, exchange ids."""

    tasks: dict[int, float] = field(default_factory=dict)
    exchanges: dict[str, float] = field(default_factory=dict)
    broken: int = 0


@dataclass
class Report:
    """What came of it.

    Attributes:
        tasks, exchanges: acknowledged before the mark; lost_tasks, lost_exchanges: of those, not there afterwards.
        entries: the webhook was to be told of; untold, doubled: of those, under no id, or under several.
        repeated: messages that came again under the id they had, as after any interrupted delivery.
    """

    tasks: int = 0
    lost_tasks: int = 0
    exchanges: int = 0
    lost_exchanges: int = 0
    entries: int = 0
    untold: int = 0
    doubled: int = 0
    repeated: int = 0
    new_tasks: int = 0
    unfinished: int = 0
    unsealed: int = 0
    audit_faults: int = 0
    epochs: int = 0
    backup_s: float = 0.0
    restore_s: float = 0.0
    drill_s: float = 0.0
    rows: int = 0


class Load:
    """Threads that submit tasks and ask models until told to stop."""

    def __init__(self, stack: RunningStack, agent_token: str, rate: float) -> None:
        self.acknowledged = Acknowledged()
        self._addresses = stack.state().addresses
        self._admin, self._agent, self._rate = read_admin_token(stack), agent_token, rate
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._submit, self._ask)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _submit(self) -> None:
        headers = {"Authorization": f"Bearer {self._admin}"}
        with httpx.Client(base_url=f"{self._addresses['console_url']}/api/v1/", headers=headers, timeout=30) as http:
            number = 0
            while not self._stop.wait(1 / self._rate):
                number += 1
                body = {"project": PROJECT, "environment": "chat", "prompt": f"Say number {number}."}
                if (answer := self._send(http, "tasks", body, 201)) is not None:
                    self.acknowledged.tasks[answer.json()["id"]] = time.time()

    def _ask(self) -> None:
        headers = {"Authorization": f"Bearer {self._agent}"}
        with httpx.Client(base_url=f"{self._addresses['gateway_url']}/v1/", headers=headers, timeout=30) as http:
            while not self._stop.wait(1 / self._rate):
                question = {"role": "user", "content": f"question {uuid.uuid4().hex} please"}
                body = {"model": "helper", "messages": [question]}
                if (answer := self._send(http, "chat/completions", body, 200)) is not None:
                    self.acknowledged.exchanges[answer.headers["X-Tentalis-Exchange"]] = time.time()

    def _send(self, http: httpx.Client, path: str, body: Mapping[str, Any], wanted: int) -> httpx.Response | None:
        try:
            answer = http.post(path, json=body, headers={"Idempotency-Key": uuid.uuid4().hex})
        except httpx.TransportError:
            answer = None
        if answer is None or answer.status_code != wanted:
            self.acknowledged.broken += 1
            return None
        return answer


def run_drill(directory: Path, *, rate: float, before_s: float, after_s: float, settle_s: float) -> Report:
    report = Report()
    repository = directory / "backups"
    old, new = Home(directory / "old"), Home(directory / "new")
    environ = {**make_environ(), **SETTINGS}
    with StubUpstream() as upstream, running_receiver(directory / "told.jsonl") as receiver:
        with running_stack(old, environ, is_throwaway=True, only=SERVICES) as stack:
            webhook = prepare(stack, receiver)
            agent = run_beside(stack, "--prepare", upstream.url).strip()
            with Load(stack, agent, rate) as load:
                time.sleep(before_s)
                backup, report.backup_s = tentalis(old, environ, "backup", "--to", str(repository))
                time.sleep(after_s)
            for name in ("web", "gateway", "relay", "queue-workers", "postgres"):
                stack.signal(name, signal.SIGKILL)
        keys = ["--key", str(old.root / "backup.key"), "--recovery-key", str(old.root / "recovery.key")]
        restored, report.restore_s = tentalis(new, environ, "restore", "--from", str(repository), *keys)
        report.rows = restored["backup"]["rows"]
        mark_s = datetime.fromisoformat(backup["mark"]["at"]).timestamp()
        told_before = len(receiver.read())
        with running_stack(new, {**make_environ(), **SETTINGS}, is_throwaway=True, only=SERVICES) as stack:
            with Load(stack, agent, rate) as more:
                time.sleep(after_s)
            report.new_tasks = len(more.acknowledged.tasks)
            address = stack.state().addresses["database_url"]
            report.unfinished = settle(address, settle_s)
            judge_work(address, load.acknowledged, more.acknowledged, mark_s, report)
            judge_audit(stack, address, report)
            judge_webhook(address, webhook, receiver, told_before, report)
    _, report.drill_s = tentalis(new, environ, "drill", "--from", str(repository))
    return report


def prepare(stack: RunningStack, receiver: Receiver) -> int:
    """A project with a worker and a webhook; the webhook's id."""
    with PatientClient(stack.state().addresses["console_url"], read_admin_token(stack), Tally()) as admin:
        policy = {"who": "none"}
        project = {"slug": PROJECT, "name": "Mass", "review_policy": policy, "group_size": 2, "batch_tasks": 8}
        admin.create("projects", project, key="project")
        admin.create("workers", {"project": PROJECT, "name": "echo", "kind": "echo"}, key="worker")
        hook = {"project": PROJECT, "url": f"{receiver.url}/ok", "allow_private": True}
        return int(admin.create("webhooks", hook, key="webhook")["id"])


def tentalis(home: Home, environ: Mapping[str, str], *words: str) -> tuple[dict[str, Any], float]:
    """A command, as a person calls it; what it printed and how long it took."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tentalis", *words, "--json"],
        env=dict(environ) | {"TENTALIS_HOME": str(home.root)},
        capture_output=True,
        text=True,
        timeout=CLI_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"tentalis {words[0]}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1])), time.monotonic() - began


def settle(address: str, patience_s: float) -> int:
    """Wait until all is done, sealed and told; how much is not."""
    quiet, until, left = 0, time.monotonic() + patience_s, 0
    while quiet < QUIET_POLLS and time.monotonic() < until:
        left = sum(count_unfinished(address).values())
        left += ask(address, "SELECT count(*) FROM webhooks_delivery WHERE state <> 'delivered'")[0][0]
        quiet = 0 if left else quiet + 1
        time.sleep(POLL_S)
    return left


def judge_work(address: str, old: Acknowledged, new: Acknowledged, mark_s: float, report: Report) -> None:
    """What was acknowledged before the mark, and all of the new, must be there."""
    tasks = [pk for pk, at in old.tasks.items() if at < mark_s]
    exchanges = [hex_of(name) for name, at in old.exchanges.items() if at < mark_s]
    report.tasks, report.exchanges = len(tasks), len(exchanges)
    there = {row[0] for row in ask(address, "SELECT id FROM tasks_task")}
    stored = {row[0].hex for row in ask(address, "SELECT public_id FROM inference_exchange")}
    report.lost_tasks = len({*tasks, *new.tasks} - there)
    report.lost_exchanges = len({*exchanges, *map(hex_of, new.exchanges)} - stored)


def judge_audit(stack: RunningStack, address: str, report: Report) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "django", "verify_audit", "--all"],
        env=environment_of(stack),
        capture_output=True,
        text=True,
        check=False,
    )
    report.audit_faults = len(done.stderr.strip().splitlines()) if done.returncode else 0
    sealed = "SELECT FROM audit_auditseal s WHERE s.entry_id = e.id"
    ((report.unsealed,),) = ask(address, f"SELECT count(*) FROM audit_auditentry e WHERE NOT EXISTS ({sealed})")
    ((report.epochs,),) = ask(address, "SELECT count(*) FROM audit_auditepoch")


def judge_webhook(address: str, webhook: int, receiver: Receiver, told_before: int, report: Report) -> None:
    """Each entry since the webhook was made has one message, and the receiver got it."""
    wanted = {
        row[0]
        for row in ask(
            address,
            "SELECT e.id FROM audit_auditentry e, webhooks_webhook w WHERE w.id = %s AND e.project_id = w.project_id "
            "AND NOT starts_with(e.kind, 'webhook.') AND e.at > w.created_at",
            webhook,
        )
    }
    rows = ask(address, "SELECT entry_id, event_id FROM webhooks_delivery WHERE webhook_id = %s", webhook)
    messages: dict[int, set[str]] = {}
    for entry, event in rows:
        messages.setdefault(entry, set()).add(f"msg_{event.hex}")
    got = [one["headers"]["webhook-id"] for one in receiver.read()]
    report.entries = len(wanted)
    report.untold = sum(not messages.get(entry, set()) & set(got) for entry in wanted)
    report.doubled = sum(len(messages.get(entry, ())) > 1 for entry in wanted)
    report.repeated = len(got[told_before:]) - len(set(got[told_before:]) - set(got[:told_before]))


def ask(address: str, statement: Any, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(address, connect_timeout=10) as connection:
        return connection.execute(statement, values).fetchall()


def hex_of(exchange: str) -> str:
    return exchange.rsplit("-", 1)[-1].rsplit("_", 1)[-1] if len(exchange) > 36 else exchange.replace("-", "")


BARS: Mapping[str, tuple[Callable[[Report], float], float]] = {
    "acknowledged tasks lost": (lambda report: report.lost_tasks, 0),
    "acknowledged exchanges lost": (lambda report: report.lost_exchanges, 0),
    "work unfinished": (lambda report: report.unfinished, 0),
    "faults of the audit": (lambda report: report.audit_faults, 0),
    "entries without a place": (lambda report: report.unsealed, 0),
    "entries the webhook was not told": (lambda report: report.untold, 0),
    "entries told under two ids": (lambda report: report.doubled, 0),
}


def judge(report: Report) -> dict[str, dict[str, Any]]:
    bars = {
        name: {"found": find(report), "wanted": f"<= {most:g}", "met": find(report) <= most}
        for name, (find, most) in BARS.items()
    }
    enough = report.tasks and report.exchanges and report.new_tasks and report.entries
    return bars | {"there was something to lose": {"found": int(bool(enough)), "wanted": 1, "met": bool(enough)}}


def print_table(console: Console, report: Report) -> None:
    table = Table(title="A backup under load, brought back into a fresh cluster")
    for name in ("", "acknowledged before the mark", "lost", "after the restore"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("tasks", f"{report.tasks:,}", f"{report.lost_tasks:,}", f"{report.new_tasks:,} new, all done")
    table.add_row("exchanges of the gateway", f"{report.exchanges:,}", f"{report.lost_exchanges:,}", "")
    table.add_row("entries for the webhook", f"{report.entries:,}", f"{report.untold:,}", f"{report.doubled:,} twice")
    console.print(table)
    console.print(
        f"backup {report.backup_s:.1f} s, restore {report.restore_s:.1f} s ({report.rows:,} rows), drill "
        f"{report.drill_s:.1f} s; {report.epochs} epochs of the audit; {report.repeated} messages again under their id"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=20.0, help="tasks, and questions, a second")
    parser.add_argument("--before-s", type=float, default=15.0, help="load before the backup")
    parser.add_argument("--after-s", type=float, default=8.0, help="load after it, and after the restore")
    parser.add_argument("--settle-s", type=float, default=600.0, help="patience for the end of the backlog")
    parser.add_argument("--keep", type=Path, help="keep homes, logs and backups here")
    options = parser.parse_args()
    directory = options.keep or Path(tempfile.mkdtemp(prefix="tentalis-drill-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        report = run_drill(
            directory,
            rate=options.rate,
            before_s=options.before_s,
            after_s=options.after_s,
            settle_s=options.settle_s,
        )
    finally:
        if options.keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    bars = judge(report)
    console = Console(width=110)
    print_table(console, report)
    for name, bar in bars.items():
        if not bar["met"]:
            console.print(f"missed: {name}: wanted {bar['wanted']}, found {bar['found']}", markup=False)
    document = {"bench": "drill", "rows": [asdict(report)], "ratios": {}, "bars": bars}
    console.print(json.dumps(document), soft_wrap=True, markup=False, highlight=False)
    return 0 if all(bar["met"] for bar in bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
