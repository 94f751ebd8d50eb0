"""Waiting for a task to go on, or an episode; see `apps.base.waiting`."""

from collections.abc import Collection

from django.db.models import Max

from apps.base.waiting import LongPollHub
from apps.tasks.models import Attempt, EpisodeTurn, Task

Seen = tuple[int, str]
"""A task, and the state that whoever waits knows."""
TurnSeen = tuple[int, int]
"""An attempt, and the index of the last turn that whoever waits knows; -1: none."""


def find_changed(seen: Collection[Seen]) -> list[Seen]:
    """Which are in another state, or gone."""
    states = dict(Task.objects.filter(pk__in={pk for pk, _ in seen}).values_list("pk", "state"))
    return [(pk, state) for pk, state in seen if states.get(pk) != state]


def find_played_on(seen: Collection[TurnSeen]) -> list[TurnSeen]:
    """Where a further turn has ended, or nothing is played any more."""
    attempts = {pk for pk, _ in seen}
    playing = set(Attempt.every.filter(pk__in=attempts, state__in=Attempt.NOT_YET).values_list("pk", flat=True))
    ended = EpisodeTurn.objects.filter(attempt__in=playing, ended_at__isnull=False).order_by()
    last = dict(ended.values("attempt").annotate(last=Max("index")).values_list("attempt", "last"))
    return [(pk, index) for pk, index in seen if pk not in playing or last.get(pk, -1) > index]


boards = LongPollHub(find_changed)
current_board = boards.current
turn_boards = LongPollHub(find_played_on)
current_turn_board = turn_boards.current
