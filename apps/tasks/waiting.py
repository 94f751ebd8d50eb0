"""Waiting for a task to go on; see `apps.base.waiting`."""

from collections.abc import Collection

from apps.base.waiting import LongPollHub
from apps.tasks.models import Task

Seen = tuple[int, str]
"""A task, and the state that whoever waits knows."""


def find_changed(seen: Collection[Seen]) -> list[Seen]:
    """Which are in another state, or gone."""
    states = dict(Task.objects.filter(pk__in={pk for pk, _ in seen}).values_list("pk", "state"))
    return [(pk, state) for pk, state in seen if states.get(pk) != state]


boards = LongPollHub(find_changed)
current_board = boards.current
