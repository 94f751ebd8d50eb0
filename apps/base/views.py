"""Health: alive and ready."""

from collections.abc import Callable

import redis
from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import Error as DatabaseError
from django.http import HttpRequest, JsonResponse

REMARKS: list[Callable[[], list[str]]] = []
"""What higher floors have to say of readiness, in words."""

_is_migrated = False


def show_alive(request: HttpRequest) -> JsonResponse:
    """The process answers."""
    return JsonResponse({"status": "alive"})


def show_ready(request: HttpRequest) -> JsonResponse:
    """200 when database, migrations and broker are as they should be, else 503 with the reasons.

    What is wrong and keeps nobody from being served here, such as a model server that is away, makes it `degraded`.
    """
    reasons = [reason for reason in (find_database_fault(), find_broker_fault()) if reason]
    remarks = [] if reasons else [words for find in REMARKS for words in find()]
    status = "not ready" if reasons else "degraded" if remarks else "ready"
    return JsonResponse({"status": status, "reasons": reasons or remarks}, status=503 if reasons else 200)


def find_database_fault() -> str:
    """Why the database cannot be used; "" when it can."""
    try:
        missing = count_missing_migrations()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return f"database: {type(error).__name__}"
    return f"database: {missing} migrations are not applied" if missing else ""


def count_missing_migrations() -> int:
    """Looked for until none is missing; a process does not lose what was applied, and its code stays what it is."""
    global _is_migrated
    if _is_migrated:
        return 0
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    _is_migrated = not missing
    return len(missing)


def find_broker_fault() -> str:
    """Why the broker cannot be used; "" when it can."""
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2) as client:
            client.ping()
    except redis.RedisError as error:
        return f"broker: {type(error).__name__}"
    return ""
