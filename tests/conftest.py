"""Personas and rows that most tests start from; and what is said when a browser is missing."""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.contrib.auth.signals import user_logged_in
from django.db import connection
from django.db.backends.base.creation import TEST_DATABASE_PREFIX
from django.dispatch import receiver
from django.http import HttpRequest

from apps.accounts.browser_sessions import note_confirmed
from apps.accounts.models import Project, User
from apps.audit.last_report import LAST_REPORT
from apps.base.schema_file import load_schema
from apps.workers.models import Worker
from tentalis.garbage import settle_garbage
from tentalis.platform.chromium import find_chromium
from tests.embedded_servers import STARTED_BY
from tests.engine_process import run_engine
from tests.factories import make_project, make_user, make_worker
from tests.steady_draws import settle
from tests.support.clusters import make_database
from tests.support.management.commands.flush import close_kept

settle()


@receiver(user_logged_in)
def forced_sign_ins_are_fresh(request: HttpRequest, **said: Any) -> None:
    """As a real one is: `Client.force_login` comes with a request that has nothing of a browser."""
    if "REQUEST_METHOD" not in request.META:
        note_confirmed(request)


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """The servers are thrown away with all that is in them: dropping the database first would only wait for threads."""
    return STARTED_BY in os.environ


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """The database begins as a user's does."""
    if STARTED_BY in os.environ:
        named = connection.settings_dict
        name = named["TEST"]["NAME"] or TEST_DATABASE_PREFIX + named["NAME"]
        with psycopg.connect(make_database(os.environ["TENTALIS_DATABASE_URL"], name)) as empty:
            load_schema(empty.cursor())


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    yield
    close_kept()


@pytest.fixture(scope="session")
def desk_engine() -> Iterator[str]:
    """Address of an engine that serves the desk's model to all tests of this process: to start one takes 2 s of CPU.

    Adapters that a test loads stay, by names that no other test's have.
    """
    with run_engine() as address:
        yield address


@pytest.fixture
def project(db: None) -> Project:
    return make_project()


@pytest.fixture
def alice(project: Project) -> User:
    """Manages the project."""
    return make_user("alice")


@pytest.fixture
def bob(project: Project) -> User:
    """Reviews in the project."""
    return make_user("bob")


@pytest.fixture
def charlie(db: None) -> User:
    """Has nothing to do with the project."""
    return make_user("charlie")


@pytest.fixture
def worker(project: Project) -> Worker:
    """An echo worker."""
    return make_worker(project)


@pytest.fixture(autouse=True)
def _fresh_report() -> None:
    """What an earlier test found of the audit's chain says nothing of this one's."""
    LAST_REPORT.forget()


def pytest_collection_finish() -> None:
    """What was loaded for all tests stays: searches for garbage leave it out, a fifth of a request's cost."""
    settle_garbage()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    put_long_files_first(items)
    skip_without_browser(items)


def put_long_files_first(items: list[pytest.Item]) -> None:
    """Those with a slow test, then those with many: a parallel run deals files out, and ends when the last one does."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    tests = Counter(item.path for item in items)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, -tests[item.path]))


def skip_without_browser(items: list[pytest.Item]) -> None:
    """Without Chromium the browser's tests are reported as skipped; in CI they fail instead."""
    if find_chromium() or os.environ.get("CI"):
        return
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason="no Chromium here; Debian and Ubuntu: apt install chromium"))
