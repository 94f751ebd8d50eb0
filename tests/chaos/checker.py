"""What must be true after a fault run, as pure functions of the history and the rows; one sentence for each fault."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tests.chaos.history import Event, acknowledged, asked
from tests.chaos.ledger import EntryRow, Ledger

FINAL_TASK = frozenset({"done", "failed", "cancelled"})
FINAL_RUN = frozenset({"succeeded", "failed", "cancelled"})
FIRST_STATE = {
    "task": "queued",
    "review": "open",
    "batch": "open",
    "trainingrun": "queued",
    "adapter": "candidate",
}
BORN = {
    "task": frozenset({"task.submitted"}),
    "batch": frozenset({"batch.opened"}),
    "trainingrun": frozenset({"run.queued"}),
    "adapter": frozenset({"adapter.recorded"}),
    "feedback": frozenset({"feedback.given"}),
}
ONCE_A_TASK = ("task.scored", "rollouts.built")
SHOWN = 5


def find_faults(
    events: Sequence[Event], ledger: Ledger, *, may_fail: frozenset[str] = frozenset(), may_fill: bool = False
) -> list[str]:
    """Everything that is wrong; [] for a run that kept its promises.

    Args:
        may_fail: keys of tasks that were given out to fail.
        may_fill: batches may be left filling.
    """
    return [
        *find_lost(events, ledger),
        *find_failed(ledger, may_fail),
        *find_unfinished(ledger, may_fill=may_fill),
        *find_wrong_groups(ledger),
        *find_wrong_rollouts(ledger),
        *find_wrong_uses(ledger),
        *find_wrong_feedback(events, ledger),
        *find_wrong_segments(ledger),
        *find_wrong_runs(ledger),
        *find_wrong_audit(ledger),
        *(f"audit chain: {fault}" for fault in ledger.chain_faults),
    ]


def find_lost(events: Sequence[Event], ledger: Ledger) -> list[str]:
    """Acknowledged tasks that are not there, requests that made two, tasks nobody asked for."""
    known = acknowledged(events, "submit")
    by_key = defaultdict(list)
    for task in ledger.tasks:
        by_key[task.key].append(task.id)
    lost = [key for key, details in known.items() if details["id"] not in by_key.get(key, [])]
    doubled = [key for key, ids in by_key.items() if len(ids) > 1]
    unasked = by_key.keys() - asked(events, "submit")
    return [
        *_name("acknowledged tasks are lost", lost),
        *_name("requests made more than one task", doubled),
        *_name("tasks were never asked for", unasked),
    ]


def find_failed(ledger: Ledger, may_fail: frozenset[str]) -> list[str]:
    """Tasks that failed although nothing was wrong with them."""
    failed = [f"{task.key}: {task.failure}" for task in ledger.tasks if task.state == "failed"]
    return _name("tasks failed", [words for words in failed if words.split(":")[0] not in may_fail])


def find_unfinished(ledger: Ledger, *, may_fill: bool) -> list[str]:
    """Rows that are in no final state."""
    filling = [] if may_fill else [row.id for row in ledger.batches if row.state == "open" and row.rollout_count]
    return [
        *_name("tasks are not final", [task.id for task in ledger.tasks if task.state not in FINAL_TASK]),
        *_name("segments are open", [row.id for row in ledger.segments if row.state == "open"]),
        *_name("runs are not final", [row.id for row in ledger.runs if row.state not in FINAL_RUN]),
        *_name("batches are filling", filling),
        *_name("adapters were never judged", [row.id for row in ledger.adapters if row.state == "candidate"]),
        *_name("reviews are open", [row.id for row in ledger.states if (row.model, row.state) == ("review", "open")]),
    ]


def find_wrong_groups(ledger: Ledger) -> list[str]:
    """Done tasks with another number of attempts than asked for, attempts doubled, calls recorded for no attempt."""
    places = Counter((row.task_id, row.index) for row in ledger.attempts)
    sizes = Counter(row.task_id for row in ledger.attempts)
    wrong = [
        f"{task.id}: {sizes[task.id]} of {task.group_size}"
        for task in ledger.tasks
        if task.state == "done" and sizes[task.id] != task.group_size
    ]
    shared = Counter(row.exchange_id for row in ledger.attempts if row.exchange_id is not None)
    return [
        *_name("tasks have a wrong number of attempts", wrong),
        *_name("attempts are doubled", [place for place, count in places.items() if count > 1]),
        *_name("calls belong to two attempts", [pk for pk, count in shared.items() if count > 1]),
        *([f"{ledger.orphan_exchanges} recorded calls belong to no attempt"] if ledger.orphan_exchanges else []),
    ]


def find_wrong_rollouts(ledger: Ledger) -> list[str]:
    """Attempts at done tasks without exactly one rollout."""
    rollouts = Counter(row.attempt_id for row in ledger.rollouts)
    done = {task.id for task in ledger.tasks if task.state == "done"}
    missing = [row.id for row in ledger.attempts if row.task_id in done and not rollouts[row.id]]
    return [
        *_name("attempts have no rollout", missing),
        *_name("attempts have more than one rollout", [pk for pk, count in rollouts.items() if count > 1]),
    ]


def find_wrong_uses(ledger: Ledger) -> list[str]:
    """Usable rollouts in no batch or two, unusable ones in any, batches that count wrongly."""
    uses = Counter(row.rollout_id for row in ledger.uses)
    task_of = {row.id: row.task_id for row in ledger.attempts}
    attempt_of = {row.id: row.attempt_id for row in ledger.rollouts}
    held = defaultdict(list)
    for use in ledger.uses:
        held[use.batch_id].append(task_of.get(attempt_of.get(use.rollout_id, 0)))
    usable = {row.id for row in ledger.rollouts if row.is_usable}
    miscounted = [
        row.id
        for row in ledger.batches
        if (row.rollout_count, row.task_count) != (len(held[row.id]), len(set(held[row.id])))
    ]
    return [
        *_name("usable rollouts are in no batch", usable - uses.keys()),
        *_name("unusable rollouts are in a batch", uses.keys() - usable),
        *_name("rollouts are in more than one batch", [pk for pk, count in uses.items() if count > 1]),
        *_name("batches count wrongly", miscounted),
    ]


def find_wrong_feedback(events: Sequence[Event], ledger: Ledger) -> list[str]:
    """Acknowledged feedback that is not there, kept twice, or used another number of times than once."""
    stored = {row.id for row in ledger.feedback}
    lost = [key for key, details in acknowledged(events, "feedback").items() if details["id"] not in stored]
    human = Counter((row.task_id, row.text) for row in ledger.feedback if row.source == "human")
    hints = Counter(row.feedback_id for row in ledger.hints)
    done = {task.id for task in ledger.tasks if task.state == "done"}
    unused = [row.id for row in ledger.feedback if row.task_id in done and not hints[row.id]]
    return [
        *_name("acknowledged feedback is lost", lost),
        *_name("feedback was kept twice", [task for (task, _), count in human.items() if count > 1]),
        *_name("feedback was used by nobody", unused),
        *_name("feedback was used more than once", [pk for pk, count in hints.items() if count > 1]),
    ]


def find_wrong_segments(ledger: Ledger) -> list[str]:
    """Tasks that went through a segment another number of times than once; dead letters."""
    done = Counter((row.kind, row.subject_id) for row in ledger.segments if row.state == "done")
    twice = [
        f"{kind} of {pk}" for (kind, pk), count in done.items() if count > 1 and kind in {"work", "learn", "adopt"}
    ]
    missing = [
        f"{kind} of {task.id}"
        for task in ledger.tasks
        if task.state == "done"
        for kind in ("work", "learn")
        if not done[kind, task.id]
    ]
    return [*_name("segments were done twice", twice), *_name("segments are missing", missing)]


def find_wrong_runs(ledger: Ledger) -> list[str]:
    """Full batches without a run, succeeded runs without an adapter, adapters of runs that did not succeed."""
    runs = Counter(row.batch_id for row in ledger.runs)
    adapters = Counter(row.run_id for row in ledger.adapters)
    succeeded = {row.id for row in ledger.runs if row.state == "succeeded"}
    closed = [row.id for row in ledger.batches if row.state == "closed"]
    return [
        *_name("closed batches have no run", [pk for pk in closed if not runs[pk]]),
        *_name("batches were trained on twice", [pk for pk, count in runs.items() if count > 1]),
        *_name("succeeded runs have no adapter", [pk for pk in succeeded if not adapters[pk]]),
        *_name("runs have two adapters", [pk for pk, count in adapters.items() if pk is not None and count > 1]),
        *_name("adapters come from runs that failed", adapters.keys() - succeeded - {None}),
    ]


def find_wrong_audit(ledger: Ledger) -> list[str]:
    """State changes without their one entry, entries without a row, things made that were not said once."""
    entries: dict[tuple[str, int], list[EntryRow]] = defaultdict(list)
    for entry in ledger.entries:
        if entry.subject_id is not None:
            entries[entry.subject_type, entry.subject_id].append(entry)
    rows = {(row.model, row.id) for row in ledger.states} | {("feedback", row.id) for row in ledger.feedback}
    checked = FIRST_STATE.keys() | BORN.keys()
    faults = [
        f"{row.model} {row.id}: {words}"
        for row in ledger.states
        if (words := _find_broken_path(FIRST_STATE[row.model], row.state, entries[row.model, row.id], row.model))
    ]
    unsaid = [
        f"{model} {pk}: {count} times"
        for model, pk in sorted(rows)
        if model in BORN and (count := sum(entry.kind in BORN[model] for entry in entries[model, pk])) != 1
    ]
    rowless = [f"{model} {pk}" for model, pk in entries if model in checked and (model, pk) not in rows]
    uneven = [
        f"{kind} of task {task.id}: {count} times"
        for task in ledger.tasks
        if task.state == "done"
        for kind in ONCE_A_TASK
        if (count := sum(entry.kind == kind for entry in entries["task", task.id])) != 1
    ]
    return [
        *_name("audited paths do not lead to the row's state", faults),
        *_name("rows were not announced exactly once", unsaid),
        *_name("audit entries have no row", rowless),
        *_name("things done once a task were not audited once", uneven),
    ]


def _find_broken_path(first: str, last: str, entries: Sequence[EntryRow], model: str) -> str:
    """Where the moves that the audit tells do not join to a path from the first state to the present one."""
    state = first
    for entry in entries:
        if not entry.moved_from:
            if model == "review" and entry.kind in {"review.closed", "review.skipped"} and state == first:
                state = entry.kind.removeprefix("review.")  # an AI manager's review is written closed
            continue
        if entry.moved_from != state:
            return f"entry {entry.id} moves from {entry.moved_from}, wanted {state}"
        state = entry.moved_to
    return "" if state == last else f"the audit ends at {state}, the row is {last}"


def _name(what: str, found: Iterable[object]) -> list[str]:
    """One sentence with a few examples, or none."""
    items = list(found)
    if not items:
        return []
    shown = ", ".join(str(item) for item in items[:SHOWN])
    return [f"{len(items)} {what}: {shown}{', …' if len(items) > SHOWN else ''}"]
