"""Every error is problem details, whoever asks and whatever broke."""

from typing import Any

import pytest
from django.db import connection
from django.db.utils import OperationalError
from django.test import Client

from apps.accounts.models import Project, User
from apps.api.problems import describe
from apps.inference.errors import ProviderBusyError
from apps.workers.models import Worker
from tests.apps.console.builders import sign_in
from tests.edges.caller import Answer, Caller

FIELDS = {"type", "title", "status", "detail", "code", "request_id"}


def check(answer: Answer, status: int, code: str) -> Any:
    assert answer.status == status, answer
    assert answer.is_problem, answer
    body = answer.body
    assert body.keys() >= FIELDS
    assert (body["status"], body["code"]) == (status, code)
    assert body["request_id"] == answer.headers["X-Request-Id"]
    return body


@pytest.mark.parametrize("path", ["/api/nothing", "/api/v1/nothing", "/api/v1/tasks/x", "/api/v1/tasks/", "/api/"])
@pytest.mark.parametrize("verb", ["GET", "POST", "PATCH", "DELETE"])
def test_an_unknown_path_is_a_problem(as_alice: Caller, path: str, verb: str) -> None:
    check(as_alice.send(verb, path), 404, "not_found")


@pytest.mark.parametrize("verb", ["PUT", "OPTIONS", "TRACE"])
def test_a_verb_nobody_offers_is_a_problem(as_alice: Caller, verb: str) -> None:
    check(as_alice.send(verb, "tasks"), 405, "method_not_allowed")


def test_a_verb_this_path_lacks_is_a_problem(as_alice: Caller) -> None:
    check(as_alice.send("DELETE", "tasks"), 405, "method_not_allowed")
    check(as_alice.send("PATCH", "audit"), 405, "method_not_allowed")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "wanted JSON"),
        (b"\xff\xfe", "wanted UTF-8"),
        (b'{"a": NaN}', "found NaN"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b'{"prompt": "\\u0000"}', "NUL"),
        (b'{"prompt": "\\ud800"}', "surrogate"),
        (b'{"seed": 99999999999999999999}', "64 bits"),
        (b'{"metadata": ' + b'{"a":' * 40 + b"1" + b"}" * 40 + b"}", "32 levels"),
        (b"[" * 100_000, "32 levels"),
    ],
)
def test_an_unreadable_body_says_why(as_alice: Caller, body: bytes, words: str) -> None:
    assert words in check(as_alice.post("tasks", body), 400, "unreadable_body")["detail"]


@pytest.mark.parametrize("body", [[], "text", 3, None, True])
def test_a_body_that_is_no_object_is_refused(as_alice: Caller, body: Any) -> None:
    check(as_alice.post("projects", body), 400, "bad_input")


def test_a_body_of_another_type_is_refused(as_alice: Caller) -> None:
    answer = as_alice.send("POST", "tasks", b"a=b", headers={"Content-Type": "application/x-www-form-urlencoded"})
    check(answer, 415, "unsupported_media_type")


def test_a_body_too_large_is_refused(as_alice: Caller) -> None:
    check(as_alice.post("tasks", b'"' + b"x" * 2_200_000 + b'"'), 413, "body_too_large")


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer x", "Bearer tnt_aaaaaaaaaaaa_" + "a" * 43, "Basic YTpi", "Bearer " + "x" * 5000, "x"]
)
def test_a_header_without_a_valid_token_is_a_problem(as_alice: Caller, header: str) -> None:
    answer = Caller("").send("GET", "tasks", headers={"Authorization": header})
    check(answer, 401, "not_signed_in")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_breakdown_is_told_without_its_trace(as_alice: Caller, worker: Worker) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE tasks_task RENAME TO tasks_gone")
    try:
        answer = as_alice.get("tasks")
    finally:
        connection.needs_rollback = False
    body = check(answer, 500, "internal")
    assert "tasks_task" not in str(body)
    assert "Traceback" not in str(body)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(ProviderBusyError("away"), "3"), (ProviderBusyError("busy", retry_after_s=0.2), "1"), (OperationalError(), "3")],
)
def test_what_cannot_be_answered_now_says_in_whole_seconds_when_to_ask_again(error: Exception, seconds: str) -> None:
    status, _, _, _, headers = describe(error)
    assert (status, headers["Retry-After"]) == (503, seconds)


def test_a_session_without_the_csrf_token_changes_nothing(alice: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    answer = Answer(client.post("/api/v1/tokens", {"name": "x"}, content_type="application/json"))
    body = check(answer, 403, "not_allowed")
    assert "CSRF" in body["detail"]


def test_a_session_reads_like_a_token(alice: User, worker: Worker) -> None:
    client = Client()
    client.force_login(alice)
    assert client.get("/api/v1/workers").json()["results"][0]["name"] == "echo"


def test_the_callers_own_request_id_comes_back(as_alice: Caller) -> None:
    answer = as_alice.get("tasks/999999", **{"X-Request-Id": "mine-1"})
    assert check(answer, 404, "not_found")["request_id"] == "mine-1"


def test_passwords_are_tried_ten_times_a_minute(alice: User) -> None:
    caller = Caller("")
    wrong = {"username": "alice", "password": "guess"}
    assert [caller.post("login", wrong).status for _ in range(10)] == [401] * 10
    answer = caller.post("login", {"username": "alice", "password": "alice-has-a-password"})
    check(answer, 429, "too_many_requests")
    assert int(answer.headers["Retry-After"]) > 0


def test_signing_in_gives_a_token_that_signing_out_ends(alice: User) -> None:
    answer = Caller("").post("login", {"username": "alice", "password": "alice-has-a-password"})
    assert answer.status == 201, answer
    caller = Caller(answer.body["token"])
    assert caller.get("whoami").body["memberships"] == [{"project": "shop", "role": "manager"}]
    assert caller.post("logout").status == 204
    assert caller.get("whoami").status == 401


def test_a_nul_in_a_path_or_a_query_is_the_callers(as_alice: Caller, project: Project) -> None:
    check(as_alice.post("sessions/%00/feedback", {"text": "Fine."}), 400, "bad_input")
    assert sign_in(User.objects.get(username="alice")).get("/p/shop/sessions/?key=%00").status_code == 400
