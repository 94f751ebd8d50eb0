"""What can go wrong between a client and the platform, made from its problem details."""

import json
from collections.abc import Mapping
from typing import Any

MAX_SHOWN_CHARS = 300


class ClientError(Exception):
    """Root of this package's errors."""


class UnreachableError(ClientError):
    """The platform cannot be reached at its address, or broke off; every retry is used up."""


class ApiError(ClientError):
    """The platform refused.

    Attributes:
        status: HTTP status.
        code: stable word for programs.
        errors: field -> messages.
        request_id: finds the request in the platform's logs.
    """

    def __init__(
        self, message: str, *, status: int, code: str, errors: Mapping[str, list[str]], request_id: str
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.errors = dict(errors)
        self.request_id = request_id


class BadRequestError(ApiError):
    """The input is not what was wanted (400, 413, 415, 422)."""


class NotSignedInError(ApiError):
    """No valid token (401)."""


class NotAllowedError(ApiError):
    """The token's scope or the role does not allow it (403)."""


class NotFoundError(ApiError):
    """No such thing, or none that may be seen (404)."""


class ConflictError(ApiError):
    """The thing's present state does not allow it (409)."""


class TooManyRequestsError(ApiError):
    """Asked too often, also after waiting (429)."""


class ServerFaultError(ApiError):
    """Something broke on the platform's side (5xx)."""


BY_STATUS: dict[int, type[ApiError]] = {
    401: NotSignedInError,
    403: NotAllowedError,
    404: NotFoundError,
    409: ConflictError,
    429: TooManyRequestsError,
}


def make_error(status: int, content: bytes, reason: str) -> ApiError:
    """The error for an answer of 400 or more. Anything but problem details is shown as it came, shortened."""
    problem = read_problem(content)
    kind = BY_STATUS.get(status, ServerFaultError if status >= 500 else BadRequestError)
    text = " ".join(content.decode("utf-8", "replace").split())[:MAX_SHOWN_CHARS]
    return kind(
        str(problem.get("detail") or f"{status} {reason}: {text or 'no words'}"),
        status=status,
        code=str(problem.get("code", "")),
        errors=problem.get("errors", {}),
        request_id=str(problem.get("request_id", "")),
    )


def read_problem(content: bytes) -> dict[str, Any]:
    """Problem details as the platform writes them; {} for anything else."""
    try:
        problem = json.loads(content)
    except ValueError:
        return {}
    is_ours = isinstance(problem, dict) and "code" in problem and isinstance(problem.get("errors", {}), dict)
    return problem if is_ours else {}
