"""The schema, a page to read it on, and the answer of paths that are none."""

import hashlib
from functools import lru_cache
from typing import Any, ClassVar

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.encoding import force_bytes
from django.views import View
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import (
    OpenApiJsonRenderer,
    OpenApiJsonRenderer2,
    OpenApiYamlRenderer,
    OpenApiYamlRenderer2,
)
from drf_spectacular.utils import extend_schema
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.permissions import PUBLIC
from apps.api.views.base import METHODS, ApiView

VERBS = ("get", "post", "patch", "delete")


@extend_schema(exclude=True)
class SchemaView(ApiView):
    """The OpenAPI schema, YAML, or JSON where that is accepted or `format=json` asks for it; made once a process."""

    rights: ClassVar = {"get": PUBLIC}
    renderer_classes = [OpenApiYamlRenderer, OpenApiJsonRenderer, OpenApiYamlRenderer2, OpenApiJsonRenderer2]
    content_negotiation_class = DefaultContentNegotiation  # type: ignore[assignment]

    def get(self, request: Request) -> HttpResponse:
        renderer = request.accepted_renderer
        content, etag = write_schema(renderer.format)
        headers = {"ETag": etag, "Content-Disposition": f'inline; filename="Tentalis REST API.{renderer.format}"'}
        return HttpResponse(content, content_type=renderer.media_type, headers=headers)


@lru_cache(maxsize=2)
def write_schema(format_name: str) -> tuple[bytes, str]:
    """(the schema as the renderer of that format writes it, its entity tag)."""
    renderer = next(one for one in SchemaView.renderer_classes if one.format == format_name)
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    content: bytes = force_bytes(renderer().render(schema, renderer_context={}))
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


class DocsView(View):
    """The schema as a page, rendered on the server: no script, no foreign styles."""

    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest) -> HttpResponse:
        return render(request, "api/docs.html", {"title": "Tentalis REST API", "groups": list_operations()})


@lru_cache(maxsize=1)
def list_operations() -> tuple[tuple[str, tuple[dict[str, Any], ...]], ...]:
    """(resource, operations) in the schema's order."""
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, item in schema["paths"].items():
        for verb in VERBS:
            if verb in item:
                operation = item[verb]
                group = (operation.get("tags") or ["other"])[0]
                groups.setdefault(group, []).append(_describe(path, verb, operation, schema))
    return tuple((name, tuple(operations)) for name, operations in groups.items())


def _describe(path: str, verb: str, operation: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    body: dict[str, Any] = next((media.get("schema", {}) for media in content.values()), {})
    return {
        "id": operation["operationId"],
        "verb": verb.upper(),
        "path": path,
        "description": operation.get("description", ""),
        "parameters": operation.get("parameters", []),
        "fields": _list_fields(body, schema),
        "responses": sorted(operation.get("responses", {}).items()),
    }


def _list_fields(body: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    name = body.get("$ref", "").rpartition("/")[2]
    component = schema["components"]["schemas"].get(name, body)
    required = set(component.get("required", ()))
    return [
        {"name": field, "required": field in required, "type": _name_type(value), "help": value.get("description", "")}
        for field, value in component.get("properties", {}).items()
    ]


def _name_type(value: dict[str, Any]) -> str:
    kind = value.get("type") or ("one of a list" if "oneOf" in value or "$ref" in value or "allOf" in value else "any")
    limits = [f"{word} {value[key]}" for key, word in LIMITS.items() if key in value]
    return ", ".join([" or ".join(kind) if isinstance(kind, list) else kind, *limits])


LIMITS = {"minimum": "from", "maximum": "to", "maxLength": "at most characters:", "maxItems": "at most items:"}


@extend_schema(exclude=True)
class UnknownPathView(ApiView):
    """Every path under /api/ that is none."""

    rights: ClassVar = dict.fromkeys(METHODS, PUBLIC)
    authentication_classes = []

    def refuse(self, request: Request) -> Response:
        raise Http404

    get = post = put = patch = delete = refuse
    head = refuse
