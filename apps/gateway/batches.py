"""Batches of captured exchanges, written in one transaction with the place of the spool they came from."""

import json
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import psycopg
from psycopg import sql
from psycopg.types.string import BytesBinaryDumper

from apps.base.errors import ConflictError
from apps.conversations.forgotten import FIND_FORGOTTEN, SLACK_S, ErasedPerson, read_forgotten
from apps.gateway.capture import Captured
from apps.gateway.conversation_delta import SessionDeltas
from apps.gateway.guessing import find_guessed
from apps.gateway.rows import AGENT_CHARS, COPY, SESSION_KEY_CHARS, TYPES, fit, make_row, read_end, see_session
from apps.gateway.spool import Position
from apps.inference.selectors import LATEST_LINKS
from tentalis.core.conversation_delta import Link

CONNECT_TIMEOUT_S = 5
_OPEN_POSITION = (
    'INSERT INTO inference_spoolposition (name, segment, "offset") VALUES (%s, 0, 0) ON CONFLICT DO NOTHING'
)
_READ_POSITION = 'SELECT segment, "offset" FROM inference_spoolposition WHERE name = %s'
# the statement sees what was committed before it had its lock, and whoever forgets somebody holds that off until then
_MOVE = f"""
    UPDATE inference_spoolposition SET segment = %s, "offset" = %s WHERE name = %s AND segment = %s AND "offset" = %s
    RETURNING EXISTS ({FIND_FORGOTTEN})
"""  # noqa: S608
_DROP_POSITION = "DELETE FROM inference_spoolposition WHERE name = %s"
# sessions of projects that are gone are left out; a session that speaks again is open again
_SEE_SESSIONS = """
    INSERT INTO inference_session AS known
        (project_id, key, worker_name, agent, end_user, created_at, last_seen_at, closed_at, is_named, thread)
    SELECT seen.project_id, key, worker_name, agent, end_user, began_at, seen_at, closed_at, is_named, thread
    FROM unnest(
        %s::int8[], %s::text[], %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::timestamptz[],
        %s::timestamptz[], %s::bool[], %s::text[]
    ) AS seen (project_id, key, worker_name, agent, end_user, began_at, seen_at, closed_at, is_named, thread)
    JOIN accounts_project AS project ON project.id = seen.project_id
    ON CONFLICT (project_id, key, agent) DO UPDATE SET
        last_seen_at = greatest(known.last_seen_at + interval '1 microsecond', excluded.last_seen_at),
        closed_at = excluded.closed_at,
        thread = CASE excluded.thread WHEN '' THEN known.thread ELSE excluded.thread END,
        worker_name = CASE known.worker_name WHEN '' THEN excluded.worker_name ELSE known.worker_name END,
        end_user = CASE known.end_user WHEN '' THEN excluded.end_user ELSE known.end_user END
    RETURNING project_id, key, agent, id, xmax = 0
"""
_FIND_THREADS = "SELECT thread, key FROM inference_session WHERE thread = ANY(%s) ORDER BY id"
_NEXT_IDS = "SELECT nextval(pg_get_serial_sequence('inference_exchange', 'id')) FROM generate_series(1, %s)"
_KNOWN_PROVIDERS = "SELECT id FROM inference_provider WHERE id = ANY(%s)"

SessionKey = tuple[int, str, str]
"""Project, key and agent: another agent's session of the same key is another session."""


class MovedError(ConflictError):
    """Another process carried over what this one was about to."""


class Move(NamedTuple):
    """How much further a spool is stored."""

    spool: str
    start: Position
    end: Position


class _KnownSession(NamedTuple):
    id: int
    is_new: bool


class Store:
    """One connection, and what is remembered between batches. Any psycopg.Error may be raised by each of its methods;
    after one, `forget` starts anew."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection[Any] | None = None
        self._deltas = SessionDeltas()
        self._providers: set[int] = set()

    def read_position(self, name: str) -> Position:
        """How far the spool of this name is stored."""
        with self._connect().transaction(), self._connect().cursor() as cursor:
            cursor.execute(_OPEN_POSITION, [name])
            found = cursor.execute(_READ_POSITION, [name]).fetchone()
        return Position(*found) if found else Position()

    def drop_position(self, name: str) -> None:
        """Of a spool that nobody will find again."""
        with self._connect().transaction():
            self._connect().execute(_DROP_POSITION, [name])

    def write(self, captured: Sequence[Captured], moves: Iterable[Move]) -> int:
        """Write a batch and move the places of its spools; how many rows were written.

        Exchanges of projects that are gone are left out: they would have gone with them.

        Raises:
            MovedError: a place was not where it was to start from; nothing is written.
        """
        with self._connect().transaction(), self._connect().cursor() as cursor:
            oldest = min((one.header["at"] for one in captured), default=inf) - SLACK_S
            has_forgotten = False
            for spool, start, end in moves:
                moved = cursor.execute(_MOVE, [*end, spool, *start, oldest, 0]).fetchone()
                if moved is None:
                    raise MovedError(f"the spool {spool} is stored to another place than {start}")
                has_forgotten = moved[0]  # what the last one sees is the most
            if has_forgotten:
                forgotten = read_forgotten(cursor.execute(FIND_FORGOTTEN, [oldest, 0]).fetchall())
                captured = [one for one in captured if not _is_forgotten(one, forgotten)]
            if captured:
                captured, threads = find_guessed(
                    captured, lambda named: cursor.execute(_FIND_THREADS, [named]).fetchall()
                )
                sessions = self._see_sessions(cursor, captured, threads)
                captured = [one for one in captured if _key(one) in sessions]
                self._load_deltas(cursor, sessions.values())
                self._copy(cursor, captured, sessions)
        self._deltas.shrink()
        return len(captured)

    def forget(self) -> None:
        """Drop the connection and everything that is remembered: the database may know better."""
        self._deltas.clear()
        self._providers.clear()
        self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = psycopg.connect(
                self._conninfo, connect_timeout=CONNECT_TIMEOUT_S, autocommit=True, application_name="tentalis-spool"
            )
            self._connection.adapters.register_dumper(bytes, BytesBinaryDumper)  # in C
        return self._connection

    def read_forgotten(self, *, since: float = 0.0, after: int = 0) -> list[ErasedPerson]:
        """Who was forgotten since then, in seconds since the epoch, and behind that id."""
        return read_forgotten(self._connect().execute(FIND_FORGOTTEN, [since, after]).fetchall())

    def _see_sessions(
        self, cursor: psycopg.Cursor[Any], captured: Sequence[Captured], threads: Mapping[SessionKey, str]
    ) -> dict[SessionKey, _KnownSession]:
        """Make and renew the batch's sessions, in one order for all processes, so that none waits for the other."""
        began: dict[SessionKey, float] = {}
        latest: dict[SessionKey, tuple[float, Captured]] = {}
        for one in captured:
            key, end_s = _key(one), read_end(one.header)
            began.setdefault(key, one.header["at"])
            if key not in latest or (latest[key][0] <= end_s and not one.choice):
                latest[key] = end_s, one
        seen = [see_session(latest[key][1], threads.get(key, ""), began_s=began[key]) for key in sorted(latest)]
        columns = zip(*seen, strict=True)
        cursor.execute(_SEE_SESSIONS, [list(column) for column in columns])
        return {(project, key, agent): _KnownSession(pk, is_new) for project, key, agent, pk, is_new in cursor}

    def _load_deltas(self, cursor: psycopg.Cursor[Any], sessions: Any) -> None:
        unknown: dict[int, list[Link]] = {one.id: [] for one in sessions if one.id not in self._deltas}
        stored = [one.id for one in sessions if one.id in unknown and not one.is_new]
        if stored:
            for session_id, *link in cursor.execute(LATEST_LINKS, [stored]):
                unknown[session_id].append(Link(*link))
        for session_id, links in unknown.items():
            self._deltas.load(session_id, links)

    def _copy(
        self, cursor: psycopg.Cursor[Any], captured: Sequence[Captured], sessions: dict[SessionKey, _KnownSession]
    ) -> None:
        providers = self._find_providers(cursor, captured)
        ids = [pk for (pk,) in cursor.execute(_NEXT_IDS, [len(captured)])]
        with cursor.copy(sql.SQL(COPY)) as copy:
            copy.set_types(TYPES)
            for pk, one in zip(ids, captured, strict=True):
                session_id = sessions[_key(one)].id
                placed = self._deltas.place(session_id, one, pk)
                provider = one.header["provider"]
                provider_id = provider if provider in providers else None
                copy.write_row(make_row(one, placed, pk=pk, session_id=session_id, provider_id=provider_id))

    def _find_providers(self, cursor: psycopg.Cursor[Any], captured: Sequence[Captured]) -> set[int]:
        """Those of the batch that still exist."""
        wanted = {one.header["provider"] for one in captured if one.header["provider"] is not None}
        if unknown := wanted - self._providers:
            self._providers.update(pk for (pk,) in cursor.execute(_KNOWN_PROVIDERS, [list(unknown)]))
        return self._providers


def _is_forgotten(captured: Captured, forgotten: Sequence[ErasedPerson]) -> bool:
    header = captured.header

    def tell() -> str:
        said = [captured.messages, captured.request, captured.text, captured.reasoning, list(captured.tool_calls)]
        named = [header["session"], header["end_user"], captured.error]
        return json.dumps([said, named], ensure_ascii=False)

    project, at, session, end_user = header["project"], header["at"], header["session"], header["end_user"]
    return any(
        one.covers(project=project, at=at, session=session, agent=header["agent"], end_user=end_user, tell=tell)
        for one in forgotten
    )


def _key(captured: Captured) -> SessionKey:
    header = captured.header
    return header["project"], fit(header["session"], SESSION_KEY_CHARS), fit(header["agent"], AGENT_CHARS)
