"""Small processes for the supervisor's tests. Each writes one line when it starts and one for each signal it heeds."""

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tentalis.platform.service import Service

OBEDIENT = """
import signal, sys, pathlib
journal = pathlib.Path(sys.argv[1]).open("a")
def leave(number, frame):
    journal.write("stop " + sys.argv[2] + "\\n"); journal.flush(); sys.exit(0)
signal.signal(signal.SIGTERM, leave)
journal.write("start " + sys.argv[2] + "\\n"); journal.flush()
pathlib.Path(sys.argv[3]).touch()
while True:
    signal.pause()
"""
STUBBORN = OBEDIENT.replace("leave)", "signal.SIG_IGN)")


class Workshop:
    """Makes services that write to one journal."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.journal = directory / "journal"

    def service(self, name: str, *, script: str = OBEDIENT, after: Iterable[str] = (), **more: Any) -> Service:
        """A process that is ready once it can be stopped in order."""
        flag = self.directory / f"{name}.up"

        async def is_up() -> bool:
            return flag.exists()

        return Service(
            **{
                "name": name,
                "argv": [sys.executable, "-c", script, str(self.journal), name, str(flag)],
                "environment": dict(os.environ),
                "after": tuple(after),
                "probe": is_up,
                "prepare": lambda: flag.unlink(missing_ok=True),
                "death_signal": signal.SIGKILL,
                **more,
            }
        )

    def oneshot(self, name: str, script: str, *, after: Iterable[str] = ()) -> Service:
        return Service(
            name=name,
            argv=[sys.executable, "-c", script],
            environment=dict(os.environ),
            after=tuple(after),
            is_oneshot=True,
        )

    def events(self) -> list[str]:
        return self.journal.read_text().splitlines() if self.journal.exists() else []
