"""Plug-ins that nobody vouched for are imported in a process of its own first, which may end, hang and print.

What is found is kept in the home by the package's version and its list of files, so that it is found once. A trial
keeps mishaps away, and nothing more: who installs a package lets it run.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final

from tentalis import plugin_process

TRIAL_S: Final = 120.0
"""In which a plug-in is imported."""
FORM: Final = 1
_SHOWN_BYTES: Final = 200
_LOOK_EVERY_S: Final = 0.02


@dataclass(frozen=True)
class Verdict:
    """What came of a trial.

    Args:
        error: why it is not used; "" where it can be imported.
        told: what it says of itself, for who does not import it.
        is_lasting: it is the same next time; what was raised may lie at something beside it.
    """

    error: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)
    is_lasting: bool = True


def try_plugin(point: EntryPoint, *, anew: bool = False, timeout_s: float = TRIAL_S) -> Verdict:
    """Whether it can be imported, as it was found before, or found out now. Processes that ask at once wait for one.

    Args:
        anew: whatever was found before.
    """
    if not (key := _name_copy(point)):  # nothing is kept of it, and nobody waits for another
        return _find_out(point, timeout_s=timeout_s)
    with _open_kept() as (kept, keep):
        if not anew and (known := kept.get(key)) is not None:
            return Verdict(**known)
        verdict = _find_out(point, timeout_s=timeout_s)
        kept.pop(key, None)
        if verdict.is_lasting:
            kept[key] = {"error": verdict.error, "told": dict(verdict.told)}
        keep()
    return verdict


def _find_out(point: EntryPoint, *, timeout_s: float) -> Verdict:
    """Without Django, and with it where it is asked for."""
    verdict = _try(point, timeout_s=timeout_s, with_django=False)
    if verdict is None:
        verdict = _try(point, timeout_s=timeout_s, with_django=True)
    return verdict or Verdict("it wants Django, and there is none")


def _name_copy(point: EntryPoint) -> str:
    """An installed entry point with all its package's files; "" where these may change under one name."""
    record = point.dist.read_text("RECORD") if point.dist else None
    if point.dist is None or not record or '"editable"' in (point.dist.read_text("direct_url.json") or ""):
        return ""
    files = hashlib.sha256(record.encode()).hexdigest()[:16]
    return f"{FORM} {point.group} {point.name}={point.value} {point.dist.name} {point.dist.version} {files}"


@contextlib.contextmanager
def _open_kept() -> Iterator[tuple[dict[str, Any], Any]]:
    """What was found before, and what keeps it; nothing is kept where there is no home to write to."""
    from tentalis.env import read_variable

    home: Path = read_variable("HOME")
    file = home / "plugins.json"
    try:
        lock = (home / "plugins.lock").open("w")
    except OSError:
        yield {}, lambda: None
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            kept = json.loads(file.read_text())
        except (OSError, ValueError):
            kept = {}

        def keep() -> None:
            staged = file.with_suffix(".new")
            with contextlib.suppress(OSError):
                staged.write_text(json.dumps(kept))
                staged.replace(file)

        yield kept if isinstance(kept, dict) else {}, keep


def _try(point: EntryPoint, *, timeout_s: float, with_django: bool) -> Verdict | None:
    """In a process; None: it wants Django first."""
    python = find_python(point)
    asked = {"do": "try", "value": point.value, "django": with_django, "path": None if python else sys.path}
    try:
        process, reader = start_process(python, stdout=subprocess.PIPE, knows_settings=with_django)
    except OSError as error:
        return Verdict(f"{python or sys.executable} cannot be run: {error}"[:500], is_lasting=False)
    try:
        write_line(process, asked)
        printed = _hear(process, until=time.monotonic() + timeout_s)
        code = process.poll()
        if code is None:
            return Verdict(f"it was not imported within {timeout_s:g} s")
        said = os.read(reader, 65536) if _is_ready(reader) else b""
    finally:
        end_process(process)
        os.close(reader)
    if not said:
        return Verdict(f"it ended the process that imported it, with code {code}")
    answer = json.loads(said)
    if answer.get("wants_django") and not with_django and "DJANGO_SETTINGS_MODULE" in os.environ:
        return None
    if answer["error"]:
        return Verdict(answer["error"], is_lasting=False)
    if printed:
        shown = printed.decode(errors="replace").strip()
        return Verdict(f"it prints when it is imported, where programs may listen to us: {shown!r}")
    return Verdict(told=answer["told"])


def find_python(point: EntryPoint) -> Path | None:
    """The interpreter of the environment that it is installed in; None: ours."""
    place = Path(str(point.dist.locate_file(""))) if point.dist else None
    for environment, site in list_environments():
        if place == site:
            return environment / "bin" / "python"
    return None


def list_environments() -> list[tuple[Path, Path]]:
    """The virtual environments beside ours that the settings name, each with the folder of its packages."""
    from tentalis.env import read_variable

    named = [Path(one).expanduser().absolute() for one in read_variable("AGENT_ENVIRONMENTS")]
    return [(one, site) for one in named for site in sorted(one.glob("lib/python3.*/site-packages"))]


def start_process(
    python: Path | None, *, stdout: int, knows_settings: bool = False
) -> tuple["subprocess.Popen[bytes]", int]:
    """A process for what others wrote, told nothing of our settings unless it wants them; and where it tells."""
    ours = ("TENTALIS_", "DJANGO_")
    environment = {name: value for name, value in os.environ.items() if knows_settings or not name.startswith(ours)}
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            [str(python or sys.executable), "-I", plugin_process.__file__, str(writer)],
            env=environment, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.DEVNULL, pass_fds=[writer],
            start_new_session=True,
        )  # fmt: skip
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return process, reader


def write_line(process: "subprocess.Popen[bytes]", told: Mapping[str, Any]) -> None:
    """Tell it something; one that is gone hears nothing."""
    assert process.stdin
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(told).encode() + b"\n")
        process.stdin.flush()


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """It and whatever it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _hear(process: "subprocess.Popen[bytes]", *, until: float) -> bytes:
    """The first that it writes to its standard output, until it ends or its time is over."""
    assert process.stdout
    output, heard = process.stdout.fileno(), b""
    while process.poll() is None and time.monotonic() < until:
        if not _is_ready(output, wait_s=_LOOK_EVERY_S):
            continue
        if not (data := os.read(output, 65536)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            break
        heard = (heard + data)[:_SHOWN_BYTES]
    return (heard + (os.read(output, 65536) if _is_ready(output) else b""))[:_SHOWN_BYTES]


def _is_ready(descriptor: int, *, wait_s: float = 0.0) -> bool:
    return bool(wait([descriptor], wait_s))
