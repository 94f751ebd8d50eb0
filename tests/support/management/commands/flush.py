"""Empties the test database between tests, past the triggers that keep the audit from being emptied.

Django's own empties each of the tables, which took .25 s of CPU, and writes their content types and permissions again.
Most tests leave rows in a few: those are deleted. As there, all tables are locked first; who still writes is awaited.
"""

from typing import Any

from django.core.management.commands.flush import Command as FlushCommand
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

DELETE_ALL = """
DO $$
DECLARE
    every text[] := ARRAY(
        SELECT format('%I', tablename) FROM pg_tables WHERE schemaname = 'public'
        AND tablename NOT IN ('django_migrations', 'django_content_type', 'auth_permission') ORDER BY 1
    );
    each text;
    has_rows boolean;
BEGIN
    SET LOCAL session_replication_role = replica;
    EXECUTE 'LOCK TABLE ' || array_to_string(every, ', ') || ' IN ACCESS EXCLUSIVE MODE';
    FOREACH each IN ARRAY every LOOP
        EXECUTE 'SELECT EXISTS (SELECT FROM ' || each || ')' INTO has_rows;
        IF has_rows THEN
            EXECUTE 'DELETE FROM ' || each;
        END IF;
    END LOOP;
END $$
"""

_kept: dict[str, BaseDatabaseWrapper] = {}
"""Alias -> the connection that empties it. A new one looks all tables up first: most of what emptying cost."""


class Command(FlushCommand):
    def handle(self, **options: Any) -> None:
        using = options["database"]
        if using not in _kept:
            _kept[using] = connections[using].copy()
            _kept[using].inc_thread_sharing()
        kept = _kept[using]
        if kept.connection is not None and not kept.is_usable():
            kept.close()
        with kept.cursor() as cursor:
            cursor.execute(DELETE_ALL)


def close_kept() -> None:
    """Before the database itself is dropped, where it is."""
    while _kept:
        _kept.popitem()[1].close()
