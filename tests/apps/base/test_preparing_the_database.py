"""`manage.py prepare_database`: what it says where another installation has to do with it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command

from tentalis.platform.database_roles import url_of
from tests.pipeline.line import wait_until
from tests.support.clusters import own_address

pytestmark = pytest.mark.django_db

WAITS = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%race_owner%'"


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
