"""What every test of the console starts from."""

import pytest

from apps.base.counting import forget_callers


@pytest.fixture(autouse=True)
def fresh_counts() -> None:
    """Passwords tried by another test do not count."""
    forget_callers()
