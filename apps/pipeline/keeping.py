"""What an installation that was brought back says of itself."""

from collections.abc import Mapping
from typing import Any

from django.db import connection
from psycopg import sql

from apps.adapters.artifacts import path_of, read_manifest
from apps.adapters.errors import AdapterBrokenError
from apps.adapters.models import Adapter
from apps.audit.chain import seal_entries, verify_chain
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.sealing import read_ring
from apps.inference.rotation import find_keys_in_use

SEQUENCES = """
SELECT t.relname, a.attname, s.relname
FROM pg_class s
JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.deptype IN ('a', 'i')
JOIN pg_class t ON t.oid = d.refobjid
JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
WHERE s.relkind = 'S' AND s.relnamespace = 'public'::regnamespace
"""


def check_restored(*, told: Mapping[str, Any]) -> dict[str, Any]:
    """Write that it was restored, seal that, and check the chain, the numbers to come and the adapters' files.

    Returns:
        JSON; `shut`: ids of keys that sealed some secret and are not in the ring.
    """
    record(Kind.BACKUP_RESTORED, by="command", payload=told)
    while seal_entries():
        pass
    report = verify_chain()
    faults = [f"audit: {fault}" for fault in report.faults]
    if report.unsealed:
        faults.append(f"audit: {report.unsealed} entries got no place in the chain")
    sequences, behind = _find_sequences_behind()
    adapters, broken = _check_adapters()
    return {
        "faults": [*faults, *behind, *broken],
        "audit": {"sealed": report.sealed, "head": report.head},
        "sequences": sequences,
        "adapters": adapters,
        "shut": sorted(find_keys_in_use() - set(read_ring().keys)),
    }


def _find_sequences_behind() -> tuple[int, list[str]]:
    """Numbers that would be given a second time."""
    faults = []
    with connection.cursor() as cursor:
        cursor.execute(SEQUENCES)
        rows = cursor.fetchall()
        for table, column, sequence in rows:
            statement = sql.SQL(
                "SELECT (SELECT coalesce(max({column}), 0) FROM {table}), "
                "(SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM {sequence})"
            ).format(column=sql.Identifier(column), table=sql.Identifier(table), sequence=sql.Identifier(sequence))
            cursor.execute(statement)
            most, given = cursor.fetchone()
            if given < most:
                faults.append(f"{table}: the next number would be {given + 1}, but {most} is given")
    return len(rows), faults


def _check_adapters() -> tuple[int, list[str]]:
    """Every adapter that serves, served or may; the files of a refused one may be gone."""
    faults, checked = [], 0
    for adapter in Adapter.objects.exclude(state=Adapter.State.REFUSED).order_by("pk").iterator(chunk_size=200):
        if not adapter.uri.startswith("file:"):
            continue
        checked += 1
        try:
            read_manifest(path_of(adapter.uri), sha256=adapter.sha256)
        except AdapterBrokenError as error:
            faults.append(f"adapter {adapter.name}: {error}")
    return checked, faults
