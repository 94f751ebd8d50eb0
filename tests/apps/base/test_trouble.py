"""Trouble of the database is said as such: 503, when to ask again, and nothing half done."""

import pytest
from django.db import connection
from django.db.utils import OperationalError
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import include, path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tentalis.settings.timeouts import TIMEOUTS, choose_timeouts, find_process, say_options

pytestmark = pytest.mark.django_db


def wait_too_long(request: HttpRequest | Request, *_: object) -> None:
    """A statement that meets its time limit, as one does on a database with too much to do."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 20")
        cursor.execute("SELECT pg_sleep(10)")


def show_page(request: HttpRequest) -> HttpResponse:
    wait_too_long(request)
    return HttpResponse("never")


class AskView(APIView):
    permission_classes = []

    def get(self, request: Request) -> Response:
        wait_too_long(request)
        return Response({})


class FailingMiddleware:
    """Meets the trouble before any view, as a session that cannot be read does."""

    def __init__(self, get_response: object) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        raise OperationalError("the connection is closed")


handler400 = "apps.base.trouble.show_bad_request"
handler500 = "apps.base.trouble.show_server_error"
urlpatterns = [
    path("page", show_page),
    path("api/v1/ask", AskView.as_view()),
    path("", include("tentalis.urls")),
]


@pytest.fixture
def client() -> Client:
    return Client(raise_request_exception=False)


@override_settings(ROOT_URLCONF=__name__)
def test_a_page_that_meets_trouble_of_the_database_says_503_and_when_to_come_back(client: Client) -> None:
    answer = client.get("/page")
    assert (answer.status_code, answer["Retry-After"]) == (503, "3")
    assert "cannot be answered at the moment" in answer.content.decode()


@override_settings(ROOT_URLCONF=__name__)
def test_a_program_that_meets_trouble_of_the_database_gets_problem_details(client: Client) -> None:
    answer = client.get("/api/v1/ask")
    assert (answer.status_code, answer["Retry-After"]) == (503, "3")
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "database_unavailable"


@pytest.mark.parametrize(("address", "kind"), [("/page", "text/html"), ("/api/v1/ask", "application/problem+json")])
@override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[f"{__name__}.FailingMiddleware"])
def test_so_does_what_fails_before_any_view(client: Client, address: str, kind: str) -> None:
    answer = client.get(address)
    assert (answer.status_code, answer["Retry-After"]) == (503, "3")
    assert answer["Content-Type"].startswith(kind)


@pytest.mark.parametrize("host", ["B$.:K", "", "elsewhere.example"])
@pytest.mark.parametrize(("address", "kind"), [("/review", "text/html"), ("/api/v1/tasks", "application/problem+json")])
def test_a_host_that_is_not_ours_is_refused_in_the_form_that_was_asked_for(
    client: Client, host: str, address: str, kind: str
) -> None:
    answer = client.get(address, HTTP_HOST=host, HTTP_ACCEPT="*/*")
    assert (answer.status_code, answer["Content-Type"].split(";")[0]) == (400, kind)
    if kind != "text/html":
        assert (answer.json()["code"], answer.json()["status"]) == ("bad_host", 400)


class BrokenMiddleware(FailingMiddleware):
    def __call__(self, request: HttpRequest) -> HttpResponse:
        raise ZeroDivisionError("a fault of ours before any view")


@override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[f"{__name__}.BrokenMiddleware"])
def test_a_program_that_meets_a_fault_of_ours_gets_problem_details_too(client: Client) -> None:
    answer = client.get("/api/v1/ask")
    assert (answer.status_code, answer["Content-Type"]) == (500, "application/problem+json")
    assert answer.json()["code"] == "internal"
    assert "fault of ours" not in answer.content.decode()


def test_each_kind_of_process_has_time_limits_and_migrations_never_queue_behind_a_lock() -> None:
    for process in ("web", "gateway", "relay", "queue"):
        assert all(TIMEOUTS[process])
    assert TIMEOUTS["migrate"].lock_s > 0
    assert choose_timeouts("web", {"LOCK_TIMEOUT_S": 3}) == TIMEOUTS["web"]._replace(lock_s=3)
    assert choose_timeouts("migrate", {"LOCK_TIMEOUT_S": 3, "STATEMENT_TIMEOUT_S": 1}) == TIMEOUTS["migrate"]
    assert [find_process(*given) for given in (("web", ["x"]), ("", ["m", "migrate"]), ("", ["m", "shell"]))] == [
        "web",
        "migrate",
        "command",
    ]


def test_a_connection_starts_with_the_limits_of_its_process() -> None:
    opened = connection.copy()
    opened.settings_dict = {**connection.settings_dict, "OPTIONS": {"options": say_options(TIMEOUTS["web"])}}
    try:
        with opened.cursor() as cursor:
            found = []
            for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
                cursor.execute(f"SHOW {name}")
                found.append(cursor.fetchone()[0])
    finally:
        opened.close()
    assert found == ["30s", "10s", "1min"]
