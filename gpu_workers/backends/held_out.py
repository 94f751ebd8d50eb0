"""Which tasks a run is checked on instead of learning from them: whole tasks, never some of their rows."""

import hashlib
from collections.abc import Iterable

from tentalis.core.contracts import RolloutRecord


def choose_held_out(group_ids: set[int], *, share: float) -> set[int]:
    """Tasks to check on: a share of them, at least one, at most all but one; none of fewer than two.

    Those whose ids hash lowest: as far as numbers allow, a task that is held out is so again in other company.
    """
    if len(group_ids) < 2:
        return set()
    ranked = sorted(group_ids, key=lambda group_id: hashlib.sha256(str(group_id).encode()).digest())
    return set(ranked[: min(len(ranked) - 1, max(1, round(share * len(ranked))))])


def find_tasks(rollouts: Iterable[RolloutRecord]) -> dict[int, int]:
    """Rollout id -> its task. Earlier parts of an attempt in several stand in groups of their own, with ids below 0."""
    tasks: dict[int, int] = {}
    for one in rollouts:
        tasks[one.rollout_id] = max(one.group_id, tasks.get(one.rollout_id, one.group_id))
    return tasks
