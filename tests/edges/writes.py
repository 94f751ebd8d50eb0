"""What a request writes: the statements it sent that change a row."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

WRITES = re.compile(
    r'\b(INSERT\s+INTO|DELETE\s+FROM|COPY|(?<!FOR )(?<!FOR NO KEY )UPDATE)\s+(?!"accounts_(browsersession|apitoken)")',
    re.IGNORECASE,
)
"""Any table's; but that a session or a token was used is noted."""
WORDS = ("INSERT", "DELETE", "COPY", "UPDATE")
"""One of which each of them has: looked for first, for the pattern is tried at every letter."""


@contextmanager
def noting_writes() -> Iterator[list[str]]:
    """Fills the list with each statement that writes, while it is open."""
    wrote: list[str] = []

    def note(execute: Any, statement: str, *given: Any) -> Any:
        upper = statement.upper()
        if any(word in upper for word in WORDS) and WRITES.search(statement):
            wrote.append(statement)
        return execute(statement, *given)

    with connection.execute_wrapper(note):
        yield wrote
