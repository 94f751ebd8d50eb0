"""Empties the test database between tests, past the triggers that keep the audit from being emptied.

Django's own empties each of the tables, which took .25 s of CPU, and writes their content types and permissions again.
Most tests leave rows in a few: those are deleted. As there, all tables are locked first; who still writes is awaited.
"""

from typing import Any

from django.core.management.commands.flush import Command as FlushCommand
from django.db import connections, transaction

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


class Command(FlushCommand):
    def handle(self, **options: Any) -> None:
        using = options["database"]
        with transaction.atomic(using=using), connections[using].cursor() as cursor:
            cursor.execute(DELETE_ALL)
