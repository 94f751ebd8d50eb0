"""What the clients asked for and what they were told, one JSON line an event, written before anything else happens."""

import json
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Phase = Literal["invoke", "ok", "fail", "fault"]


@dataclass(frozen=True)
class Event:
    """One line of a history.

    Args:
        phase: invoke (asked), ok (acknowledged), fail (refused for good), fault (something was broken on purpose).
        action: submit, feedback, or the fault's kind.
        key: the client's own name of the request; the same over all its tries.
        at_s: seconds since the history began.
        details: ids from the acknowledgement, a refusal's words, a fault's target.
    """

    phase: Phase
    action: str
    key: str
    at_s: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)


class History:
    """Events in the order in which they were noted, in memory and in a file; many threads may write."""

    def __init__(self, path: Path) -> None:
        self.events: list[Event] = []
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def note(self, phase: Phase, action: str, key: str, **details: Any) -> None:
        with self._lock:
            event = Event(phase, action, key, round(time.monotonic() - self._began, 3), details)
            self.events.append(event)
            self._file.write(json.dumps(asdict(event)) + "\n")

    def close(self) -> None:
        self._file.close()


def read_history(path: Path) -> list[Event]:
    """The events of a file; a last line cut short by a crash is left out."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [Event(**json.loads(line)) for line in lines if line.endswith("\n")]


def acknowledged(events: Iterable[Event], action: str) -> dict[str, dict[str, Any]]:
    """Details of what was acknowledged, by key."""
    return {event.key: event.details for event in events if (event.phase, event.action) == ("ok", action)}


def asked(events: Iterable[Event], action: str) -> set[str]:
    """Keys of everything that was asked for, acknowledged or not."""
    return {event.key for event in events if (event.phase, event.action) == ("invoke", action)}
