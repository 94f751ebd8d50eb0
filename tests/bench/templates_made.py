"""Packages that templates make, each in an environment of its own without Tentalis; and what their agents asked."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg

from tentalis.agent_templates import write_package

CACHE: Final = Path(".cache/bench/templates")


class InstallError(Exception):
    """An environment could not be made; the last line of why."""


class Installed(NamedTuple):
    """A package and the environment that it is installed in."""

    package: Path
    venv: Path
    seconds: float

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"


def install_package(
    name: str, template: str, *, keep: bool, files: Mapping[str, str] | None = None, paths: Sequence[Path] = ()
) -> Installed:
    """Make one anew, with its framework from the package index; its environment too, where it is not to be kept.

    Args:
        files: of the package, written over what the template made.
        paths: directories whose modules it finds beside those that are installed.
    Raises:
        InstallError: what it wants cannot be had.
    """
    place = CACHE.resolve() / name
    package, venv = place / "package", place / "venv"
    shutil.rmtree(package, ignore_errors=True)
    write_package(package, name=name, framework=template)
    for path, text in (files or {}).items():
        (package / name / path).write_text(text, encoding="utf-8")
    started = time.monotonic()
    if not (keep and (venv / "bin" / "python").exists()):
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    done = subprocess.run(
        [*find_installer(venv), f"{package}[tests]"],
        env=find_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if paths:
        (site,) = venv.glob("lib/python*/site-packages")
        (site / f"{name}_beside.pth").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    if done.returncode:
        raise InstallError((done.stderr.strip().splitlines() or ["no word of it"])[-1][:200])
    return Installed(package, venv, time.monotonic() - started)


def find_installer(venv: Path) -> list[str]:
    """uv where it is beside us, which takes seconds; else the environment's pip."""
    uv = Path(sys.executable).parent / "uv"
    if uv.exists():
        return [str(uv), "pip", "install", "--quiet", "--python", str(venv / "bin" / "python")]
    return [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]


def find_environment() -> dict[str, str]:
    """What pip is told is told to uv."""
    told = {"SSL_CERT_FILE": os.environ.get("PIP_CERT"), "UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS")}
    return {**{name: value for name, value in told.items() if value}, **os.environ}


class CallCounts(NamedTuple):
    """What the gateway kept of a worker's calls; exact: every token is known, with its log-prob."""

    made: int = 0
    exact: int = 0
    streamed: int = 0

    @property
    def are_exact(self) -> bool:
        return 0 < self.exact == self.made

    def __add__(self, other: object) -> "CallCounts":
        if not isinstance(other, CallCounts):
            return NotImplemented
        return CallCounts(*(one + two for one, two in zip(self, other, strict=True)))


def count_calls(database: "psycopg.Connection[Any]", worker: str) -> CallCounts:
    asked = """SELECT count(*), count(*) FILTER (WHERE length(token_ids) > 0 AND length(token_ids) = length(logprobs)
               AND length(prompt_token_ids) + shared_tokens > 0 AND error = ''), count(*) FILTER (WHERE is_streamed)
               FROM inference_exchange WHERE worker_name = %s"""
    return CallCounts(*database.execute(asked, [worker]).fetchone() or ())
