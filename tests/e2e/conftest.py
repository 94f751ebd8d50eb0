"""One browser a module (other tests must not find its event loop in their thread), one web a test."""

import os
from collections.abc import Iterator

import pytest
from django.db import connections
from playwright.sync_api import Browser, Page

from tests.e2e.browser import Watch, open_chromium, open_context
from tests.e2e.server import serve


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_chromium() as opened:
        yield opened


@pytest.fixture
def opened(browser: Browser) -> Iterator[tuple[Page, Watch]]:
    context, watch = open_context(browser)
    yield context.new_page(), watch
    context.close()


@pytest.fixture(autouse=True)
def no_refusals() -> Iterator[None]:
    """Fails whatever test made a page that its own policy refuses, whether or not the test looked."""
    Watch.opened.clear()
    yield
    assert Watch.take_refusals() == []


@pytest.fixture
def database_beside_a_loop(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Playwright's synchronous interface keeps an event loop in this thread, where Django refuses the database.

    Beside a loop Django also keeps connections of their own, which nobody finds any more when the loop is gone: they
    are closed while it runs, after the database was emptied with one.
    """
    monkeypatch.setitem(os.environ, "DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    yield
    connections.close_all()


@pytest.fixture
def address(database_beside_a_loop: None, transactional_db: None) -> Iterator[str]:
    with serve() as served:
        yield served
