"""One of many may fail without keeping the rest from their turn."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def survive(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Log `what` with the reason, and go on, where one of these is raised."""
    try:
        yield
    except errors as error:
        logger.warning("%s: %s", what, error)
