"""A running line from submission to rollout, its model server and broker in the test's hand."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg.types.json import Jsonb

from tentalis.platform.home import Home
from tentalis.platform.redis_server import redis_command, write_redis_config
from tentalis.platform.up import RunningStack
from tests.chaos.checker import find_faults
from tests.chaos.clients import PatientClient
from tests.chaos.history import History
from tests.chaos.ledger import read_ledger
from tests.fakes import FakeModelServer

Found = TypeVar("Found")

PATIENCE_S = 300.0
POLL_S = 0.05
SERVICES = ("web", "relay", "queue-workers", "queue-workers-2", "queue-scorers", "bootstrap")


@dataclass
class Broker:
    """A Redis of its own that keeps nothing: stopped, it has lost everything."""

    directory: Path
    port: int
    password: str = "broker-of-a-test"
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        home = Home(self.directory)
        home.prepare()
        write_redis_config(home, port=self.port, password=self.password, is_throwaway=True)
        self._process = subprocess.Popen(redis_command(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: self._answers() or None, "the broker answers")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


@dataclass
class Replies:
    """What the model says; prompts that contain "hold" wait for their release."""

    held: list[str] = field(default_factory=list)
    _release: threading.Event = field(default_factory=threading.Event)

    def hold(self) -> None:
        self.held.clear()
        self._release.clear()

    def release(self) -> None:
        self._release.set()

    def __call__(self, prompt: str, index: int) -> str:
        if "hold" in prompt and index == 0:
            self.held.append(prompt)
            self._release.wait(PATIENCE_S)
        return f"answer {index}"


class _Dribble(BaseRequestHandler):
    """Never silent and never done: a header line each second."""

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            self.request.sendall(b"HTTP/1.1 200 OK\r\n")
            for number in range(int(PATIENCE_S)):
                self.request.sendall(b"X-Wait-%d: 1\r\n" % number)
                time.sleep(1)


@contextlib.contextmanager
def dribbling_server() -> Iterator[str]:
    """A model server whose answers never end. Gives its URL."""
    server = ThreadingTCPServer(("127.0.0.1", 0), _Dribble)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Line:
    """The stack, and how a test speaks with it."""

    stack: RunningStack
    client: PatientClient
    broker: Broker
    replies: Replies
    model: FakeModelServer
    broken: FakeModelServer
    history: History
    connection: psycopg.Connection[tuple[Any, ...]]
    _count: int = 0

    @property
    def database_url(self) -> str:
        return self.stack.state().addresses["database_url"]

    def submit(self, prompt: str, *, worker: str = "chat", project: str = "line") -> int:
        """Give a task to a worker; its key is known to the history."""
        self._count += 1
        key = f"{prompt} #{self._count}"
        self.history.note("invoke", "submit", key)
        body = {"project": project, "worker": worker, "environment": "chat", "prompt": prompt, "metadata": {"key": key}}
        task = self.client.create("tasks", body, key=key)
        self.history.note("ok", "submit", key, id=task["id"])
        return int(task["id"])

    def submit_many(self, prompt: str, *, count: int, worker: str) -> list[int]:
        """Give that many tasks to a worker in one file; their keys are known to the history."""
        self._count += 1
        keys = [f"{prompt} #{self._count} of {number}" for number in range(count)]
        for key in keys:
            self.history.note("invoke", "submit", key)
        text = "\n".join(json.dumps({"prompt": key, "metadata": {"key": key}}) for key in keys)
        body = {"project": "line", "worker": worker, "environment": "chat", "form": "jsonl", "text": text}
        made = self.client.send("POST", "tasks/import", body)
        assert made.status_code == 201, made.text
        rows: LiteralString = "SELECT id, metadata->>'key' FROM tasks_task WHERE metadata->>'key' = ANY(%s) ORDER BY id"
        found = self.ask(rows, keys)
        for pk, key in found:
            self.history.note("ok", "submit", key, id=pk)
        return [pk for pk, _ in found]

    def cancel_many(self, tasks: Sequence[int]) -> int:
        """Have ticked tasks cancelled, as the console leaves it to the queue (no route of REST does)."""
        [(bulk,)] = self.ask(
            "INSERT INTO feedback_bulkjudgement (created_at, project_id, by_id, action, filters, chosen, words, state,"
            " total, done, last_review_id, report, undone, last_undone_id) SELECT now(), p.id, u.id, 'cancel', '{}',"
            " %s, '{}', 'running', %s, 0, 0, '[]', 0, 0 FROM accounts_project p, accounts_user u"
            " WHERE p.slug = 'line' AND u.is_superuser ORDER BY u.id LIMIT 1 RETURNING id",
            Jsonb(tasks),
            len(tasks),
        )
        self.ask(
            "INSERT INTO outbox_segment (created_at, kind, subject_id, project_id, links, queue, position, state,"
            " attempts, lease_owner, run_after, errors) SELECT now(), 'bulk', id, project_id,"
            " '[\"pipeline.judge_bulk\"]', 'control', 0, 'open', 0, '', now(), '[]' FROM feedback_bulkjudgement"
            " WHERE id = %s RETURNING id",
            bulk,
        )
        return int(bulk)

    def make_provider(self, name: str, url: str) -> None:
        """Put a model server before every project (no door of ours makes one for the whole installation)."""
        self.ask(
            "INSERT INTO inference_provider "
            "(created_at, name, kind, base_url, more_urls, api_key_sealed, default_model, allow_private, is_active,"
            " probe, granted_to) "
            "VALUES (now(), %s, 'vllm', %s, '[]', '', '', true, true, '{}', 'everyone') RETURNING id",
            name,
            url,
        )

    def make_outside_worker(self, name: str) -> None:
        self.client.create("workers", {"project": "line", "name": name, "kind": "outside"}, key=f"worker-{name}")

    def make_worker(self, name: str, *, provider: str, project: str = "line") -> None:
        body = {"project": project, "name": name, "kind": "chat", "base_model": "chat", "provider": provider}
        self.client.create("workers", body, key=f"worker-{name}")

    def state_of(self, task_id: int) -> str:
        return str(self.ask("SELECT state FROM tasks_task WHERE id = %s", task_id)[0][0])

    def wait_for(self, task_id: int, state: str = "done") -> None:
        wait_until(lambda: self.state_of(task_id) == state or None, f"task {task_id} is {state}")

    def holder_of(self, subject_id: int, *, kind: str = "work") -> int:
        """The process that works on a task, or on another kind's subject."""
        owner = wait_until(
            lambda: next(
                iter(
                    self.ask(
                        "SELECT lease_owner FROM outbox_segment WHERE subject_id = %s AND kind = %s "
                        "AND state = 'open' AND fence IS NOT NULL",
                        subject_id,
                        kind,
                    )
                ),
                None,
            ),
            f"somebody is at the {kind} of {subject_id}",
        )
        return int(owner[0].split(":")[1])

    def errors_of(self, subject_id: int, *, kind: str = "work") -> list[dict[str, Any]]:
        rows = self.ask("SELECT errors FROM outbox_segment WHERE subject_id = %s AND kind = %s", subject_id, kind)
        return [dict(error) for row in rows for error in row[0]]

    def wait_for_error(self, task_id: int, *error_types: str) -> None:
        """One of these."""
        wait_until(
            lambda: [error for error in self.errors_of(task_id) if error["type"] in error_types] or None,
            f"task {task_id} met {' or '.join(error_types)}",
        )

    def ask(self, query: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, values).fetchall()

    def find_faults(self) -> list[str]:
        """What the checker says of everything that was done on this line; poison may fail."""
        unfinished: LiteralString = "SELECT count(*) FROM tasks_task WHERE state NOT IN ('done', 'failed', 'cancelled')"
        unsealed: LiteralString = (
            "SELECT count(*) FROM audit_auditentry WHERE id NOT IN (SELECT entry_id FROM audit_auditseal)"
        )
        wait_until(lambda: self.ask(unfinished)[0][0] == 0 or None, "everything ended")
        wait_until(lambda: self.ask(unsealed)[0][0] == 0 or None, "the audit is sealed")
        chain = self.client.send("GET", "audit/verify").json()
        ledger = read_ledger(self.database_url, chain_faults=chain["faults"])
        poison = frozenset(task.key for task in ledger.tasks if task.key.startswith("poison"))
        return find_faults(self.history.events, ledger, may_fail=poison, may_fill=True)


def wait_until(find: Callable[[], Found | None], what: str) -> Found:
    """What `find` finds as soon as that is something.

    Raises:
        AssertionError: nothing in time.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if (found := find()) is not None:
            return found
        time.sleep(POLL_S)
    raise AssertionError(f"not within {PATIENCE_S:.0f} s: {what}")


def send_signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
