"""Does what the plan says to a running stack, and notes it in the history."""

import contextlib
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString, TypeVar
from urllib.parse import unquote, urlsplit

import psycopg
import redis

from tentalis.core.letters import LETTER_BOX, draw_key
from tentalis.platform.up import RunningStack
from tests.chaos.broken_adapters import make_nan, make_result, make_truncated
from tests.chaos.history import History
from tests.chaos.plan import Fault, FaultKind
from tests.chaos.stage import LEASE_S

Found = TypeVar("Found")

FREEZE_S = LEASE_S + 4.0
STAGE_WAIT_S = 300.0
ANSWER_WAIT_S = 60.0
IN_TRAINING = frozenset({FaultKind.KILL_TRAINING, FaultKind.TRUNCATED_ADAPTER, FaultKind.NAN_ADAPTER})
POLL_S = 0.02

RUNNING: LiteralString = (
    "SELECT id, attempt, spec->>'output_uri', spec->>'content_hash' FROM training_trainingrun "
    "WHERE state = 'running' ORDER BY id LIMIT 1"
)
WHOLE: LiteralString = (
    "SELECT uri FROM adapters_adapter WHERE state IN ('deployed', 'retired', 'verified') ORDER BY id LIMIT 1"
)


@dataclass
class Nemesis:
    """Breaks a stack by a plan.

    Attributes:
        not_staged: faults for which the stack never came into the state they need; a run with one of these proves less.
    """

    stack: RunningStack
    history: History
    not_staged: list[str] = field(default_factory=list)
    done: int = 0

    def carry_out(self, plan: Sequence[Fault], stop: threading.Event) -> None:
        """One fault after another, each after its gap, until the plan or the run ends.

        Faults that need a training under way wait for their chance beside the others.
        """
        waiting = threading.Thread(target=self._cause_in_turn, args=([row for row in plan if row.kind in IN_TRAINING],))
        waiting.start()
        for fault in plan:
            if stop.wait(fault.after_s):
                break
            if fault.kind not in IN_TRAINING:
                self._cause_in_turn([fault])
        waiting.join()

    def _cause_in_turn(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            self.cause(fault)
            self.history.note("fault", fault.kind, fault.target)
            self.done += 1

    def cause(self, fault: Fault) -> None:
        """Make it happen, and return when it is over (what was killed may still be starting)."""
        match fault.kind:
            case FaultKind.KILL:
                self.stack.signal(fault.target, signal.SIGKILL)
            case FaultKind.LOSE_REDIS:
                self.stack.signal("redis", signal.SIGKILL)
            case FaultKind.CRASH_POSTGRES:
                self.stack.signal("postgres", signal.SIGQUIT)
            case FaultKind.FREEZE:
                pid = self.stack.signal(fault.target, signal.SIGSTOP)
                time.sleep(FREEZE_S)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            case FaultKind.KILL_TRAINING:
                if self._wait_for(fault, lambda: self._ask(RUNNING)):
                    self.stack.signal("gpu", signal.SIGKILL)
            case FaultKind.TRUNCATED_ADAPTER:
                self._send_home(fault, make_truncated)
            case FaultKind.NAN_ADAPTER:
                self._send_home(fault, make_nan)

    def _send_home(self, fault: Fault, make: Callable[[Path, Path], str]) -> None:
        """Answer in place of the box, with what `make` makes of a whole adapter, until an answer was taken."""
        whole = self._wait_for(fault, lambda: self._ask(WHOLE))
        if whole is not None:
            self._wait_for(fault, lambda: self._answer_for_box(path_of(whole[0]), make))

    def _answer_for_box(self, whole: Path, make: Callable[[Path, Path], str]) -> bool | None:
        """Stop the box in a training and send home a broken adapter for it; None when that found no hearer."""
        staged = self._freeze_in_training()
        if staged is None:
            return None
        pid, run_id, attempt, spec_hash = staged
        try:
            target = self.stack.home.artifacts / "broken" / f"{run_id}-{attempt}-{uuid.uuid4().hex[:6]}"
            target.parent.mkdir(exist_ok=True)
            sha256 = make(whole, target)
            secret = self.stack.environment(os.environ)["TENTALIS_SECRET_KEY"]
            key = draw_key(secret, run_id=run_id, attempt=attempt, spec_hash=spec_hash)
            if not self._send(make_result(run_id=run_id, attempt=attempt, directory=target, sha256=sha256, key=key)):
                return None
            return self._was_taken(run_id, attempt)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _was_taken(self, run_id: int, attempt: int) -> bool | None:
        """Whether the run ended by our answer: not when the sweep gave it another attempt first."""
        deadline = time.monotonic() + ANSWER_WAIT_S
        while time.monotonic() < deadline:
            row = self._ask(f"SELECT state, attempt FROM training_trainingrun WHERE id = {run_id:d}")
            if row is not None and row[0] in {"succeeded", "failed"}:
                return True
            if row is not None and row != ("running", attempt):
                return None
            time.sleep(POLL_S)
        return None

    def _freeze_in_training(self) -> tuple[int, int, int, str] | None:
        """The box stopped in a run whose result does not lie there yet: (its pid, run, attempt, the spec's hash)."""
        row = self._ask(RUNNING)
        if row is None:
            return None
        pid = self.stack.signal("gpu", signal.SIGSTOP)
        if self._ask(RUNNING) == row and not (path_of(row[2]) / "result.json").exists():
            return pid, row[0], row[1], row[3]
        os.kill(pid, signal.SIGCONT)
        return None

    def _send(self, letter: bytes) -> bool | None:
        try:
            with redis.Redis.from_url(self.stack.state().addresses["redis_url"]) as client:
                client.lpush(f"tentalis:{LETTER_BOX}", letter)
        except (redis.RedisError, OSError):
            return None
        return True

    def _ask(self, query: str) -> tuple[Any, ...] | None:
        try:
            with psycopg.connect(self.stack.state().addresses["database_url"], connect_timeout=5) as connection:
                return connection.execute(query.encode()).fetchone()
        except psycopg.OperationalError:
            return None

    def _wait_for(self, fault: Fault, find: Callable[[], Found | None]) -> Found | None:
        deadline = time.monotonic() + STAGE_WAIT_S
        while time.monotonic() < deadline:
            if (found := find()) is not None:
                return found
            time.sleep(POLL_S)
        self.not_staged.append(fault.kind)
        return None


def path_of(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))
