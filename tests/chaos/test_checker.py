"""The checker finds each way to break a promise, and nothing in a run that kept them all."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checker import find_faults
from tests.chaos.history import Event, History, acknowledged, read_history
from tests.chaos.ledger import (
    AdapterRow,
    AttemptRow,
    BatchRow,
    EntryRow,
    FeedbackRow,
    HintRow,
    Ledger,
    RolloutRow,
    RunRow,
    SegmentRow,
    StateRow,
    TaskRow,
    UseRow,
)

EVENTS = [
    Event("invoke", "submit", "a"),
    Event("ok", "submit", "a", details={"id": 1}),
    Event("invoke", "feedback", "f"),
    Event("ok", "feedback", "f", details={"id": 70}),
]


def entry(number: int, kind: str, subject: str, pk: int, path: str = "") -> EntryRow:
    """An audit entry; `path` is "from>to"."""
    before, _, after = path.partition(">")
    return EntryRow(number, kind, subject, pk, before, after)


def whole_ledger() -> Ledger:
    """One task of two attempts, reviewed, learned from and trained on, told completely."""
    return Ledger(
        tasks=[TaskRow(1, "a", "done", 2)],
        attempts=[AttemptRow(11, 1, 0, 101), AttemptRow(12, 1, 1, 102)],
        rollouts=[RolloutRow(21, 11, True), RolloutRow(22, 12, False)],
        uses=[UseRow(21, 31)],
        batches=[BatchRow(31, "closed", 1, 1)],
        feedback=[FeedbackRow(70, 1, "human", "good")],
        hints=[HintRow(80, 70)],
        segments=[
            SegmentRow(1, "work", 1, "done"),
            SegmentRow(2, "learn", 1, "done"),
            SegmentRow(3, "train", 41, "done"),
            SegmentRow(4, "adopt", 51, "done"),
        ],
        states=[
            StateRow("task", 1, "done"),
            StateRow("review", 61, "closed"),
            StateRow("batch", 31, "closed"),
            StateRow("trainingrun", 41, "succeeded"),
            StateRow("adapter", 51, "refused"),
        ],
        runs=[RunRow(41, 31, "succeeded")],
        adapters=[AdapterRow(51, 41, "refused")],
        entries=[
            entry(1, "task.submitted", "task", 1),
            entry(2, "task.started", "task", 1, "queued>working"),
            entry(3, "task.attempted", "task", 1, "working>scoring"),
            entry(4, "task.scored", "task", 1),
            entry(5, "review.opened", "review", 61),
            entry(6, "task.in_review", "task", 1, "scoring>in_review"),
            entry(7, "review.closed", "review", 61, "open>closed"),
            entry(8, "feedback.given", "feedback", 70),
            entry(9, "task.learning", "task", 1, "in_review>learning"),
            entry(10, "rollouts.built", "task", 1),
            entry(11, "batch.opened", "batch", 31),
            entry(12, "batch.closed", "batch", 31, "open>closed"),
            entry(13, "task.done", "task", 1, "learning>done"),
            entry(14, "run.queued", "trainingrun", 41),
            entry(15, "run.started", "trainingrun", 41, "queued>running"),
            entry(16, "run.succeeded", "trainingrun", 41, "running>succeeded"),
            entry(17, "adapter.recorded", "adapter", 51),
            entry(18, "adapter.refused", "adapter", 51, "candidate>refused"),
        ],
    )


def without_entry(number: int) -> Ledger:
    whole = whole_ledger()
    return replace(whole, entries=[row for row in whole.entries if row.id != number])


def with_more(**rows: Any) -> Ledger:
    whole = whole_ledger()
    more: dict[str, Any] = {name: [*getattr(whole, name), *added] for name, added in rows.items()}
    return replace(whole, **more)


def test_a_run_that_kept_its_promises_has_no_faults() -> None:
    assert find_faults(EVENTS, whole_ledger()) == []


BROKEN = {
    "acknowledged tasks are lost": replace(whole_ledger(), tasks=[]),
    "requests made more than one task": with_more(tasks=[TaskRow(2, "a", "cancelled", 2)]),
    "tasks were never asked for": with_more(tasks=[TaskRow(2, "b", "cancelled", 2)]),
    "tasks failed": replace(whole_ledger(), tasks=[TaskRow(1, "a", "failed", 2, "NoAnswerError: none")]),
    "tasks are not final": replace(whole_ledger(), tasks=[TaskRow(1, "a", "working", 2)]),
    "segments are open": with_more(segments=[SegmentRow(9, "train", 42, "open")]),
    "runs are not final": replace(whole_ledger(), runs=[RunRow(41, 31, "running")]),
    "batches are filling": with_more(batches=[BatchRow(32, "open", 1, 1)]),
    "adapters were never judged": replace(whole_ledger(), adapters=[AdapterRow(51, 41, "candidate")]),
    "reviews are open": with_more(states=[StateRow("review", 62, "open")]),
    "tasks have a wrong number of attempts": with_more(attempts=[AttemptRow(13, 1, 2)]),
    "attempts are doubled": with_more(attempts=[AttemptRow(13, 1, 1)]),
    "calls belong to two attempts": with_more(attempts=[AttemptRow(13, 1, 2, 101)]),
    "recorded calls belong to no attempt": replace(whole_ledger(), orphan_exchanges=1),
    "attempts have no rollout": replace(whole_ledger(), rollouts=[RolloutRow(21, 11, True)]),
    "attempts have more than one rollout": with_more(rollouts=[RolloutRow(23, 11, False)]),
    "usable rollouts are in no batch": replace(whole_ledger(), uses=[]),
    "unusable rollouts are in a batch": with_more(uses=[UseRow(22, 31)]),
    "rollouts are in more than one batch": with_more(uses=[UseRow(21, 32)]),
    "batches count wrongly": replace(whole_ledger(), batches=[BatchRow(31, "closed", 1, 2)]),
    "acknowledged feedback is lost": replace(whole_ledger(), feedback=[], hints=[]),
    "feedback was kept twice": with_more(feedback=[FeedbackRow(71, 1, "human", "good")], hints=[HintRow(81, 71)]),
    "feedback was used by nobody": replace(whole_ledger(), hints=[]),
    "feedback was used more than once": with_more(hints=[HintRow(81, 70)]),
    "segments were done twice": with_more(segments=[SegmentRow(9, "work", 1, "done")]),
    "segments are missing": replace(whole_ledger(), segments=[SegmentRow(1, "work", 1, "done")]),
    "closed batches have no run": with_more(batches=[BatchRow(32, "closed", 0, 0)]),
    "batches were trained on twice": with_more(runs=[RunRow(42, 31, "failed")]),
    "succeeded runs have no adapter": replace(whole_ledger(), adapters=[]),
    "runs have two adapters": with_more(adapters=[AdapterRow(52, 41, "refused")]),
    "adapters come from runs that failed": replace(whole_ledger(), runs=[RunRow(41, 31, "failed")]),
    "audited paths do not lead to the row's state": without_entry(3),
    "rows were not announced exactly once": without_entry(17),
    "audit entries have no row": with_more(entries=[entry(19, "task.submitted", "task", 9)]),
    "things done once a task were not audited once": with_more(entries=[entry(19, "rollouts.built", "task", 1)]),
    "audit chain: entry 3 was changed": replace(whole_ledger(), chain_faults=["entry 3 was changed"]),
}


@pytest.mark.parametrize("words", BROKEN)
def test_each_broken_promise_is_named(words: str) -> None:
    assert any(words in fault for fault in find_faults(EVENTS, BROKEN[words]))


def test_a_task_that_was_given_out_to_fail_may_fail() -> None:
    ledger = Ledger(tasks=[TaskRow(1, "a", "failed", 2, "RuntimeError: poison")])
    faults = find_faults(EVENTS[:2], ledger, may_fail=frozenset({"a"}))
    assert not [fault for fault in faults if "tasks failed" in fault]


def test_a_doubled_state_change_breaks_the_path_the_audit_tells() -> None:
    faults = find_faults(EVENTS, with_more(entries=[entry(19, "task.done", "task", 1, "learning>done")]))
    assert faults == [
        "1 audited paths do not lead to the row's state: task 1: entry 19 moves from learning, wanted done"
    ]


def test_a_history_is_read_back_as_it_was_written_but_for_a_line_cut_short(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    history.note("invoke", "submit", "a")
    history.note("ok", "submit", "a", id=1)
    history.close()
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"phase": "ok", "act')
    read = read_history(tmp_path / "history.jsonl")
    assert read == history.events
    assert acknowledged(read, "submit") == {"a": {"id": 1}}
