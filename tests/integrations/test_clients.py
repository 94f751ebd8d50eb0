"""Programs as their users install them, unchanged, in front of a real gateway: `pytest -m clients tests/integrations`.

Each has an agent of its own and asks one question, streamed, with a tool where it has tools; the model is a stub that
calls the tool once. What was said must arrive, and the rows must say it: sessions, tokens, usage.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import DjangoDbBlocker

from apps.accounts.models import Project
from apps.inference.models import Exchange
from tests.apps.gateway.running import GatewayProcess, make_agent_token, make_chat_worker, make_provider
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.upstream import StubUpstream, prompt_tokens_of
from tests.factories import make_project
from tests.integrations.clients.installing import CLIENTS, CannotBeHadError, install

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.django_db, pytest.mark.timeout(1200)]

RUN_S = 240.0
ROWS_S = 60.0
PROGRAMS = Path(__file__).parent / "clients" / "programs"
REPLY = "It is sunny."
WEATHER = ["weather", '{"city": "Zürich"}']


@dataclass(frozen=True)
class Case:
    """What a program is told, and what must come of it.

    Args:
        told: how often the answer must be printed.
        calls: what the model calls. reply: what it says after that; "": as always.
        sessions: conversations the program holds, each with a call and an answer of its own.
        apis: dialects that it speaks.
        is_streamed: it can stream.
        once: the tool is called once, and not each time.
        is_joined: it repeats what the model said as it was said, by which a conversation that nobody named is found.
        is_told: its models are elsewhere, and its spans tell of them: in figures and words, never in tokens.
        tells_tools: it tells which tools it offers, and not only which were called.
    """

    told: int
    apis: tuple[str, ...]
    sessions: int = 1
    calls: list[list[str]] = field(default_factory=lambda: [WEATHER])
    reply: str = REPLY
    wanted: str = REPLY
    is_streamed: bool = True
    once: bool = True
    is_joined: bool = True
    is_told: bool = False
    tells_tools: bool = True


TOLD = Case(2, ("otlp",), 2, is_streamed=False, is_told=True)

CASES = {
    "openai": Case(2, ("chat", "responses"), 2),
    "openai_agents": Case(2, ("chat", "responses"), 2),
    "anthropic": Case(1, ("messages",)),
    "litellm": Case(4, ("chat", "messages"), 4, is_joined=False),
    "langgraph": Case(2, ("chat", "responses"), 2),
    "langchain_anthropic": Case(1, ("messages",)),
    "pydantic_ai": Case(3, ("chat", "messages", "responses"), 3),
    "smolagents": Case(
        1, ("chat",), is_joined=False, reply='{"name": "final_answer", "arguments": {"answer": "It is sunny."}}'
    ),
    "strands": Case(2, ("chat", "messages"), 2),
    "google_adk": Case(1, ("chat",)),
    "crewai": Case(1, ("chat",)),
    "autogen": Case(1, ("chat",)),
    "dspy": Case(1, ("chat",), calls=[], reply="[[ ## answer ## ]]\nIt is sunny.\n\n[[ ## completed ## ]]"),
    "instructor": Case(3, ("chat", "messages"), 3, [["Weather", WEATHER[1]]], wanted="Zürich", once=False),
    "llama_index": Case(1, ("chat",)),
    "vercel_ai": Case(4, ("chat", "messages", "responses"), 4),
    "otel_genai": TOLD,
    "otel_openai_v2": replace(TOLD, tells_tools=False),
    "openinference": TOLD,
    "traceloop": TOLD,
    "claude_agent_sdk": Case(1, ("messages",), calls=[["Bash", '{"command": "echo sun", "description": "look"}']]),
    "claude_code": Case(1, ("messages",), calls=[["Bash", '{"command": "echo sun", "description": "look"}']]),
    "codex": Case(1, ("responses",), calls=[["exec_command", '{"cmd": "echo sun"}']]),
    "opencode": Case(1, ("chat",), calls=[["bash", '{"command": "echo sun", "description": "look"}']]),
    "mini_swe_agent": Case(
        1,
        ("chat",),
        calls=[["bash", '{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo It is sunny."}']],
        is_streamed=False,
        once=False,
    ),
}


@dataclass
class Place:
    """Where they are pointed at. `tokens`: of the agent that each is, by name."""

    gateway: GatewayProcess
    upstream: StubUpstream
    project: Project
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def place(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Place]:
    with StubUpstream() as upstream, ExitStack() as stack:
        with django_db_blocker.unblock():
            project = make_project()
            provider = make_provider(project, upstream.url, probe={"model": "base", "context_tokens": 200_000})
            make_chat_worker(project, provider)
            tokens = {name: make_agent_token(project, name.replace("_", "-")) for name in CLIENTS}
            gateway = stack.enter_context(GatewayProcess())
        yield Place(gateway, upstream, project, tokens)
        stack.close()
        with django_db_blocker.unblock():
            call_command("flush", verbosity=0, interactive=False)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_works_unchanged_and_the_rows_are_right(place: Place, name: str, tmp_path: Path) -> None:
    case = CASES[name]
    try:
        commands = install(CLIENTS[name])
    except CannotBeHadError as error:
        pytest.skip(f"{name} cannot be had here: {error}")
    place.upstream.reset()
    place.upstream.plan(reply=case.reply, tool_calls=case.calls, tools_once=case.once)
    said = run(place, name, commands, tmp_path)
    told = [seen["body"] for seen in place.upstream.requests if seen["path"] != "/tokenize"]
    tools = {tool["function"]["name"] for body in told for tool in body.get("tools") or ()}
    assert said.count(case.wanted) >= case.told, f"{said[-3000:]}\noffered: {sorted(tools)}"
    asked = [prompt_tokens_of(body["messages"]) for body in told if "messages" in body]
    rows = find_rows(place, name, len(asked))
    assert sorted(row.prompt_tokens for row in rows) == sorted(map(len, asked))
    for row in rows:
        assert (row.status, row.error, row.is_truncated) == (200, "", False)
        assert row.prompt_tokens > 0
        assert row.completion_tokens > 0
        if case.is_told:
            assert "not trained on" in row.token_fault
        else:
            assert row.token_fault == (row.ban if row.deleted_at is not None else "")
            assert row.completion_tokens == len(row.unpack_token_ids())
        assert row.session is not None
    offered = {tool["function"]["name"] for row in rows for tool in row.request.get("tools") or ()}
    assert offered == (tools if case.tells_tools else set())
    assert {row.api for row in rows} == set(case.apis)
    assert any(row.is_streamed for row in rows) == case.is_streamed
    called = [row for row in rows if any(call["function"]["name"] == case.calls[0][0] for call in row.tool_calls or ())]
    assert len(called) >= case.sessions or not case.calls
    if case.once and case.calls and case.is_joined:
        answered = {row.session_id for row in rows if row.text == case.reply and not row.tool_calls}
        assert {row.session_id for row in called} <= answered, "a call and what came of it are in one session"
        results = [one for row in rows for one in row.messages if one["role"] == "tool"]
        assert len(results) >= case.sessions, "what tools told is kept"
    assert len({row.session_id for row in called}) in ({case.sessions} if case.calls else {0})


def run(place: Place, name: str, commands: Path, home: Path) -> str:
    """What a program printed, which ran to its end in a home of its own."""
    keep = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
    environment = {key: os.environ[key] for key in keep if key in os.environ}
    environment |= {
        "HOME": str(home),
        "CLIENT_ROOT": place.gateway.url,
        "CLIENT_KEY": place.tokens[name],
        "CLIENT_MODEL": "helper",
    }
    environment |= {"PYTHONWARNINGS": "ignore", "NO_COLOR": "1", "IS_SANDBOX": "1", "DO_NOT_TRACK": "1"}
    environment |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    environment |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}
    environment |= {"PATH": f"{commands}{os.pathsep}{environment['PATH']}"}
    done = subprocess.run(
        write_command(place, name, commands, home, environment),
        env=environment,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout + (done.stderr if name == "codex" else "")


def write_command(place: Place, name: str, commands: Path, home: Path, environment: dict[str, str]) -> list[str]:
    """The command line; of programs that are configured by variables or files, those too."""
    question, v1 = "What is the weather in Zürich?", f"{place.gateway.url}/v1"
    if CASES[name].is_told:
        environment |= {  # as docs/guides/telemetry.md has it
            "CLIENT_ELSEWHERE": f"{place.upstream.url}/v1",
            "OTEL_SDK_DISABLED": "false",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{v1}/traces",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"authorization=Bearer {environment['CLIENT_KEY']}",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only",
            "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
        }
    if name in {"claude_code", "claude_agent_sdk"}:
        environment |= {
            "ANTHROPIC_BASE_URL": place.gateway.url,
            "ANTHROPIC_AUTH_TOKEN": environment["CLIENT_KEY"],
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
    if name == "claude_code":
        argv = [str(commands / "claude"), "-p", question, "--model", "helper", "--allowedTools", "Bash"]
        return [*argv, "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
    if name == "codex":
        settings = [
            'model_provider="ours"',
            f'model_providers.ours={{name="ours",base_url="{v1}",env_key="CLIENT_KEY",wire_api="responses"}}',
        ]
        argv = [str(commands / "codex"), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [*argv, "-m", "helper", *(word for one in settings for word in ("-c", one)), question]
    if name == "opencode":
        models = {"helper": {"name": "helper", "limit": {"context": 100_000, "output": 1_000}}}
        options = {"baseURL": v1, "apiKey": environment["CLIENT_KEY"]}
        ours = {"npm": "@ai-sdk/openai-compatible", "name": "ours", "options": options, "models": models}
        (home / "opencode.json").write_text(json.dumps({"provider": {"ours": ours}, "autoupdate": False}))
        return [str(commands / "opencode"), "run", "-m", "ours/helper", question]
    if name == "mini_swe_agent":
        environment |= {
            "OPENAI_API_BASE": v1,
            "OPENAI_API_KEY": environment["CLIENT_KEY"],
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
        }
        argv = [str(commands / "mini"), "-t", question, "-m", "openai/helper", "-y", "--exit-immediately"]
        return [*argv, "-o", str(home / "trajectory.json")]
    if name == "vercel_ai":
        program = commands.parent.parent / "program.mjs"  # Node looks for packages beside the file
        shutil.copyfile(PROGRAMS / "vercel_ai.mjs", program)
        return ["node", str(program)]
    return [str(commands / "python"), str(PROGRAMS / f"with_{name}.py")]


def find_rows(place: Place, name: str, count: int) -> list[Exchange]:
    """All that was stored of what the model was asked; each request has its row."""
    agent = f"agent:{name.replace('_', '-')}"
    rows: Any = Exchange.objects.filter(project=place.project, agent=agent).select_related("session").order_by("id")
    wait_for(lambda: rows.count() >= count, most_s=ROWS_S)
    assert rows.count() == count
    return list(rows.all())
