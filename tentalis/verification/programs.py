"""What a program does: run in a fresh sandbox, and checked from outside of its process."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tentalis.core.scoring.quoting import clean_text
from tentalis.core.swe.repo_tasks import Environment
from tentalis.sandbox.client import Result, SandboxClient
from tentalis.sandbox.errors import SandboxError, SandboxLostError, SandboxRefusedError
from tentalis.sandbox.kept import KeptImage
from tentalis.verification import program_runner
from tentalis.verification.environments import BuildError, build_environment, find_interpreter

TRIES: Final = 3
"""Of what says nothing of a program."""
CLOCK: Final = 4.0
"""Its time by the clock, as a multiple of its processor's: a busy machine is not its fault."""
WHOLE_S: Final = 240.0
"""Of all inputs together."""
GRACE_S: Final = 10.0
OUTPUT_BYTES: Final = 4 * 2**20
"""Of all that it prints."""
LIMITS: Final = {
    "memory_bytes": 2**30, "disk_bytes": 64 * 2**20, "processes": 64, "files": 10_000, "output_bytes": 8 * 2**20,
}  # fmt: skip
_SOURCE: Final = Path(program_runner.__file__).read_text(encoding="utf-8")


class ProgramError(Exception):
    """Nothing is known of a program: a sandbox was lost, or what it is checked by is no check. The message says why."""


@dataclass(frozen=True, kw_only=True)
class ProgramJob:
    """A program, and what is to be found out.

    Args:
        kind: program reads `inputs` and prints; calls: its functions are called; check: `tests` are run.
        code: the program. setup: what its task begins with, which its code may go on with.
        entry: the function that the task wants; "" for none by name.
        inputs: what it reads, once for each run.
        cases: function, args and kwargs of each call, as JSON.
        tests: code of the check, which never lies where the program could read it.
        timeout_s: seconds of the processor, a run.
    """

    kind: Literal["program", "calls", "check"]
    code: str
    setup: str = ""
    entry: str = ""
    inputs: Sequence[str] = ()
    cases: Sequence[Mapping[str, Any]] = ()
    tests: Sequence[str] = ()
    timeout_s: int = 10

    def write(self, secret: str) -> bytes:
        """As the runner reads it: the program, and apart from it what it is checked by."""
        clock_s = self.timeout_s * CLOCK
        program = {
            "kind": self.kind, "code": self.code, "setup": self.setup, "entry": self.entry, "inputs": self.inputs,
            "timeout_s": self.timeout_s, "clock_s": clock_s, "whole_s": WHOLE_S, "output_bytes": OUTPUT_BYTES,
        }  # fmt: skip
        wanted = {"secret": secret, "tests": self.tests, "cases": [_spell_case(case) for case in self.cases]}
        parts = [json.dumps(part).encode() for part in (program, wanted)]
        return b"".join(b"%*d" % (program_runner.LENGTH, len(part)) + part for part in parts)

    @property
    def whole_s(self) -> float:
        """How long all of it may take, by the clock."""
        return (WHOLE_S if self.kind == "program" else 0.0) + self.timeout_s * CLOCK + GRACE_S


@dataclass(frozen=True, kw_only=True)
class ProgramFindings:
    """What came of it.

    Args:
        ended: "" where it came to its own end, else how it ended.
        passed: of a check. words: on that.
        cases: of inputs or calls, in order, those that were run: output and ended; value, or the names of what it
            raised.
    """

    ended: str = ""
    passed: bool = False
    words: str = ""
    cases: Sequence[Mapping[str, Any]] = field(default_factory=list)


def _spell_case(case: Mapping[str, Any]) -> Mapping[str, Any]:
    args, kwargs = case.get("args") or [], case.get("kwargs") or {}
    told = {name: program_runner.encode(value, _refuse) for name, value in kwargs.items()}
    return {"function": case["function"], "args": [program_runner.encode(one, _refuse) for one in args], "kwargs": told}


def _refuse(value: object) -> object:
    raise TypeError(f"wanted data, found {type(value).__name__}")


class ProgramRunner:
    """Runs programs at one sandbox host; threads may share it, and each program has a sandbox of its own.

    Args:
        open_client: asked each time, so that a client that was lost is replaced.
    """

    def __init__(self, open_client: Callable[[], SandboxClient]) -> None:
        self._open_client = open_client
        self._image = KeptImage(self._lay_image)
        self._python = ""

    def run(self, job: ProgramJob) -> ProgramFindings:
        """What the program does. Takes as long as that.

        Raises:
            ProgramError: nothing is known of it.
        """
        cause = ""
        for _ in range(TRIES):
            try:
                return self._run(self._open_client(), job)
            except (SandboxLostError, SandboxRefusedError) as error:  # refused: by a host that was started anew
                cause = str(error)
            except (SandboxError, BuildError) as error:
                raise ProgramError(str(error)) from None
        raise ProgramError(cause)

    def _run(self, client: SandboxClient, job: ProgramJob) -> ProgramFindings:
        secret = secrets.token_hex(16)
        with self._image.open(client, limits={**LIMITS, "lifetime_s": job.whole_s + GRACE_S}) as sandbox:
            done = client.run(
                sandbox, [self._python, "-s", "-S", "-B", "-c", _SOURCE], stdin=job.write(secret),
                environment={"PYTHONHASHSEED": "0"}, timeout_s=job.whole_s,
            )  # fmt: skip
        return _read_findings(done, secret)

    def _lay_image(self, root: Path) -> None:
        interpreter = find_interpreter("")
        build_environment(Environment(), interpreter, None, root)
        self._python = str(interpreter.path)


def _read_findings(done: Result, secret: str) -> ProgramFindings:
    """Whoever ends, stops or talks over the process that checks it has not passed."""
    if done.timed_out:
        return ProgramFindings(ended="who checks it was held up")
    if done.code >= 128:
        return ProgramFindings(ended=f"who checks it was ended by signal {done.code - 128}")
    if done.dropped:
        return ProgramFindings(ended="it says more than is read")
    try:
        told = json.loads(done.out)
        if done.code or told["secret"] != secret:
            raise ValueError
    except (ValueError, KeyError, TypeError):
        lines = done.err.decode(errors="replace").strip().splitlines()
        raise ProgramError(f"it could not be run: {lines[-1] if lines else f'exit code {done.code}'}"[:500]) from None
    if told.get("unusable"):
        raise ProgramError(str(told["unusable"]))
    return ProgramFindings(
        ended=clean_text(str(told.get("ended") or "")), passed=told.get("passed") is True,
        words=clean_text(str(told.get("words") or "")), cases=list(told.get("cases") or ()),
    )  # fmt: skip
