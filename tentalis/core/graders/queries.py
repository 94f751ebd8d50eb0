"""What a query of somebody else finds in a small database: SQLite in memory, read only, in bounded steps, time and
memory."""

import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any, Final

MOST_SETUPS: Final = 8
MOST_QUERY: Final = 20_000
"""Characters."""
MOST_ROWS: Final = 10_000
MOST_BYTES: Final = 32 * 2**20
"""Of all rows of an answer, and of a database."""
MOST_CPU_S: Final = 5.0
"""Of a processor: a step may be a function that looks through all of a long text, which is a hundredth of a second."""
MOST_STEPS: Final = 2_000_000
"""Instructions of SQLite's machine."""
MOST_CELL: Final = 10_000
"""Bytes of a value that a query makes."""
_STEPS_AT_ONCE: Final = 100
_CELL_COSTS_BYTES: Final = 50
_PAGE_BYTES: Final = 4_096
_KEPT: Final = 16
_FULL: Final = "database or disk is full"
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: MOST_CELL,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 * MOST_QUERY,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500,
    sqlite3.SQLITE_LIMIT_COLUMN: 200,
}
_MAY: Final = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_MAY_NOT_CALL: Final = {
    "load_extension",
    "random",
    "randomblob",
    "zeroblob",
    "readfile",
    "writefile",
    "edit",
    "fts3_tokenizer",
}
_MAY_NOT_SET_UP: Final = {
    sqlite3.SQLITE_ATTACH,
    sqlite3.SQLITE_DETACH,
    sqlite3.SQLITE_PRAGMA,
    sqlite3.SQLITE_CREATE_VTABLE,
}
Row = tuple[Any, ...]


class QueryError(ValueError):
    """A database that cannot be set up, or a query that fails or takes too long."""


def find_rows(setup: str, query: str) -> list[Row]:
    """What one SELECT gives. Raises QueryError."""
    if len(query) > MOST_QUERY:
        raise QueryError(f"wanted a query of at most {MOST_QUERY:,} characters, found {len(query):,}")
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(_set_up(setup))
        for limit, most in _LIMITS.items():
            database.setlimit(limit, most)
        database.set_authorizer(_allow_reading)
        _bound(database)
        try:
            cursor = database.execute(query)
            columns, rows = cursor.description, _fetch(cursor)
        except QueryError:
            raise
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            raise QueryError(str(error)[:300]) from None
    if columns is None:
        raise QueryError("wanted one SELECT, found none")
    return rows


def _fetch(cursor: sqlite3.Cursor) -> list[Row]:
    rows, left = list[Row](), MOST_BYTES
    for row in cursor:
        left -= sum(_CELL_COSTS_BYTES + (len(one) if isinstance(one, str | bytes) else 0) for one in row)
        if left < 0 or len(rows) == MOST_ROWS:
            raise QueryError(f"wanted at most {MOST_ROWS:,} rows of {MOST_BYTES >> 20} MiB together, found more")
        rows.append(row)
    return rows


@lru_cache(maxsize=_KEPT)
def _set_up(setup: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"PRAGMA max_page_count = {MOST_BYTES // _PAGE_BYTES}")
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
        database.set_authorizer(_allow_setup)
        _bound(database)
        try:
            database.executescript(setup)
            database.commit()
            database.set_authorizer(None)
        except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
            most = f", wanted at most {MOST_BYTES >> 20} MiB" if str(error) == _FULL else ""
            raise QueryError(f"setup: {error}{most}"[:300]) from None
        return database.serialize()


def _allow_setup(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    is_denied = action in _MAY_NOT_SET_UP or (action == sqlite3.SQLITE_FUNCTION and second in _MAY_NOT_CALL)
    return sqlite3.SQLITE_DENY if is_denied else sqlite3.SQLITE_OK


def _allow_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    is_allowed = action in _MAY and not (action == sqlite3.SQLITE_FUNCTION and second in _MAY_NOT_CALL)
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


def _bound(database: sqlite3.Connection) -> None:
    left, until = MOST_STEPS // _STEPS_AT_ONCE, time.thread_time() + MOST_CPU_S

    def count() -> int:
        nonlocal left
        left -= 1
        return int(left < 0 or time.thread_time() > until)

    database.set_progress_handler(count, _STEPS_AT_ONCE)


def is_ordered(query: str) -> bool:
    """Whether a query asks for an order of its rows: ORDER BY outside of parentheses."""
    depth, quote, plain = 0, "", []
    for sign in query:
        if quote:
            quote = "" if sign == quote else quote
            continue
        if sign in "'\"`[":
            quote = "]" if sign == "[" else sign
        elif sign in "()":
            depth += 1 if sign == "(" else -1
        elif depth == 0:
            plain.append(sign)
            continue
        plain.append(" ")
    return "order by" in " ".join("".join(plain).lower().split())


def same_rows(rows: Sequence[Row], other: Sequence[Row], *, in_order: bool) -> bool:
    """Whether both are the same rows, each as often; numbers to nine digits, 2 as 2.0."""
    own, wanted = [tuple(map(_fold, row)) for row in rows], [tuple(map(_fold, row)) for row in other]
    return own == wanted if in_order else Counter(own) == Counter(wanted)


def _fold(cell: Any) -> tuple[str, Any]:
    if isinstance(cell, float):
        return ("number", str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else f"{cell:.9g}")
    if isinstance(cell, int):
        return ("number", str(int(cell)))
    return (type(cell).__name__, cell)
