"""A real OpenClaw in front of a real gateway: `pytest -m openclaw tests/integrations`.

The model is a stub that says what the test tells it; everything between it and the person is the real thing.
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import Member, Project, Role
from apps.accounts.rights import ROLE_RIGHTS
from apps.accounts.tokens import create_token
from apps.conversations.models import Turn
from apps.conversations.segmentation import cut_session
from apps.conversations.signal_extraction import hear_turn
from apps.conversations.task_building import settle_turn
from apps.feedback.hints import extract_hints
from apps.feedback.models import Feedback
from apps.inference.models import Exchange, Provider, Session
from apps.inference.providers import create_provider
from apps.pipeline import flow
from apps.rollouts.models import Rollout
from apps.rollouts.selectors import make_records
from apps.rollouts.services import build_rollouts
from apps.tasks.models import Attempt, Task
from apps.tasks.services import work_tasks
from apps.workers.models import Worker
from apps.workers.services import create_worker
from tentalis.core.conversations.turns import read_words
from tests.apps.gateway.running import GatewayProcess, make_chat_worker, make_provider
from tests.apps.gateway.upstream import StubUpstream
from tests.factories import make_user, make_worker
from tests.integrations.openclaw_process import FILES, GATEWAY_TOKEN, RUN_S, OpenClaw, find_path, install

pytestmark = [pytest.mark.openclaw, pytest.mark.slow, pytest.mark.timeout(1800)]

PATIENCE_S = 20.0


@pytest.fixture
def upstream() -> Iterator[StubUpstream]:
    with StubUpstream(reply="Good day to you.") as server:
        yield server


@pytest.fixture
def key(transactional_db: None, project: Project, upstream: StubUpstream) -> str:
    """A token of the agent `lobster`; the project's workers are `helper`, behind the stub, and `clerk`, who echoes."""
    make_chat_worker(project, make_provider(project, upstream.url))
    make_worker(project, "clerk")
    agent = make_user("lobster", is_agent=True)
    Member.objects.create(project=project, user=agent, role=Role.AGENT)
    return create_token(user=agent, name="t", scopes=ROLE_RIGHTS[Role.AGENT], by=agent, project=project)[1]


@pytest.fixture
def gateway(key: str) -> Iterator[GatewayProcess]:
    with GatewayProcess() as process:
        yield process


@pytest.fixture
def openclaw(gateway: GatewayProcess, live_server: LiveServer, key: str, tmp_path: Path) -> Iterator[OpenClaw]:
    with OpenClaw(tmp_path, gateway=gateway.url, url=live_server.url, key=key, workers=["helper"]) as process:
        yield process


def wait_for(look: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    until = time.monotonic() + patience_s
    while not (found := look()):
        assert time.monotonic() < until, f"wanted {what} within {patience_s:g} s"
        time.sleep(0.05)
    return found


def exchanges_of(session: str) -> list[Exchange]:
    return list(Exchange.objects.filter(session__key=session).order_by("id"))


@contextmanager
def calling_once(upstream: StubUpstream, command: str) -> Iterator[None]:
    """The model's next answer runs a command; the one after it, which sees what came of that, is words again."""
    before = len(upstream.requests)
    upstream.plan(tool_calls=[["exec", json.dumps({"command": command})]])

    def calm() -> None:
        wait_for(lambda: len(upstream.requests) > before, "a request", RUN_S)
        upstream.plan(tool_calls=[])

    calmer = threading.Thread(target=calm)
    calmer.start()
    yield
    calmer.join()


def read_command(openclaw: OpenClaw, skill: str) -> str:
    """The skill's shell command as its SKILL.md gives it, where OpenClaw found it."""
    place = FILES / "skills" / skill
    found = openclaw.json("skills", "info", skill)
    assert found["eligible"] is True, found
    assert Path(found["baseDir"]) == place, found
    text = (place / "SKILL.md").read_text()
    return text.partition("```sh\n")[2].partition("```")[0].replace("{baseDir}", str(place))


def result_of_last_call(upstream: StubUpstream) -> str:
    messages = upstream.requests[-1]["body"]["messages"]
    return str([message["content"] for message in messages if message["role"] == "tool"][-1])


def test_a_person_talks_and_the_session_is_kept(openclaw: OpenClaw, upstream: StubUpstream, project: Project) -> None:
    first = openclaw.say("Hello, who are you?", session_key="person-1")
    assert first == "Good day to you."
    openclaw.say("And again?", session_key="person-1")
    openclaw.say("Somebody else here.", session_key="person-2")
    wait_for(lambda: Exchange.objects.count() == 3, "three exchanges")
    sessions = list(Session.objects.order_by("id"))
    assert [len(exchanges_of(session.key)) for session in sessions] == [2, 1]
    assert {exchange.turn for exchange in Exchange.objects.all()} == {"main"}
    assert {exchange.worker_name for exchange in Exchange.objects.all()} == {"helper"}
    assert all(exchange.has_exact_tokens for exchange in Exchange.objects.all())
    sent = upstream.requests[-1]
    assert sent["body"]["return_token_ids"] is True

    for session in openclaw.json("sessions")["sessions"]:
        if session["key"].endswith("person-1"):
            openclaw.run("sessions", "delete", session["key"], "--yes")
    wait_for(lambda: Session.objects.filter(closed_at__isnull=False).exists(), "a closed session")
    closed = Session.objects.get(closed_at__isnull=False)
    assert (closed.pk, closed.closed_at) == (sessions[0].pk, closed.last_seen_at)


def test_what_is_said_next_teaches_and_every_call_before_it_is_learnt(
    openclaw: OpenClaw, upstream: StubUpstream, project: Project
) -> None:
    project.session_policy = {"learn": True, "judge": False, "fastest_s": 0}
    project.save()
    with calling_once(upstream, "echo looked"):
        openclaw.say("What do I owe for order 17?", session_key="person-1")
    openclaw.say("No, that's wrong. There is no surcharge after five years.", session_key="person-1")
    wait_for(lambda: Exchange.objects.count() == 3, "three exchanges")
    (session,) = Session.objects.all()
    cut_session(session.pk, by="test")
    turn = Turn.objects.get(number=0)
    hear_turn(turn.pk)
    settle_turn(turn.pk)
    turn.refresh_from_db()
    assert turn.task is not None, turn.reason
    assert turn.task.prompt == "What do I owe for order 17?"
    assert (turn.signals.get().kind, turn.state) == ("corrected", "settled")
    extract_hints([turn.task.pk])
    build_rollouts([turn.task.pk], by="test")
    rollout = Rollout.objects.get()
    assert rollout.is_usable, rollout.unusable_reason
    records = list(make_records([rollout]))
    calls = exchanges_of(session.key)[:2]
    assert [list(record.token_ids) for record in records] == [call.unpack_token_ids() for call in calls]
    said = [message for message in records[0].hinted_messages or () if "surcharge" in str(message["content"])]
    assert [read_words(message).partition("\n")[0] for message in said] == ["What do I owe for order 17?"]


def test_what_the_agent_does_unasked_is_a_side_turn(openclaw: OpenClaw) -> None:
    openclaw.say("Hello.", session_key="main")
    openclaw.run("system", "event", "--mode", "now", "--text", "The disk is nearly full.")
    wait_for(lambda: Exchange.objects.count() >= 2, "a heartbeat's exchange")
    assert [exchange.turn for exchange in Exchange.objects.order_by("id")][:2] == ["main", "side"]


def test_the_skills_give_work_and_pass_on_what_was_said(
    openclaw: OpenClaw, upstream: StubUpstream, project: Project
) -> None:
    assign = read_command(openclaw, "assign-task").replace("NAME", "clerk")
    with calling_once(upstream, assign):
        assert openclaw.say("Have the clerk do it.", session_key="boss") == "Good day to you."
    task = Task.objects.get()
    assert (task.worker.name, task.submitted_by.username, task.state) == ("clerk", "lobster", "queued")
    assert task.prompt.startswith("What is to be done")
    assert json.loads(result_of_last_call(upstream))["id"] == task.pk

    check = read_command(openclaw, "check-task").replace("NUMBER", str(task.pk)).replace("--wait 20", "")
    with calling_once(upstream, check):
        openclaw.say("How far is it?", session_key="boss")
    assert json.loads(result_of_last_call(upstream)) == {
        "id": task.pk,
        "project": "shop",
        "worker": "clerk",
        "state": "queued",
    }

    result = read_command(openclaw, "submit-result").replace("NUMBER", str(task.pk))
    with calling_once(upstream, result):
        openclaw.say("I did it myself: hand it in.", session_key="boss")
    attempt = Attempt.objects.get()
    assert [step.text for step in attempt.steps.all()] == ["Looked the order up.", "Asked for the invoice."]

    feedback = read_command(openclaw, "submit-feedback").replace("NUMBER", str(task.pk))
    with calling_once(upstream, feedback):
        openclaw.say("That was poor.", session_key="boss")
    given = Feedback.objects.get()
    assert (given.score, given.text.strip()) == (0.2, "What the person said, in their words.")
    assert given.source == Feedback.Source.OUTSIDE

    refused = read_command(openclaw, "submit-result").replace("NUMBER", str(task.pk))
    with calling_once(upstream, refused):
        openclaw.say("Hand it in again.", session_key="boss")
    assert "wanted state queued" in result_of_last_call(upstream)
    assert Attempt.objects.count() == 1


@pytest.fixture
def claw(openclaw: OpenClaw, project: Project) -> Worker:
    """A worker whose tasks this OpenClaw does, thinking with the model of the gateway's worker `claw`."""
    admin = make_user("alice")
    admin.is_superuser = True
    admin.save()
    server = create_provider(
        project=project,
        name="lobster",
        kind="custom",
        base_url=openclaw.url,
        api_key=GATEWAY_TOKEN,
        by=admin,
        allow_private=True,
    )
    return create_worker(
        project=project,
        name="claw",
        kind="openclaw",
        agent_server=server,
        provider=Provider.objects.get(name="stub"),
        base_model="base",
        by=admin,
    )


def test_the_platform_gives_a_task_to_it(
    openclaw: OpenClaw, upstream: StubUpstream, project: Project, claw: Worker
) -> None:
    task = flow.submit(
        project=project, prompt="Say good day.", environment="chat", by=make_user("alice"), worker=claw, group_size=2
    )
    with calling_once(upstream, "echo looked"):
        work_tasks([task.pk], by="test")
    attempts = list(task.attempts.select_related("exchange"))
    assert [attempt.answer for attempt in attempts] == ["Good day to you."] * 2
    assert [attempt.unfit for attempt in attempts] == ["", ""]
    for attempt in attempts:
        assert attempt.exchange is not None
        assert attempt.exchange.has_exact_tokens
        assert (attempt.exchange.task_id, attempt.exchange.worker_name) == (task.pk, "claw")
    assert len({attempt.exchange and attempt.exchange.session_id for attempt in attempts}) == 2
    calls = [step for attempt in attempts for step in attempt.steps.all() if step.kind == "call"]
    assert {(step.tool_name, step.tool_result.strip()) for step in calls} == {("exec", "looked")}


def test_without_the_plugin_the_session_is_known_too(
    gateway: GatewayProcess, live_server: LiveServer, key: str, tmp_path: Path
) -> None:
    lone = OpenClaw(tmp_path, gateway=gateway.url, url=live_server.url, key=key, workers=["helper"], plugin=False)
    answer = lone.json("agent", "--local", "--agent", "main", "--session-id", "s-abc-1", "-m", "Say hello.")
    assert answer["payloads"][0]["text"] == "Good day to you."
    (exchange,) = wait_for(lambda: exchanges_of("s-abc-1"), "the exchange")
    assert exchange.has_exact_tokens


def test_the_plugins_types_and_tests_hold(tmp_path: Path) -> None:
    place = install()
    modules = place / "openclaw" / "node_modules"
    for file in (FILES / "plugin").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "node_modules").symlink_to(modules)
    environment = {"PATH": find_path(place), "HOME": str(tmp_path)}
    for argv in (["node", str(modules / "typescript" / "bin" / "tsc"), "-p", "."], ["node", "--test"]):
        done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
