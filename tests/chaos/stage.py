"""The stack a fault run breaks: in a throw-away home, on free ports, with a short lease and little patience."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tentalis.platform.home import Home
from tentalis.platform.up import RunningStack, running_stack
from tests.local_server import choose_ports

LEASE_S = 8.0
SETTINGS: Mapping[str, str] = {
    "TENTALIS_LEASE_SECONDS": str(LEASE_S),
    "TENTALIS_WATCHDOG_SECONDS": "10",
    "TENTALIS_RUN_SILENCE_SECONDS": "30",
    "TENTALIS_RETRY_BASE_SECONDS": "0.5",
    "TENTALIS_MAX_ATTEMPTS": "8",
    "TENTALIS_LOG_LEVEL": "WARNING",
    "TENTALIS_QUEUE_PROCESSES": "workers=threads:16;scorers,hints,gates,control=threads:16",
}


@contextmanager
def chaos_stack(
    *,
    settings: Mapping[str, str] | None = None,
    keep_in: Path | None = None,
    first_port: int | None = None,
    only: Sequence[str] = (),
) -> Iterator[RunningStack]:
    """A whole stack for the length of a block; its home goes with it unless it was given.

    Args:
        settings: over `SETTINGS`.
        keep_in: a home that stays, with its logs.
        first_port: where its ports begin; None: free ones.
        only: names of services; with what they need. Empty: all.
    """
    environ = make_environ(first_port) | {**SETTINGS, **(settings or {})}
    with own_home(keep_in) as home, running_stack(home, environ, is_throwaway=True, only=only) as stack:
        yield stack


@contextmanager
def own_home(keep_in: Path | None = None) -> Iterator[Home]:
    """A home for the length of a block, or one that stays."""
    root = keep_in or Path(tempfile.mkdtemp(prefix="tentalis-chaos-"))
    try:
        yield Home(root)
    finally:
        if keep_in is None:
            shutil.rmtree(root, ignore_errors=True)


def make_environ(first_port: int | None = None) -> dict[str, str]:
    """This process's environment without any Tentalis setting but ports of its own."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TENTALIS_")}
    environ.pop("DJANGO_SETTINGS_MODULE", None)
    return environ | choose_ports(first_port)


def environment_of(stack: RunningStack) -> dict[str, str]:
    """What a process beside the stack needs to work on it, the stack's own settings included."""
    return stack.environment(dict(os.environ) | dict(SETTINGS) | {"DJANGO_SETTINGS_MODULE": "tentalis.settings.dev"})


def read_admin_token(stack: RunningStack) -> str:
    """A token of the first admin, of every scope, as `bootstrap` left it."""
    return (stack.home.run / "admin-token").read_text(encoding="utf-8").strip()
