"""The rows a run left behind, read in one snapshot of the database into plain values that the checker can judge."""

from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from psycopg.rows import class_row


@dataclass(frozen=True)
class TaskRow:
    id: int
    key: str
    state: str
    group_size: int
    failure: str = ""


@dataclass(frozen=True)
class AttemptRow:
    id: int
    task_id: int
    index: int
    exchange_id: int | None = None


@dataclass(frozen=True)
class RolloutRow:
    id: int
    attempt_id: int
    is_usable: bool


@dataclass(frozen=True)
class UseRow:
    rollout_id: int
    batch_id: int


@dataclass(frozen=True)
class BatchRow:
    id: int
    state: str
    task_count: int
    rollout_count: int


@dataclass(frozen=True)
class FeedbackRow:
    id: int
    task_id: int
    source: str
    text: str


@dataclass(frozen=True)
class HintRow:
    id: int
    feedback_id: int


@dataclass(frozen=True)
class SegmentRow:
    id: int
    kind: str
    subject_id: int
    state: str
    last_error: str = ""


@dataclass(frozen=True)
class StateRow:
    """A row of a model that moves between states."""

    model: str
    id: int
    state: str


@dataclass(frozen=True)
class RunRow:
    id: int
    batch_id: int
    state: str
    failure: str = ""


@dataclass(frozen=True)
class AdapterRow:
    id: int
    run_id: int | None
    state: str
    uri: str = ""
    sha256: str = ""
    words: str = ""


@dataclass(frozen=True)
class EntryRow:
    """An audit entry; `moved_from` and `moved_to` are empty where no state changed."""

    id: int
    kind: str
    subject_type: str
    subject_id: int | None
    moved_from: str = ""
    moved_to: str = ""


@dataclass(frozen=True)
class Ledger:
    """Everything the checker looks at."""

    tasks: list[TaskRow] = field(default_factory=list)
    attempts: list[AttemptRow] = field(default_factory=list)
    orphan_exchanges: int = 0
    rollouts: list[RolloutRow] = field(default_factory=list)
    uses: list[UseRow] = field(default_factory=list)
    batches: list[BatchRow] = field(default_factory=list)
    feedback: list[FeedbackRow] = field(default_factory=list)
    hints: list[HintRow] = field(default_factory=list)
    segments: list[SegmentRow] = field(default_factory=list)
    states: list[StateRow] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)
    adapters: list[AdapterRow] = field(default_factory=list)
    entries: list[EntryRow] = field(default_factory=list)
    chain_faults: list[str] = field(default_factory=list)


_QUERIES: dict[str, tuple[type, LiteralString]] = {
    "tasks": (TaskRow, "SELECT id, COALESCE(metadata->>'key', '') AS key, state, group_size, failure FROM tasks_task"),
    "attempts": (AttemptRow, "SELECT id, task_id, index, exchange_id FROM tasks_attempt"),
    "rollouts": (RolloutRow, "SELECT id, attempt_id, is_usable FROM rollouts_rollout"),
    "uses": (UseRow, "SELECT rollout_id, batch_id FROM rollouts_traininguse"),
    "batches": (BatchRow, "SELECT id, state, task_count, rollout_count FROM rollouts_batch"),
    "feedback": (FeedbackRow, "SELECT id, task_id, source, text FROM feedback_feedback"),
    "hints": (HintRow, "SELECT id, feedback_id FROM feedback_hint"),
    "segments": (
        SegmentRow,
        "SELECT id, kind, subject_id, state, COALESCE(errors->-1->>'message', '') AS last_error FROM outbox_segment",
    ),
    "states": (
        StateRow,
        "SELECT 'task' AS model, id, state FROM tasks_task UNION ALL "
        "SELECT 'review', id, state FROM feedback_review UNION ALL "
        "SELECT 'batch', id, state FROM rollouts_batch UNION ALL "
        "SELECT 'trainingrun', id, state FROM training_trainingrun UNION ALL "
        "SELECT 'adapter', id, state FROM adapters_adapter",
    ),
    "runs": (RunRow, "SELECT id, batch_id, state, failure FROM training_trainingrun"),
    "adapters": (
        AdapterRow,
        "SELECT id, run_id, state, uri, sha256, COALESCE((SELECT string_agg(words, '; ' ORDER BY v.id) "
        "FROM adapters_verdict v WHERE v.adapter_id = a.id), '') AS words FROM adapters_adapter a",
    ),
    "entries": (
        EntryRow,
        "SELECT id, kind, subject_type, subject_id, COALESCE(payload->>'from', '') AS moved_from, "
        "CASE WHEN payload ? 'from' THEN COALESCE(payload->>'to', '') ELSE '' END AS moved_to "
        "FROM audit_auditentry ORDER BY id",
    ),
}


def read_ledger(database_url: str, *, chain_faults: list[str]) -> Ledger:
    """Read everything in one snapshot.

    Args:
        chain_faults: what the check of the audit's hash chain found.
    """
    values: dict[str, Any] = {"chain_faults": chain_faults}
    with psycopg.connect(database_url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        for name, (row, query) in _QUERIES.items():
            values[name] = connection.cursor(row_factory=class_row(row)).execute(query).fetchall()
        orphans = connection.execute(
            "SELECT count(*) FROM inference_exchange e "
            "WHERE NOT EXISTS (SELECT FROM tasks_attempt a WHERE a.exchange_id = e.id)"
        ).fetchone()
        values["orphan_exchanges"] = orphans[0] if orphans else 0
    return Ledger(**values)


def count_unfinished(database_url: str) -> dict[str, int]:
    """What is not at its end yet, by what it is; empty when all is done. Reviews that wait for a person count too."""
    query: LiteralString = (
        "SELECT 'tasks', count(*) FROM tasks_task WHERE state NOT IN ('done', 'failed', 'cancelled') UNION ALL "
        "SELECT 'segments', count(*) FROM outbox_segment WHERE state = 'open' UNION ALL "
        "SELECT 'runs', count(*) FROM training_trainingrun WHERE state IN ('queued', 'running') UNION ALL "
        "SELECT 'unsealed', count(*) FROM audit_auditentry e "
        "  WHERE NOT EXISTS (SELECT FROM audit_auditseal s WHERE s.entry_id = e.id)"
    )
    with psycopg.connect(database_url, connect_timeout=5) as connection:
        return {name: count for name, count in connection.execute(query).fetchall() if count}
