"""Whether two mathematical answers are the same, by math-verify in processes of their own.

The library stops itself by signals, which no thread but the first may use, and what it is built on can run for hours on
a power of powers. So a pair is compared by a process with some seconds for it, which is ended where it does not stop.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from select import POLLIN, poll
from threading import BoundedSemaphore, Lock
from typing import Any, Final

PROCESSES: Final = 2
MOST_S: Final = 5.0
"""Seconds of a processor for a pair."""
MOST_START_S: Final = 30.0
"""The same for the first pair of a process, which loads the library."""
MOST_WAIT_S: Final = 120.0
"""Seconds that a thread waits, on however busy a machine."""
_CHILD: Final = Path(__file__).with_name("child.py")


class MathError(Exception):
    """Two answers could not be compared, and why; nothing is known of them then."""


class MathProcess:
    """One process; used by one thread at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8"},
            cwd="/",
        )
        self._was_asked = False

    def ask(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Raises MathError; the process is gone then."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        most_s = MOST_S if self._was_asked else MOST_START_S
        self._was_asked = True
        try:
            self._process.stdin.write(json.dumps({**asked, "most_s": most_s}).encode() + b"\n")
            self._process.stdin.flush()
            told: dict[str, Any] = json.loads(self._read_line(self._process.stdout.fileno(), MOST_WAIT_S))
        except (OSError, ValueError) as error:
            self.end()
            raise MathError(f"what compares mathematics ended: {error}"[:300]) from None
        except MathError:
            self.end()
            raise
        return told

    def _read_line(self, file: int, most_s: float) -> bytes:
        watched, line, until = poll(), b"", time.monotonic() + most_s
        watched.register(file, POLLIN)
        while not line.endswith(b"\n"):
            if not watched.poll(max(0.0, 1_000 * (until - time.monotonic()))):
                raise MathError(f"wanted two answers compared within {MOST_WAIT_S:g} s, found no end of it")
            piece = os.read(file, 65_536)
            if not piece:
                raise MathError("what compares mathematics ended: it ran out of time or memory")
            line += piece
        return line

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]  # both are pipes


class MathVerifier:
    """Some processes that any thread may ask. They start when they are wanted, and end with us."""

    def __init__(self, processes: int = PROCESSES) -> None:
        self._free = BoundedSemaphore(processes)
        self._lock = Lock()
        self._idle: list[MathProcess] = []
        self._owner = os.getpid()

    def compare(self, *, reference: str, answer: str, digits: int = 6, strict: bool = True) -> dict[str, Any]:
        """Whether an answer is the reference: {"result": "right" or "wrong", "read": what was read in it}.

        Args:
            reference: as the library reads it: LaTeX within $, or a number.
            digits: that floats are rounded to. strict: names of variables count, and a set is no relation.
        Raises:
            MathError: it could not be told.
        """
        with self._free:
            process = self._take()
            told = process.ask({"reference": reference, "answer": answer, "digits": digits, "strict": strict})
            with self._lock:
                self._idle.append(process)
        if told["result"] == "slow":
            raise MathError(f"wanted an answer that is compared within {MOST_S:g} s, found a slower one")
        if told["result"] == "no_reference":
            raise MathError("reference: wanted mathematics, found nothing that can be read as such")
        if told["result"] == "failed":
            raise MathError(f"it could not be compared: {told['why']}")
        return told

    def _take(self) -> MathProcess:
        with self._lock:
            if self._owner != os.getpid():  # a copy of us: the processes are the other one's
                self._owner, self._idle = os.getpid(), []
            if self._idle:
                return self._idle.pop()
        return MathProcess()

    def close(self) -> None:
        """End those that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.end()
