"""Hypothesis draws the same in every run of the tests, whichever modules were imported before.

Left to itself it draws constants of the source of every local module that is imported by then (since 6.131), which
depends on the tests that ran before in the same process.
"""

from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants


def settle() -> None:
    """Make it so for every test. How long an example takes says more about the machine than about the code."""
    providers._get_local_constants = Constants
    settings.register_profile("house", deadline=None, derandomize=True)
    settings.load_profile("house")
