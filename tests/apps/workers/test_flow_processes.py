"""Processes of agents of other frameworks, kept between tasks."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from apps.workers.agents import flows
from tentalis.core.worlds import FlowProgram

PROGRAM = FlowProgram("package:agent")


class Kept:
    """Stands for a process that answers everything at once."""

    ended = threading.Event()

    def __init__(self, program: FlowProgram) -> None:
        self.used_at = time.monotonic()

    def make(self, tries: Sequence[Mapping[str, Any]], *, timeout_s: float) -> tuple[dict[str, Any], bool]:
        self.used_at = time.monotonic()
        return {}, True

    def end(self) -> None:
        self.ended.set()


def test_one_thread_waits_for_processes_to_be_idle_however_many_tasks_they_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flows, "_Process", Kept)
    processes, before = flows._Processes(), set(threading.enumerate())
    for _ in range(20):
        processes.make(PROGRAM, [], timeout_s=1)
    [timer] = [one for one in threading.enumerate() if one not in before and isinstance(one, threading.Timer)]
    timer.cancel()


def test_what_is_idle_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "_Process", Kept)
    monkeypatch.setattr(flows, "IDLE_S", -1.0)
    Kept.ended.clear()
    flows._Processes().make(PROGRAM, [], timeout_s=1)
    assert Kept.ended.wait(120)
