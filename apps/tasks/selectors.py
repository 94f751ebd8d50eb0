"""Reads of tasks that cost the same however many there are."""

from collections.abc import Iterable
from typing import Any, Self

from django.db import connection
from django.db.models import Q, QuerySet

from apps.accounts.models import Project, User
from apps.accounts.services import find_leader
from apps.base.word_index import with_words
from apps.tasks.models import SEARCHED_STATES, TASK_WORDS, Task

MOST = 10_000

# by the index on (project, state, id) alone, and never more than `most` entries of it for a state
_COUNT = """
SELECT wanted.state, (SELECT count(*) FROM (SELECT FROM tasks_task task
                      WHERE task.project_id = %(project)s AND task.state = wanted.state LIMIT %(most)s + 1) found)
FROM unnest(%(states)s::text[]) wanted (state)
"""


class BoundedCount(int):
    """How many there are; with `is_more` at least so many: counting stopped."""

    is_more: bool

    def __new__(cls, number: int, *, is_more: bool = False) -> Self:
        count = super().__new__(cls, number)
        count.is_more = is_more
        return count

    def __str__(self) -> str:
        return f"{int(self):,}{'+' if self.is_more else ''}"


def count_tasks(project_id: int, states: Iterable[str], *, most: int = MOST) -> dict[str, BoundedCount]:
    """The project's tasks by state, for those of these states that have any; each is counted up to `most`."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"project": project_id, "most": most, "states": [str(state) for state in states]})
        rows = cursor.fetchall()
    return {state: BoundedCount(min(count, most), is_more=count > most) for state, count in rows if count}


def find_submitter(project: Project, handle: str) -> User:
    """Who a task is from that nobody submitted: the user of this handle, else the project's first owner or manager."""
    found = User.objects.filter(username=handle.partition(":")[2]).first()
    return find_leader(project) if found is None else found


def find_by_words(tasks: QuerySet[Any], text: str) -> QuerySet[Any]:
    """Tasks that hold all words of a text. Raises BadInputError for one without words."""
    others = [state for state in Task.State.values if state not in SEARCHED_STATES]
    return with_words(tasks, TASK_WORDS, text, indexed=Q(state__in=SEARCHED_STATES), others=Q(state__in=others))
