"""What the gateway itself refuses is seen as exchanges, and a flood of it is few of them."""

import json
from collections.abc import Iterator

import pytest

from apps.accounts.models import Project
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.gateway.capture import capture
from apps.gateway.refusals import MOST_SESSIONS, WINDOW_S, Refusals
from apps.inference.models import Exchange
from apps.tasks.models import Task
from apps.workers.models import Worker
from tests.apps.gateway.records import make_header
from tests.apps.gateway.running import GatewayProcess, GatewayThread, ListSpool, make_agent, make_agent_token
from tests.apps.gateway.test_edge import wait_for
from tests.factories import make_task


def refuse(spool: ListSpool, refusals: Refusals, session: str, *, now: float = 0.0, token: str = "key") -> bool:
    header = make_header(1, session, token=token, status=429, error="too much")
    return refusals.take(header, "rate_limit_exceeded", now)


def counts(spool: ListSpool) -> list[tuple[str, int]]:
    return [(record.header["session"], json.loads(record.request)["refused"]) for record in spool.records]


def test_of_many_in_a_minute_the_first_is_recorded_and_the_others_as_one() -> None:
    spool = ListSpool()
    refusals = Refusals(spool)
    assert [refuse(spool, refusals, "a", now=place) for place in range(10)] == [True] + [False] * 9
    refusals.flush(WINDOW_S - 1)
    assert counts(spool) == [("a", 1)]
    refusals.flush(WINDOW_S)
    assert counts(spool) == [("a", 1), ("a", 9)]
    assert spool.records[1].header["error"] == "too much (9 requests within a minute)"
    assert spool.records[0].header["id"] != spool.records[1].header["id"]
    refusals.flush(9 * WINDOW_S)
    assert len(spool.records) == 2
    assert refuse(spool, refusals, "a", now=10 * WINDOW_S)


def test_ever_new_sessions_do_not_fill_the_spool() -> None:
    spool = ListSpool()
    refusals = Refusals(spool)
    for place in range(1000):
        refuse(spool, refusals, f"session {place}")
    assert refuse(spool, refusals, "mine", token="another")
    refusals.flush(WINDOW_S)
    assert len(spool.records) == MOST_SESSIONS + 3
    assert sum(count for _, count in counts(spool)) == 1001


def test_where_nothing_can_be_kept_nothing_is() -> None:
    spool = ListSpool(is_full=True)
    assert not refuse(spool, Refusals(spool), "a")
    assert spool.records == []


def test_a_refused_request_is_an_exchange_of_its_session_without_its_words(
    gateway: GatewayThread, project: Project
) -> None:
    limited = make_agent_token(project, "limited", requests_per_minute=1)
    for _ in range(4):
        response = gateway.chat("helper", token=limited, headers={"X-Session-Id": "mine"})
    assert response.status_code == 429
    served, refused = (record.header for record in gateway.records)
    assert (refused["session"], refused["status"], refused["model"]) == (served["session"], 429, "helper")
    assert "may use 1 requests a minute" in refused["error"]
    [captured] = capture(gateway.records[1])
    assert (captured.messages, captured.request) == ([], {"refused": 1})


def test_who_may_not_ask_is_seen_in_the_project_and_who_is_unknown_is_not(
    gateway: GatewayThread, project: Project
) -> None:
    agent = make_agent(project)
    _, text = create_token(user=agent, name="t", scopes=[Right.TASKS_READ], by=agent, project=project)
    response = gateway.chat("helper", token=text, headers={"X-Session-Id": "mine"})
    assert (response.status_code, response.headers["X-Tentalis-Exchange"]) == (403, gateway.records[0].header["id"])
    assert gateway.chat("helper", token="tnt_unknown").status_code == 401
    [record] = gateway.records
    assert (record.header["session"], record.header["project"]) == ("mine", project.pk)
    assert "gateway:use" in record.header["error"]


@pytest.fixture
def task(helper: Worker) -> Task:
    return make_task(helper.project, helper)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions"])
def test_work_is_for_a_task_of_the_tokens_project(gateway: GatewayThread, token: str, task: Task, path: str) -> None:
    body = {"model": "helper", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    body |= {"input": "hi"} if "responses" in path else {"prompt": "hi"} if path == "/v1/completions" else {}
    headers = {"Authorization": f"Bearer {token}", "X-Tentalis-Task": str(task.pk)}
    assert gateway.client.post(path, json=body, headers=headers).status_code == 200
    assert gateway.records[0].header["task"] == task.pk
    other = Project.objects.create(slug="other", name="Other")
    theirs = make_task(other)
    for unknown in (theirs.pk, 10**17):
        response = gateway.client.post(path, json=body, headers=headers | {"X-Tentalis-Task": str(unknown)})
        assert response.status_code == 404
        assert response.json().get("type") == ("error" if path == "/v1/messages" else None)
        assert f"has no task {unknown}" in response.json()["error"]["message"]
        assert gateway.records[-1].header["task"] is None
    said = (
        *(("Task", value, "wanted a task's number") for value in ("abc", "task-48", "-1", "1.5", "")),
        *(("Step", value, "wanted a whole number from 0 to 2147483647") for value in ("first", "-1", "2147483648")),
        *(("Attempt", value, "wanted a whole number from 0, beside X-Tentalis-Task") for value in ("-1", "first")),
        *(("Attempt", value, f"wanted a whole number from 0 to 1, of the tries of task {task.pk}") for value in "27"),
    )
    kept = len(gateway.records)
    for name, value, words in said:
        response = gateway.client.post(path, json=body, headers=headers | {f"X-Tentalis-{name}": value})
        assert response.status_code == 400
        assert f"X-Tentalis-{name}: {words}; found {value!r}" in response.json()["error"]["message"]
        header = gateway.records[-1].header
        assert (header["task"], header["attempt"], header["step"]) == (None, None, None)
    assert len(gateway.records) == kept + len(said)
    refused = gateway.client.post(path, json=body, headers=headers | {"X-Tentalis-Step": "one"}).json()["error"]
    if "param" in refused:
        assert (refused["code"], refused["param"]) == ("invalid_step", "X-Tentalis-Step")
    good = {"X-Tentalis-Attempt": "1", "X-Tentalis-Step": "0"}
    assert gateway.client.post(path, json=body, headers=headers | good).status_code == 200
    header = gateway.records[-1].header
    assert (header["task"], header["attempt"], header["step"]) == (task.pk, 1, 0)
    only_step = {"Authorization": headers["Authorization"], "X-Tentalis-Step": "3"}
    assert gateway.client.post(path, json=body, headers=only_step).status_code == 200
    assert (gateway.records[-1].header["task"], gateway.records[-1].header["step"]) == (None, 3)


def test_a_place_that_cannot_be_is_not_kept_of_what_is_refused_before_it_is_read(
    gateway: GatewayThread, project: Project
) -> None:
    agent = make_agent(project, "reader")
    _, text = create_token(user=agent, name="t", scopes=[Right.TASKS_READ], by=agent, project=project)
    headers = {f"X-Tentalis-{name}": "9" * 12 for name in ("Task", "Attempt", "Step")}
    assert gateway.chat("helper", token=text, headers=headers).status_code == 403
    header = gateway.records[0].header
    assert (header["task"], header["attempt"], header["step"]) == (None, None, None)


@pytest.fixture
def running(helper: Worker, token: str) -> Iterator[GatewayProcess]:
    with GatewayProcess() as gateway:
        yield gateway


@pytest.mark.broker
def test_refusals_are_stored_and_what_could_not_be_stored_is_a_figure_and_no_reason_to_be_unready(
    running: GatewayProcess, project: Project
) -> None:
    limited = make_agent_token(project, "limited", requests_per_minute=1)
    for _ in range(3):
        running.chat("helper", token=limited)
    wait_for(lambda: Exchange.objects.filter(status=429).count() == 1)
    assert running.client.get("/readyz").status_code == 200
    rejected = running.home / "spool" / "rejected"
    rejected.write_bytes(b"x" * 1234)
    assert running.client.get("/readyz").status_code == 200
    assert "tentalis_gateway_set_aside_bytes 1234" in running.client.get("/metrics").text


def test_a_writer_that_is_gone_makes_it_unready(gateway: GatewayThread) -> None:
    gateway.edge.find_troubles = lambda: ["the writer of exchanges is not running"]
    response = gateway.client.get("/readyz")
    assert (response.status_code, response.json()["reasons"]) == (503, ["the writer of exchanges is not running"])
