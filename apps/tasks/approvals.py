"""Whom an agent of the platform's own asks before it acts. Who answers stands above (`apps.supervision`)."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from apps.tasks.models import Attempt, EpisodeTurn, Task
from apps.worlds.episodes import Instead
from tentalis.core.worlds import ToolCall


class CallPlace(NamedTuple):
    """A call: of which attempt, in which turn, and its number there, both from 0."""

    attempt_id: int
    turn: int
    call: int


class Approvals:
    """Whom calls wait for. This one lets all of them be made."""

    def ask(self, task: Task, turns: Sequence[tuple[EpisodeTurn, Sequence[ToolCall]]]) -> set[int]:
        """Keep what waits, in the running transaction; ids of the attempts that do."""
        return set()

    def find_pending(self, attempts: Iterable[Attempt]) -> dict[int, datetime]:
        """Attempt id -> when the first of its calls is decided at the latest; none where nothing waits any more."""
        return {}

    def read(self, attempts: Iterable[Attempt]) -> Mapping[CallPlace, Instead]:
        """What is done in place of calls; those that may be made as they are, are not in it."""
        return {}

    def note_steps(self, places: Mapping[CallPlace, int]) -> None:
        """Keep which step of its attempt, from 0, each call has become, in the running transaction."""
