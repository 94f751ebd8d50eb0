"""What can keep the gate from an answer."""

from collections.abc import Sequence
from datetime import datetime

from apps.base.errors import ConflictError


class WaitsForPeopleError(ConflictError):
    """People have yet to say which answers are better; the gate goes on when they did, or when their time is over."""

    code = "waits_for_people"

    def __init__(self, tasks: Sequence[int], due: datetime | None) -> None:
        super().__init__(f"{len(tasks)} pairs of answers wait for people")
        self.tasks, self.due = tasks, due
