"""The root of everything Tentalis raises on purpose."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

logger = logging.getLogger(__name__)


class TentalisError(Exception):
    """Something a caller can act on.

    Attributes:
        status: HTTP status at the edges.
        code: stable snake_case word for programs.
        errors: field -> what is wrong with it, where fields are at fault.
        is_final: trying again cannot help, so a job that meets it is not retried.
        is_away: nothing is wrong but that somebody who is needed is not there, or has no time.
        wait_s: nothing was tried, and nothing is to be for so many seconds; None: it was tried.
        has_a_turn: that is because it is others' turn, so it is waited for, however long it takes.
        retry_after_s: who is needed asked to be left alone for so many seconds; None: nobody said.
        members: what else the problem says at the REST edge, as JSON.
    """

    status = 500
    code = "internal"
    is_final = False
    is_away = False
    has_a_turn = False
    retry_after_s: float | None = None

    def __init__(self, message: str, *, errors: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(message)
        self.errors = dict(errors or {})
        self.members: Mapping[str, object] = {}
        self.wait_s: float | None = None

    @classmethod
    def at(cls, field: str, message: str) -> Self:
        """With one field at fault, whose name comes first in the words."""
        return cls.at_each({field: [message]})

    @classmethod
    def at_each(cls, errors: Mapping[str, Sequence[str]]) -> Self:
        """With these fields at fault."""
        return cls(say_faults(errors), errors=errors)


def say_faults(errors: Mapping[str, Sequence[str]]) -> str:
    """The first fault of each field, behind its name where the words do not begin with that, or with a part of it."""
    return "; ".join(
        words[0] if words[0].startswith((f"{name}:", f"{name}.", f"{name}[")) else f"{name}: {words[0]}"
        for name, words in errors.items()
    )


class BadInputError(TentalisError):
    """What came in is not what was wanted; the message says both."""

    status = 400
    code = "bad_input"
    is_final = True


class NotSignedInError(TentalisError):
    """Nobody we know: no credentials, or none that hold."""

    status = 401
    code = "not_signed_in"
    is_final = True


class NotAllowedError(TentalisError):
    """The caller is known and may not do this."""

    status = 403
    code = "not_allowed"
    is_final = True


class NotFoundError(TentalisError):
    """No such thing, or none the caller may know of."""

    status = 404
    code = "not_found"
    is_final = True


class ConflictError(TentalisError):
    """The thing's present state does not allow it."""

    status = 409
    code = "conflict"
    is_final = True


class IllegalMoveError(ConflictError):
    """A state change that the row's state does not allow, or that someone else made first."""

    code = "illegal_move"


@contextmanager
def log_and_continue(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Log `what` with the reason, and go on, where one of these is raised: one of many may fail without the rest. Of an
    error that nobody foresaw it is logged too where it was raised."""
    try:
        yield
    except errors as error:
        logger.warning("%s: %s", what, error, exc_info=not isinstance(error, TentalisError | OSError))
