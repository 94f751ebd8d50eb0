"""What the OpenAPI schema says of every operation beyond its own: errors and the Idempotency-Key."""

from collections.abc import Mapping, Sequence
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from apps.api.idempotency import HEADER, REPLAYED
from apps.api.permissions import PUBLIC, right_of
from apps.base.trouble import MEDIA_TYPE

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
WORDS = {
    400: "The input is not what was wanted; `errors` says where.",
    401: "No valid token or session.",
    403: "The token's scope or your role does not allow it.",
    404: "No such thing here, or none that you may see.",
    409: "The thing's present state does not allow it, or the first request with this key is still running.",
    412: "It was changed since you saw it.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "This Idempotency-Key was sent before with another request.",
    429: "Too many requests; `Retry-After` says how many seconds to wait.",
    503: "It cannot be answered now and nothing was changed; `Retry-After` says how many seconds to wait.",
}


WAITING = frozenset({"429", "503"})
RETRY_AFTER = {
    "description": "Seconds to wait before trying again.",
    "schema": {"type": "integer", "minimum": 0},
}


class ProblemSerializer(serializers.Serializer[Any]):
    """Problem details (RFC 9457)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.CharField(help_text="A stable word for programs.")
    request_id = serializers.CharField(help_text="Finds this request in the logs.")
    errors: Any = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()), required=False, help_text="Messages by field."
    )


class ApiSchema(AutoSchema):
    """Adds to each operation the problems it can answer with, and the header that makes sending twice safe."""

    def get_override_parameters(self) -> list[Any]:
        parameters = list(super().get_override_parameters())
        if self.method in CHANGING and self._right() != PUBLIC:
            parameters.append(
                OpenApiParameter(
                    HEADER,
                    str,
                    OpenApiParameter.HEADER,
                    required=False,
                    description="1 to 255 characters. The same request again within 72 h gets the same answer, with "
                    f"`{REPLAYED}: true`.",
                )
            )
        if self._is_conditional():
            words = "The `ETag` of what you saw: it is changed only while it is still that, else 412."
            parameters.append(OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description=words))
        return parameters

    def get_description(self) -> str:  # type: ignore[override]
        right = self._right()
        words = super().get_description() or ""
        return f"{words}\n\nScope: `{right}`." if right and ":" in str(right) else words

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for status in self._problems():
            if str(status) not in bodies:
                response = OpenApiResponse(ProblemSerializer, WORDS[status])
                bodies[str(status)] = self._get_response_for_code(response, str(status), [MEDIA_TYPE], direction)  # type: ignore[no-untyped-call]
        for waiting in WAITING & set(bodies):
            bodies[waiting].setdefault("headers", {})["Retry-After"] = RETRY_AFTER
        return bodies

    def _problems(self) -> list[int]:
        statuses = [400, 429, 503]
        if self._right() != PUBLIC:
            statuses += [401, 403]
        if "{" in self.path or self.method == "POST" or self.method == "GET":
            statuses.append(404)
        if self.method in CHANGING:
            statuses += [409, 413, 415, 422]
        if self._is_conditional():
            statuses.append(412)
        extra: Mapping[str, Sequence[int]] = getattr(self.view, "extra_problems", {})
        statuses += [one for one in extra.get(self._action(), ()) if one not in statuses]
        return sorted(statuses)

    def _is_conditional(self) -> bool:
        return self.method == "PATCH" and getattr(self.view, "action", "") == "partial_update"

    def _action(self) -> str:
        return str(getattr(self.view, "action", None) or self.method.lower())

    def _right(self) -> Any:
        return right_of(self.view, self.method)


def allow_anything(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """ "Anything, or null" is anything: said as a choice, null would be two of its kinds and match neither rule."""
    _simplify(result["components"])
    return result


def _simplify(value: Any) -> None:
    if isinstance(value, dict):
        if {} in value.get("oneOf", ()):
            del value["oneOf"]
        for inner in value.values():
            _simplify(inner)
    elif isinstance(value, list):
        for inner in value:
            _simplify(inner)
