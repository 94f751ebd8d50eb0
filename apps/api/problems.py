"""Every error as problem details (RFC 9457)."""

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.exceptions import ValidationError as ModelValidationError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from apps.api.authentication import CHALLENGE
from apps.base import trouble
from apps.base.errors import TentalisError
from apps.base.trouble import is_database_trouble

NOT_FOUND = "No such thing here, or none that you may see."
CODES: dict[type[exceptions.APIException], str] = {
    exceptions.ValidationError: "bad_input",
    exceptions.ParseError: "unreadable_body",
    exceptions.NotAuthenticated: "not_signed_in",
    exceptions.AuthenticationFailed: "not_signed_in",
    exceptions.PermissionDenied: "not_allowed",
    exceptions.NotFound: "not_found",
    exceptions.MethodNotAllowed: "method_not_allowed",
    exceptions.NotAcceptable: "not_acceptable",
    exceptions.UnsupportedMediaType: "unsupported_media_type",
    exceptions.Throttled: "too_many_requests",
}
logger = logging.getLogger(__name__)


class BodyTooLargeError(TentalisError):
    """The body is larger than we read."""

    status = 413
    code = "body_too_large"
    is_final = True


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response:
    """Turn anything a view raised into its problem; what nobody expected is logged whole and told as a 500."""
    request = context.get("request")
    status, code, detail, errors, headers = describe(error)
    if is_database_trouble(error):
        logger.warning("request %s: the database cannot answer", getattr(request, "request_id", "?"), exc_info=error)
    elif status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, TentalisError):
        logger.error("request %s failed", getattr(request, "request_id", "?"), exc_info=error)
    response = make_problem(request, status=status, code=code, detail=detail, errors=errors, headers=headers)
    if isinstance(error, TentalisError):
        response.data = {**response.data, **error.members}
    return response


def make_problem(
    request: Any,
    *,
    status: int,
    code: str,
    detail: str,
    errors: Mapping[str, list[str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    body = trouble.describe_problem(request, status=status, code=code, detail=detail)
    if errors:
        body["errors"] = dict(errors)
    response = Response(body, status=status, headers=dict(headers or {}), content_type=trouble.MEDIA_TYPE)
    response.exception = True
    return response


def describe(error: Exception) -> tuple[int, str, str, dict[str, list[str]], dict[str, str]]:
    """(status, code, detail, errors by field, headers) of an exception."""
    headers: dict[str, str] = {}
    if isinstance(error, TentalisError):
        errors = {name: [str(message) for message in messages] for name, messages in error.errors.items()}
        if error.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = CHALLENGE
        retry_after = getattr(error, "retry_after_s", None)
        if retry_after or error.status == trouble.STATUS:
            headers["Retry-After"] = str(math.ceil(retry_after or trouble.RETRY_AFTER_S))
        return error.status, error.code, str(error), errors, headers
    if is_database_trouble(error):
        return trouble.STATUS, trouble.CODE, trouble.DETAIL, {}, {"Retry-After": str(trouble.RETRY_AFTER_S)}
    if trouble.holds_nul(error):
        return 400, trouble.NUL_CODE, trouble.NUL_DETAIL, {}, headers
    if isinstance(error, Http404):
        return 404, "not_found", NOT_FOUND, {}, headers
    if isinstance(error, PermissionDenied):
        return 403, "not_allowed", "You may not do this.", {}, headers
    if isinstance(error, ModelValidationError):
        error = exceptions.ValidationError(error.message_dict if hasattr(error, "error_dict") else {"": error.messages})
    if not isinstance(error, exceptions.APIException):
        return 500, trouble.FAULT_CODE, trouble.FAULT_DETAIL, {}, headers
    code = next((name for kind, name in CODES.items() if isinstance(error, kind)), "refused")
    if isinstance(error, exceptions.ValidationError):
        errors = flatten(error.detail)
        summary = "; ".join(f"{field or 'body'}: {' '.join(messages)}" for field, messages in errors.items())
        return error.status_code, code, summary, errors, headers
    if isinstance(error, exceptions.Throttled):
        headers["Retry-After"] = str(int(getattr(error, "wait", None) or 0) + 1)
    if error.status_code == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = CHALLENGE
    detail = NOT_FOUND if isinstance(error, exceptions.NotFound) else str(error.detail)
    return error.status_code, code, detail, {}, headers


def flatten(detail: Any, path: str = "") -> dict[str, list[str]]:
    """Nested messages by dotted field: {"steps.2.score": ["…"]}; what is about the whole is under its parent's name."""
    if isinstance(detail, Mapping):
        found: dict[str, list[str]] = {}
        for name, inner in detail.items():
            own = "" if name == "non_field_errors" else str(name)
            found |= flatten(inner, ".".join(filter(None, (path, own))))
        return found
    if isinstance(detail, list) and any(isinstance(item, Mapping | list) for item in detail):
        found = {}
        for index, inner in enumerate(detail):
            found |= flatten(inner, f"{path}.{index}" if path else str(index))
        return found
    messages = detail if isinstance(detail, list) else [detail]
    return {path: [str(message) for message in messages]} if messages else {}
