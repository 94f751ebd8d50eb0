"""The matrix in docs/rest.md is the code's, and the code's is the one that is tried."""

import re
from pathlib import Path
from typing import Any

from django.urls import path

from apps.accounts.rights import Right
from apps.api import matrix
from apps.api.matrix import RULES, RestRoute, find_unsaid, list_routes, put_into, write_matrix
from apps.api.views.base import ApiView
from tests.edges.routes import TABLE

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "rest.md"


def test_the_document_shows_the_matrix_of_the_code() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == put_into(text), "run: manage.py rest_matrix --write docs/rest.md"


def test_what_is_tried_is_what_the_document_shows() -> None:
    """`tests/edges/test_permissions.py` tries permissions.toml, route by route and role by role."""
    shown = {_in_the_words_of_the_table(route): route.takes for route in list_routes()}
    assert shown == {_blank(name): said for name, said in TABLE["routes"].items()}
    assert set(RULES) <= {route.name for route in list_routes()}


def test_every_route_says_what_it_takes() -> None:
    assert find_unsaid() == []


class Forgetful(ApiView):
    """A view whose author said nothing of rights."""

    def get(self, request: Any) -> Any:
        raise AssertionError("nobody gets here")


def test_a_route_that_says_nothing_is_found_and_shown_as_closed(monkeypatch: Any) -> None:
    class Resolver:
        url_patterns = (path("api/v1/backdoor", Forgetful.as_view()),)

    monkeypatch.setattr(matrix, "get_resolver", Resolver)
    assert find_unsaid() == [RestRoute("GET", "/api/v1/backdoor", "")]
    assert "| `GET /api/v1/backdoor` | nothing: closed |  |  |" in write_matrix()


def test_the_table_names_every_right() -> None:
    """A right that no route takes is one that cannot be granted to anybody's use, but for the gateway's own."""
    assert {route.right for route in list_routes()} >= set(Right.values) - {Right.GATEWAY_USE.value}


def _in_the_words_of_the_table(route: RestRoute) -> str:
    return _blank(f"{route.verb} {route.path.removeprefix('/api/v1/').removeprefix('/')}")


def _blank(name: str) -> str:
    """Placeholders without their names."""
    return re.sub(r"\{\w+\}", "{}", name)
