"""The control: the same load and faults on Celery as it is usually advised, without outbox, claim, fence or sweep.

`acks_late`, `reject_on_worker_lost`, prefetch 1, a prefork pool, and a chain sent when the row is committed. A harness
under which this lost nothing would prove nothing about ours.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString

import psutil
import psycopg
from celery import Celery, chain
from kombu.exceptions import OperationalError as BrokerError

from tentalis.platform.stack import PROJECT_DIRECTORY, STORES
from tentalis.platform.up import RunningStack, running_stack
from tests.chaos.nemesis import FREEZE_S
from tests.chaos.plan import Fault, FaultKind
from tests.chaos.stage import make_environ, own_home

DATABASE, BROKER, JOB_S = "CONTROL_DATABASE_URL", "CONTROL_REDIS_URL", "CONTROL_JOB_S"
QUEUE = "control-run"
CHILDREN = 4
LINKS = 3
PAUSE_S = 0.25
SILENCE_S = 45.0
"""No further row was done for so long: the rest is taken for lost."""

app = Celery("control", broker=os.environ.get(BROKER, "redis://"))
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_default_queue=QUEUE,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
)

TABLES: LiteralString = """
CREATE TABLE control_task (id bigserial PRIMARY KEY, key text UNIQUE, state text NOT NULL DEFAULT 'queued');
CREATE TABLE control_effect (id bigserial PRIMARY KEY, task_id bigint, name text);
"""


@app.task(name="control.work")
def work(task_id: int) -> None:
    do_job(task_id, "worked")


@app.task(name="control.score")
def score(task_id: int) -> None:
    do_job(task_id, "scored")


@app.task(name="control.learn")
def learn(task_id: int) -> None:
    do_job(task_id, "done")


def do_job(task_id: int, state: str) -> None:
    """Some work, then its effect and the row's next state in one transaction."""
    time.sleep(float(os.environ[JOB_S]))
    with psycopg.connect(os.environ[DATABASE], connect_timeout=5) as connection:
        connection.execute("INSERT INTO control_effect (task_id, name) VALUES (%s, %s)", (task_id, state))
        connection.execute("UPDATE control_task SET state = %s WHERE id = %s", (state, task_id))


@dataclass(frozen=True)
class ControlReport:
    """What the usual advice came to; `doubled` counts effects that were committed more than once."""

    acknowledged: int
    lost: int
    doubled: int
    wall_s: float


class KeptAlive:
    """A queue process that is started again whenever it is gone, as an operating system's supervisor would."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._environment, self._log = environment, log
        self._ended = threading.Event()
        self.process = self._start()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _start(self) -> "subprocess.Popen[bytes]":
        argv = [sys.executable, "-m", "celery", "-A", "tests.chaos.control", "worker", "-P", "prefork"]
        argv += ["-c", str(CHILDREN), "-Q", QUEUE, "--without-gossip", "--without-mingle", "-l", "WARNING"]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                argv,
                env=self._environment,
                cwd=PROJECT_DIRECTORY,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _keep(self) -> None:
        while not self._ended.wait(0.2):
            if self.process.poll() is not None:
                self._kill_group()
                self.process = self._start()

    def kill(self, *, child: bool) -> None:
        """Kill the whole process, or one process of its pool."""
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, IndexError):
            pid = self.process.pid
            os.kill(random.choice(psutil.Process(pid).children()).pid if child else pid, signal.SIGKILL)

    def freeze(self) -> None:
        pid = self.process.pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(FREEZE_S)
            os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()
        self._kill_group()
        self.process.wait()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def run_control(*, tasks: int, over_s: float, plan: Sequence[Fault], clients: int = 4) -> ControlReport:
    """Work the load through the control while the plan breaks it.

    A job takes as long as keeps the pool just busy while tasks come in: an idle queue has nothing to lose, and the
    platform beside it is busy to the end of the faults and beyond.
    Kills meant for a process the control does not have hit its queue process; each second one hits a child of its pool.
    """
    began = time.monotonic()
    with own_home() as home, running_stack(home, make_environ(), is_throwaway=True, only=STORES) as stack:
        addresses = stack.state().addresses
        database = addresses[
            "admin_database_url"
        ]  # the other roles are made at the platform's start, which is not here
        job_s = over_s * CHILDREN / (LINKS * tasks)
        os.environ |= {DATABASE: database, BROKER: addresses["redis_url"], JOB_S: str(job_s)}
        app.conf.update(broker_url=addresses["redis_url"])
        with psycopg.connect(database) as connection:
            connection.execute(TABLES)
        with kept_alive(dict(os.environ), home.log_file("control")) as worker, ThreadPoolExecutor(clients + 1) as pool:
            breaking = pool.submit(break_control, stack, worker, plan)
            submitting = [
                pool.submit(submit_all, database, range(number, tasks, clients), over_s) for number in range(clients)
            ]
            acknowledged = sum(future.result() for future in submitting)
            breaking.result()
            lost, doubled = wait_for_silence(database, worker)
    return ControlReport(acknowledged, lost, doubled, time.monotonic() - began)


@contextlib.contextmanager
def kept_alive(environment: dict[str, str], log: Path) -> Iterator[KeptAlive]:
    worker = KeptAlive(environment, log)
    try:
        yield worker
    finally:
        worker.stop()


def break_control(stack: RunningStack, worker: KeptAlive, plan: Sequence[Fault]) -> None:
    kills = 0
    for fault in plan:
        time.sleep(fault.after_s)
        match fault.kind:
            case FaultKind.LOSE_REDIS:
                stack.signal("redis", signal.SIGKILL)
            case FaultKind.CRASH_POSTGRES:
                stack.signal("postgres", signal.SIGQUIT)
            case FaultKind.FREEZE:
                worker.freeze()
            case FaultKind.KILL:
                worker.kill(child=kills % 2 == 1)
                kills += 1
            case _:
                pass  # it trains nothing


def submit_all(database_url: str, numbers: range, over_s: float) -> int:
    """Insert each row and send its chain; what fails is tried again under the same key. Returns the acknowledged."""
    began, known = time.monotonic(), 0
    for place, number in enumerate(numbers):
        time.sleep(max(0.0, began + over_s * place / len(numbers) - time.monotonic()))
        while True:
            try:
                submit(database_url, f"task-{number}")
            except (psycopg.OperationalError, BrokerError, OSError):
                time.sleep(PAUSE_S)
            else:
                known += 1
                break
    return known


def submit(database_url: str, key: str) -> None:
    """What a view does: the row, and after its commit the chain. A key that is known already is acknowledged again."""
    with psycopg.connect(database_url, connect_timeout=5) as connection:
        row = connection.execute(
            "INSERT INTO control_task (key) VALUES (%s) ON CONFLICT DO NOTHING RETURNING id", (key,)
        ).fetchone()
    if row is not None:
        chain(work.si(row[0]), score.si(row[0]), learn.si(row[0])).apply_async(retry=False)


def wait_for_silence(database_url: str, worker: KeptAlive) -> tuple[int, int]:
    """Wait until all is done or nothing moves any more. Returns (tasks not done, effects done more than once)."""
    best, since = -1, time.monotonic()
    while True:
        with psycopg.connect(database_url, connect_timeout=30) as connection:
            row = connection.execute("SELECT count(*) FILTER (WHERE state <> 'done') FROM control_task").fetchone()
            again = connection.execute(
                "SELECT count(*) FROM (SELECT FROM control_effect GROUP BY task_id, name HAVING count(*) > 1) twice"
            ).fetchone()
        lost, doubled = (row[0] if row else 0), (again[0] if again else 0)
        if lost != best:
            best, since = lost, time.monotonic()
        if lost == 0 or time.monotonic() - since > SILENCE_S:
            return lost, doubled
        time.sleep(1)
