"""`manage.py prepare_database`: two of them at once, and what it says where another installation has to do with it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tentalis.platform.database_roles import url_of
from tests.pipeline.line import wait_until
from tests.support.clusters import own_address

pytestmark = pytest.mark.django_db

WAITS = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%race_owner%'"
WAITS_TO_PREPARE = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND query LIKE '%(7160003)%'"


def prepare_as(settings: Any, admin_url: str) -> None:
    settings.DATABASE_URL = url_of("race_app", "x", own_address())
    owner_url = url_of("race_owner", "x", own_address())
    told = {"ADMIN_DATABASE_URL": admin_url, "MIGRATION_DATABASE_URL": owner_url}
    settings.TENTALIS = settings.TENTALIS | told
    call_command("prepare_database")


def test_a_postgres_that_knows_another_password_is_said_to_be_maybe_anothers(settings: Any) -> None:
    admin = urlsplit(own_address()).username or ""
    with pytest.raises(CommandError, match="A Postgres answers there that does not know this password: another inst"):
        prepare_as(settings, url_of(admin, "of-another-home", own_address()))


def test_of_two_that_make_the_same_roles_at_once_the_second_says_so(settings: Any) -> None:
    with psycopg.connect(own_address()) as other, ThreadPoolExecutor(1) as pool:
        other.execute("CREATE ROLE race_owner")
        second = pool.submit(prepare_as, settings, own_address())
        with psycopg.connect(own_address(), autocommit=True) as looking:
            wait_until(lambda: looking.execute(WAITS).fetchone(), "the second waits for the first")
        other.commit()
        error = second.exception()
        other.execute("DROP ROLE race_owner")
    assert isinstance(error, CommandError)
    assert "Another installation makes roles of these names (race_owner, …) in the same Postgres just now" in str(error)


def test_of_two_starts_the_second_waits_and_finds_nothing_to_do(settings: Any, capsys: Any) -> None:
    settings.DATABASE_URL = own_address()

    def prepare() -> None:
        call_command("prepare_database")
        connection.close()

    with psycopg.connect(own_address()) as first, ThreadPoolExecutor(1) as pool:
        first.execute("SELECT pg_advisory_xact_lock(7160003)")
        second = pool.submit(prepare)
        with psycopg.connect(own_address(), autocommit=True) as looking:
            wait_until(lambda: looking.execute(WAITS_TO_PREPARE).fetchone(), "the second waits for the first")
        first.commit()
        second.result(120)
    assert "No migrations to apply." in capsys.readouterr().out
