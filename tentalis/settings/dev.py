"""A person's own machine: what `tentalis up` and `make demo` run."""

from tentalis.settings.base import *  # noqa: F403
from tentalis.settings.base import SECRET_KEY as GIVEN_KEY

SECRET_KEY = GIVEN_KEY or "only-for-management-commands-without-a-home"
