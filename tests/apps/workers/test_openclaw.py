"""A worker whose tasks an OpenClaw does: what it is asked, what is found of its calls, and how it fails."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import Project, User
from apps.adapters.models import Adapter, Verdict
from apps.base.errors import BadInputError, ConflictError
from apps.evals.models import Evaluation, ItemTry
from apps.evals.panels import LEAST_OWN
from apps.gate.gating import gate_adapter
from apps.inference.errors import AddressNotAllowedError, ProviderBusyError, ProviderRefusedError
from apps.inference.models import MEASURED_TURN, Exchange, Provider, Session
from apps.inference.openclaw import OpenClawServer
from apps.inference.providers import create_provider
from apps.outbox.links import run_links
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.tasks.models import Attempt, Task
from apps.tasks.services import work_tasks
from apps.workers.agents import get_agent
from apps.workers.agents.openclaw import NOT_SEEN, OpenClawAgent
from apps.workers.models import Worker
from apps.workers.rules import find_environment_error
from apps.workers.services import change_worker, create_worker
from apps.worlds.registry import get_world
from tentalis.core.packing import pack_bools, pack_float32, pack_int32
from tentalis.core.worlds import AttemptDraft
from tests.apps.adapters.desk_adapters import make_served
from tests.apps.adapters.vllm_stub import VllmStub
from tests.apps.gate.conftest import hold_out
from tests.apps.gateway.running import make_provider
from tests.apps.workers.openclaw_stub import TOKEN, Run, StubOpenClaw

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def openclaw() -> Iterator[StubOpenClaw]:
    with StubOpenClaw() as stub:
        yield stub


@pytest.fixture
def admin(alice: User) -> User:
    """Alice, who may also allow private addresses."""
    alice.is_superuser = True
    alice.save()
    return alice


@pytest.fixture
def server(openclaw: StubOpenClaw, project: Project, admin: User) -> Provider:
    return create_provider(
        project=project,
        name="lobster",
        kind="custom",
        base_url=openclaw.url,
        api_key=TOKEN,
        by=admin,
        allow_private=True,
        timeout_s=5.0,
    )


@pytest.fixture
def claw(server: Provider, project: Project, admin: User) -> Worker:
    return create_worker(
        project=project, name="claw", kind="openclaw", agent_server=server, base_model="desk", by=admin
    )


def capture(
    project: Project,
    run: Run,
    *,
    text: str,
    prompt: list[int],
    tokens: list[int],
    messages: list[dict[str, Any]] | None = None,
    tool_calls: list[dict[str, Any]] | None = None,
    adapter: str = "",
    turn: str = "main",
) -> Exchange:
    """What the gateway stores of a call that the agent made with our plugin."""
    session, _ = Session.objects.get_or_create(project=project, key=run.session_key)
    return Exchange.objects.create(
        project=project,
        session=session,
        worker_name="claw",
        model="claw",
        adapter_name=adapter,
        turn=turn,
        task_id=int(run.session_key.split(":")[1]),
        messages=messages or [{"role": "user", "content": run.prompt}],
        text=text,
        tool_calls=tool_calls or [],
        prompt_token_ids=pack_int32(prompt),
        token_ids=pack_int32(tokens),
        logprobs=pack_float32([-0.5] * len(tokens)),
        sampled=pack_bools([True] * len(tokens)),
    )


def submit(project: Project, claw: Worker, by: User, **values: Any) -> Task:
    return flow.submit(
        project=project, prompt="Refund order 17.", environment="chat", by=by, worker=claw, **{"group_size": 1} | values
    )


def test_a_task_is_done_and_its_calls_are_its_tokens(
    openclaw: StubOpenClaw, project: Project, claw: Worker, admin: User
) -> None:
    def answer(run: Run) -> str:
        capture(project, run, text="Let me sum up.", prompt=[9], tokens=[9], turn="side")
        capture(project, run, text="Refunded.", prompt=[1, 2], tokens=[3, 4, 5])
        connection.close()
        return "Refunded."

    openclaw.answer = answer
    task = submit(project, claw, admin)
    work_tasks([task.pk], by="test")
    attempt = Attempt.objects.select_related("exchange").get()
    assert attempt.exchange is not None
    assert attempt.exchange.unpack_token_ids() == [3, 4, 5]
    assert (attempt.text, attempt.answer, attempt.unfit, attempt.further.count()) == ("Refunded.", "Refunded.", "", 0)
    assert list(attempt.steps.values_list("kind", "token_start", "token_end")) == [("answer", 0, 3)]
    assert Exchange.objects.count() == 2
    (run,) = openclaw.runs
    assert (run.agent, run.model, run.prompt) == ("default", "tentalis/claw", "Refund order 17.")
    assert run.session_key.startswith(f"tentalis:{task.pk}:")
    task.refresh_from_db()
    assert task.state == Task.State.SCORING


def test_each_try_of_a_group_has_a_session_of_its_own(
    openclaw: StubOpenClaw, project: Project, claw: Worker, admin: User
) -> None:
    def answer(run: Run) -> str:
        place = run.body["seed"]
        capture(project, run, text=f"Answer {place}.", prompt=[1], tokens=[place])
        connection.close()
        return f"Answer {place}."

    openclaw.answer = answer
    change_worker(worker=claw, by=admin, agent_id="clerk", system_prompt="Be kind.", sampling={"temperature": 0.5})
    work_tasks([submit(project, claw, admin, group_size=6, seed=40).pk], by="test")
    attempts = list(Attempt.objects.select_related("exchange"))
    assert [attempt.answer for attempt in attempts] == [f"Answer {40 + place}." for place in range(6)]
    assert [attempt.exchange and attempt.exchange.unpack_token_ids() for attempt in attempts] == [
        [40 + place] for place in range(6)
    ]
    assert len({run.session_key for run in openclaw.runs}) == 6
    assert {run.agent for run in openclaw.runs} == {"clerk"}
    assert openclaw.runs[0].body["messages"][0] == {"role": "system", "content": "Be kind."}
    assert openclaw.runs[0].body["temperature"] == 0.5


TOOL_CALL: dict[str, Any] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "exec", "arguments": '{"command": "ls"}'},
}
TOLD: list[dict[str, Any]] = [
    {"role": "user", "content": "Refund order 17."},
    {"role": "assistant", "content": "I look first.", "tool_calls": [TOOL_CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "order-17.txt"},
]


@pytest.mark.parametrize(("prompt", "span"), [([1, 2, 3, 4, 8], (3, 5)), ([1, 2, 8, 8, 8], (2, 4))])
def test_all_calls_are_learnt_from_those_that_follow_each_other_as_one(
    openclaw: StubOpenClaw, project: Project, claw: Worker, admin: User, prompt: list[int], span: tuple[int, int]
) -> None:
    def answer(run: Run) -> str:
        capture(project, run, text="I look first.", prompt=[1, 2], tokens=[3, 4], tool_calls=[TOOL_CALL])
        capture(project, run, text="Refunded.", prompt=prompt, tokens=[5, 6], messages=TOLD)
        connection.close()
        return "Refunded."

    openclaw.answer = answer
    work_tasks([submit(project, claw, admin).pk], by="test")
    attempt = Attempt.objects.get()
    assert 1 + attempt.further.count() == 2
    assert list(attempt.steps.values_list("kind", "text", "tool_name", "tool_result")) == [
        ("step", "I look first.", "", ""),
        ("call", 'exec {"command": "ls"}', "exec", "order-17.txt"),
        ("answer", "Refunded.", "", ""),
    ]
    spans = list(attempt.steps.values_list("token_start", "token_end"))
    assert spans == [(None, None), (0, 2), span], "the tokens of a call are its last step's"


def test_what_served_is_what_the_gateway_says(
    openclaw: StubOpenClaw, project: Project, claw: Worker, admin: User
) -> None:
    adapter = Adapter.objects.create(
        project=project, worker=claw, version=3, line_version=3, name="claw@v3-abc", uri="file:///nowhere",
        sha256="0" * 64, manifest={},
    )  # fmt: skip

    def answer(run: Run) -> str:
        capture(project, run, text="Yes.", prompt=[1], tokens=[2], adapter=adapter.name)
        connection.close()
        return "Yes."

    openclaw.answer = answer
    work_tasks([submit(project, claw, admin).pk], by="test")
    assert Attempt.objects.get().adapter == adapter


def test_without_the_plugin_a_try_is_kept_and_trains_nothing(
    openclaw: StubOpenClaw, project: Project, server: Provider
) -> None:
    agent = OpenClawAgent(
        OpenClawServer.of(server, timeout_s=5), project_id=project.pk, worker_name="claw", capture_wait_s=0.1
    )
    (draft,) = ask(agent)
    assert (draft.text, draft.unfit, draft.exchange_ids) == ("done: Hello.", NOT_SEEN, [])


def test_an_agent_with_its_own_model_is_not_looked_for(
    openclaw: StubOpenClaw, project: Project, claw: Worker, admin: User
) -> None:
    change_worker(worker=claw, by=admin, base_model="")
    work_tasks([submit(project, claw, admin).pk], by="test")
    attempt = Attempt.objects.get()
    assert (attempt.answer, attempt.unfit, openclaw.runs[0].model) == ("done: Refund order 17.", "", "")


def ask(agent: OpenClawAgent, group_size: int = 1) -> list[AttemptDraft]:
    return agent.work(
        prompts=["Hello."], world=get_world("chat"), group_size=group_size, seeds=[None], model="", greedy=True
    )[0]


@pytest.mark.parametrize(("mode", "words"), [("silent", "did not answer in time"), ("dying", "cannot be reached")])
def test_a_run_that_breaks_off_is_a_failed_try_and_not_sent_again(
    openclaw: StubOpenClaw, project: Project, claw: Worker, server: Provider, admin: User, mode: Any, words: str
) -> None:
    Provider.objects.filter(pk=server.pk).update(timeout_s=0.3)
    openclaw.mode = mode
    server.refresh_from_db()
    (draft,) = ask(OpenClawAgent(OpenClawServer.of(server, timeout_s=5), project_id=project.pk))
    assert words in draft.error
    assert "0.3 s" in draft.error
    assert len(openclaw.runs) == 1


@pytest.mark.parametrize(
    ("field", "value", "error", "words"),
    [
        ("base_url", "http://127.0.0.1:1/v1", ProviderBusyError, "cannot be reached"),
        ("allow_private", False, AddressNotAllowedError, "private"),
    ],
)
def test_an_openclaw_that_is_away_is_told_plainly(
    server: Provider, project: Project, field: str, value: Any, error: type[Exception], words: str
) -> None:
    setattr(server, field, value)
    agent = OpenClawAgent(OpenClawServer(server.base_url, TOKEN, 1.0, server.allow_private), project_id=project.pk)
    with pytest.raises(error, match=words):
        ask(agent, group_size=3)


def test_refusals_come_as_they_are(openclaw: StubOpenClaw, project: Project) -> None:
    wrong = OpenClawAgent(OpenClawServer(openclaw.url, "wrong", 5.0, True), project_id=project.pk)
    with pytest.raises(ProviderRefusedError, match="401: Unauthorized"):
        ask(wrong)
    openclaw.mode = "limited"
    busy = OpenClawAgent(OpenClawServer(openclaw.url, TOKEN, 5.0, True), project_id=project.pk)
    with pytest.raises(ProviderBusyError, match="too many runs"):
        ask(busy)
    assert not openclaw.runs


def test_an_empty_answer_is_an_error(openclaw: StubOpenClaw, project: Project) -> None:
    openclaw.answer = lambda run: ""
    (draft,) = ask(OpenClawAgent(OpenClawServer(openclaw.url, TOKEN, 5.0, True), project_id=project.pk))
    assert draft.error == "the answer is empty (stop)"


def test_the_server_must_be_there_and_on(claw: Worker, server: Provider) -> None:
    assert isinstance(get_agent(claw), OpenClawAgent)
    server.is_active = False
    server.save()
    claw.refresh_from_db()
    with pytest.raises(ConflictError, match="switched off"):
        get_agent(claw)
    claw.agent_server = None
    with pytest.raises(ConflictError, match="has no OpenClaw"):
        get_agent(claw)


@pytest.mark.parametrize(
    ("fields", "at_fault", "words"),
    [
        ({"agent_server": None}, {"agent_server"}, "needs the gateway of an OpenClaw"),
        ({"agent_id": "a b"}, {"agent_id"}, "found 'a b'"),
        ({"kind": "echo"}, {"agent_server"}, "only an openclaw worker"),
        ({"kind": "outside", "agent_server": None, "agent_id": "x"}, {"agent_id"}, "only an openclaw worker"),
    ],
)
def test_a_wrong_worker_is_refused_by_field(
    server: Provider, project: Project, admin: User, fields: dict[str, Any], at_fault: set[str], words: str
) -> None:
    wanted: dict[str, Any] = {"kind": "openclaw", "agent_server": server} | fields
    with pytest.raises(BadInputError, match=words) as refused:
        create_worker(project=project, name="claw", by=admin, **wanted)
    assert set(refused.value.errors) == at_fault


def test_the_agent_cannot_be_its_own_model(claw: Worker, server: Provider, admin: User) -> None:
    with pytest.raises(BadInputError, match="cannot be served by the agent itself"):
        change_worker(worker=claw, by=admin, provider=server)


def test_it_does_no_tickets_of_the_desk(claw: Worker) -> None:
    assert "cannot use the ticket desk's" in find_environment_error(claw, "desk")


@pytest.fixture
def candidate(claw: Worker, tmp_path: Path, settings: Any) -> Iterator[Adapter]:
    """Of the worker, whose model has a server of its own; there is held-out work of the project's."""
    settings.ARTIFACTS = tmp_path
    claw.project.gate_policy = {"panel_size": LEAST_OWN, "sweep_size": 0}
    claw.project.save()
    hold_out(claw.project, LEAST_OWN)
    with VllmStub() as stub:
        claw.provider = make_provider(claw.project, stub.url, default_model="desk")
        claw.save()
        yield make_served(claw, 1, tmp_path, state=Adapter.State.CANDIDATE)


def run_open(*kinds: str) -> None:
    for segment in Segment.objects.filter(kind__in=kinds, state=Segment.State.OPEN):
        run_links([segment.pk], 0)


def decide(adapter: Adapter, **made: Any) -> Verdict:
    """Let the gate ask anew, until it has decided, and the OpenClaw do what it is asked for."""
    for _ in range(12):
        gate_adapter(adapter.pk, by="gate")
        adapter.refresh_from_db()
        if not adapter.is_awaiting:
            return Verdict.objects.get(question="safe")
        for _ in range(3):  # what fails is asked for again
            flow.go_on_waiting()
            run_open("try")
            Attempt.objects.update(created_at="2020-01-01T00:00:00Z", **made)
            run_open("evaluate")
    raise AssertionError("the gate asked for ever")


def do_sum(run: Run) -> str:
    """As the model that the try is answered by, which the gateway chooses."""
    task = Task.objects.get(pk=run.session_key.split(":")[1])
    number = int(run.prompt.split()[-1])
    said = str(2 * number if task.pins["0"] else 2 * number + number % 2)
    capture(task.project, run, text=said, prompt=[1], tokens=[2], adapter=task.pins["0"], turn=MEASURED_TURN)
    connection.close()
    return said


@pytest.mark.thorough
def test_an_adapter_is_measured_by_tries_that_the_openclaw_is_asked_for(
    openclaw: StubOpenClaw, candidate: Adapter
) -> None:
    openclaw.answer = do_sum
    verdict = decide(candidate)
    assert (candidate.state, verdict.outcome) == ("verified", "yes"), verdict.words
    assert {run.model for run in openclaw.runs} == {"tentalis/claw"}
    assert {task.state for task in Task.objects.all()} == {"done"}
    assert set(Segment.objects.values_list("kind", flat=True)) == {"try", "evaluate", "adopt"}
    asked = ItemTry.objects.exclude(evaluation__purpose="capability")  # for which no agent is asked
    assert set(asked.filter(evaluation__adapter=candidate).values_list("outcome", flat=True)) == {1.0}
    assert len(openclaw.runs) == asked.count()


@pytest.mark.thorough
def test_tries_that_the_gateway_saw_no_call_of_prove_nothing(openclaw: StubOpenClaw, candidate: Adapter) -> None:
    openclaw.answer = do_sum
    verdict = decide(candidate, unfit=NOT_SEEN)  # as the agent says where it finds none
    assert (candidate.state, verdict.outcome) == ("candidate", "inconclusive")
    assert NOT_SEEN in verdict.words
    assert not Evaluation.objects.exclude(state="failed").exists()
