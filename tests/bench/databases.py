"""A database for a bench that runs in its own process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_database() -> Iterator[None]:
    """Django, set up on a database that goes with the block; the tests' own servers, unless the environment names some.

    Nothing of ours that reads Django's settings may be loaded before.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tentalis.settings.test")
    import django

    import tests.embedded_servers  # noqa: F401 - starts them before Django reads where they are

    django.setup()
    from django.conf import settings
    from django.test.utils import get_runner

    runner = get_runner(settings)(verbosity=0, interactive=False)
    databases = runner.setup_databases()
    try:
        yield
    finally:
        runner.teardown_databases(databases)
