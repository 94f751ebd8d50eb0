"""An outside agent with a loop of its own: its calls go through the gateway, its tries are handed in and trained on."""

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.models import User
from apps.adapters.models import Adapter
from apps.base.errors import BadInputError, ConflictError
from apps.evals.models import Evaluation
from apps.inference.models import Exchange
from apps.outbox.models import Segment
from apps.pipeline import flow
from apps.rollouts import services as rollouts
from apps.rollouts.models import Rollout
from apps.rollouts.selectors import make_records
from apps.scoring.services import score_tasks
from apps.tasks import handing_in
from apps.tasks.errors import CallsNotStoredError
from apps.tasks.models import Attempt, Step, Task
from apps.workers.agents import can_measure
from apps.workers.models import Worker
from tests.apps.gateway.running import HELLO, GatewayProcess, GatewayThread
from tests.apps.gateway.test_edge import wait_for
from tests.apps.gateway.test_edge_swaps import make_adapter, swap
from tests.apps.gateway.upstream import StubUpstream
from tests.factories import make_task

CALLS, GROUP = 3, 2


@pytest.fixture
def harness(helper: Worker) -> Worker:
    """A worker that works outside, and thinks with the helper's model."""
    Worker.objects.filter(pk=helper.pk).update(kind=Worker.Kind.OUTSIDE)
    helper.refresh_from_db()
    return helper


@pytest.fixture
def task(harness: Worker) -> Task:
    return make_task(harness.project, harness, group_size=GROUP, reference={"match": "exact", "value": "one"})


def play(gateway: GatewayProcess, token: str, task: Task, index: int | None, *, steps: bool = False) -> None:
    """A try of three calls, each of which is shown what was said before."""
    messages = [*HELLO["messages"], {"role": "user", "content": f"try {index}"}]
    for call in range(CALLS):
        headers = {"Authorization": f"Bearer {token}", "X-Tentalis-Task": str(task.pk)}
        headers |= {} if index is None else {"X-Tentalis-Attempt": str(index)}
        headers |= {"X-Tentalis-Step": str(call // 2)} if steps else {}
        body = {"model": "helper", "messages": messages}
        answer = gateway.client.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        messages += [answer.json()["choices"][0]["message"], {"role": "user", "content": f"go on {call}"}]


def bind(task: Task) -> None:
    Attempt.objects.filter(task=task).update(created_at="2020-01-01T00:00:00Z")
    handing_in.bind_calls([task.pk])


@pytest.mark.broker
@pytest.mark.parametrize("own_engine", [False, True], ids=["model server", "own engine"])
def test_a_group_of_a_harness_is_trained_on_call_by_call(
    task: Task, token: str, alice: User, upstream: StubUpstream, own_engine: bool
) -> None:
    if own_engine:
        Worker.objects.update(provider=None)
    with GatewayProcess(INFERENCE_BACKEND="vllm", INFERENCE_BASE_URL=upstream.url) as gateway:
        for index in range(GROUP):
            play(gateway, token, task, index)
        wait_for(lambda: Exchange.objects.count() == GROUP * CALLS)
    flow.submit_own_attempt(task=task, steps=[], answer="one", by=alice, index=0)
    assert (Task.objects.get(pk=task.pk).state, task.state) == ("working", "working")
    flow.submit_own_attempt(task=task, steps=[], answer="two", by=alice, index=1)
    assert Task.objects.get(pk=task.pk).state == "scoring"
    [due] = Segment.objects.filter(subject_id=task.pk, kind="work", state="open").values_list("run_after", flat=True)
    last = Attempt.objects.get(task=task, index=1)
    assert can_measure(last.worker)
    assert due - last.created_at == timedelta(seconds=handing_in.STORED_WITHIN_S), "not before its calls are there"
    bind(task)
    score_tasks([task.pk])
    Task.objects.filter(pk=task.pk).update(state="learning")
    rollouts.build_rollouts([task.pk], by="ledger")
    made = Rollout.objects.filter(task=task).order_by("attempt__index")
    assert [(one.is_usable, one.unusable_reason) for one in made] == [(True, "")] * GROUP
    for rollout in made:
        steps = list(Step.objects.filter(attempt=rollout.attempt_id))
        [record] = make_records([rollout])
        sampled = [place for place, is_sampled in enumerate(record.sampled) if is_sampled]
        spans = [place for step in steps for place in range(step.token_start or 0, step.token_end or 0)]
        assert (len(steps), sampled) == (CALLS, spans), "each call is a step, and each sampled token one of a step's"
        assert record.group_id == task.pk


@pytest.mark.broker
def test_a_try_alone_needs_no_number_and_its_steps_get_the_tokens_of_their_calls(
    harness: Worker, token: str, alice: User
) -> None:
    task = make_task(harness.project, harness, group_size=GROUP)
    with GatewayProcess() as gateway:
        play(gateway, token, task, None, steps=True)
        wait_for(lambda: Exchange.objects.count() == CALLS)
    flow.submit_own_attempt(task=task, steps=[{"text": "thought"}, {"text": "told"}], answer="42", by=alice)
    with pytest.raises(CallsNotStoredError):
        handing_in.bind_calls([task.pk])
    bind(task)
    attempt = Attempt.objects.get(task=task)
    first, second = attempt.steps.all()
    assert (attempt.unfit, attempt.further.count()) == ("", CALLS - 1)
    places = [place or 0 for step in (first, second) for place in (step.token_start, step.token_end)]
    assert places[0] == 0 < places[1] < places[2] < places[3]
    bind(task)
    assert attempt.further.count() == CALLS - 1, "bound once"


def test_a_group_ends_when_its_agent_says_so(task: Task, alice: User) -> None:
    flow.submit_own_attempt(task=task, steps=[], answer="one", by=alice, index=1, is_last=True)
    assert Task.objects.get(pk=task.pk).state == "scoring"
    with pytest.raises(ConflictError, match="found scoring"):
        flow.submit_own_attempt(task=task, steps=[], answer="two", by=alice, index=0)


def test_a_group_that_is_cancelled_keeps_what_was_handed_in(task: Task, alice: User) -> None:
    flow.submit_own_attempt(task=task, steps=[], answer="one", by=alice, index=1)
    flow.cancel(task=task, by=alice)
    states = Attempt.objects.filter(task=task).order_by("index").values_list("index", "state")
    assert list(states) == [(0, "cancelled"), (1, "answered")]


@pytest.mark.parametrize(
    ("kept", "index", "error", "words"),
    [
        ([], 2, BadInputError, "wanted 0 to 1, found 2"),
        ([], -1, BadInputError, "wanted 0 to 1, found -1"),
        ([0], 0, ConflictError, "its try 0 already"),
        ([0], None, ConflictError, "one already"),
    ],
)
def test_a_try_that_cannot_be_is_refused_in_words(
    task: Task, alice: User, kept: list[int], index: int | None, error: type[Exception], words: str
) -> None:
    for one in kept:
        flow.submit_own_attempt(task=task, steps=[], answer="one", by=alice, index=one)
    with pytest.raises(error, match=words):
        flow.submit_own_attempt(task=task, steps=[], answer="again", by=alice, index=index)
    assert task.attempts.count() == len(kept)


def test_a_worker_of_ours_takes_no_numbered_tries(helper: Worker, alice: User) -> None:
    task = make_task(helper.project, helper)
    with pytest.raises(BadInputError, match="the platform does helper's tasks"):
        flow.submit_own_attempt(task=task, steps=[], answer="one", by=alice, index=0)


def ask(gateway: GatewayThread, token: str, task: Task, model: str = "helper", **fields: Any) -> str:
    """Who answered a call of a try."""
    headers = {"X-Tentalis-Task": str(task.pk), "X-Tentalis-Attempt": str(fields.pop("attempt", 0))}
    answer = gateway.chat(model, token=token, headers=headers, **fields)
    assert answer.status_code == 200, answer.text
    return str(answer.headers["X-Tentalis-Adapter"])


def test_a_try_keeps_the_version_that_it_began_with_though_another_is_swapped_in(
    gateway: GatewayThread, upstream: StubUpstream, task: Task, token: str
) -> None:
    Worker.objects.filter(pk=task.worker_id).update(sampling={"temperature": 0.5, "max_tokens": 9})
    assert ask(gateway, token, task, temperature=0, top_k=3, max_tokens=20) == "base"
    sent = upstream.requests[-1]["body"]
    assert (sent["temperature"], sent["max_tokens"], sent.get("top_k")) == (0.5, 9, -1)
    swap(task.worker, 1, upstream)
    name = Adapter.objects.get().name
    wait_for(lambda: gateway.chat("helper", token=token).headers["X-Tentalis-Adapter"] == name)
    assert [ask(gateway, token, task) for _ in range(2)] == ["base"] * 2, "no try mixes versions"
    assert ask(gateway, token, task, attempt=1) == name, "the next one takes what serves now"
    with GatewayThread() as another:
        assert [ask(another, token, task, attempt=index) for index in range(2)] == ["base", name]
    assert {record.header["turn"] for record in gateway.records} == {"main"}
    assert Task.objects.get(pk=task.pk).pins == {"0": "", "1": name}


def test_an_openclaws_try_keeps_its_version_by_its_session(
    gateway: GatewayThread, upstream: StubUpstream, task: Task, token: str
) -> None:
    """Its plug-in says the task and the session, which is a try's own, and no index."""
    Worker.objects.filter(pk=task.worker_id).update(kind="openclaw", base_model="base")

    def answer(session: str) -> str:
        headers = {"X-Tentalis-Task": str(task.pk), "X-Session-Id": f"tentalis:{task.pk}:{session}"}
        return str(gateway.chat("helper", token=token, headers=headers).headers["X-Tentalis-Adapter"])

    assert answer("0af3") == "base"
    swap(task.worker, 1, upstream)
    name = Adapter.objects.get().name
    wait_for(lambda: gateway.chat("helper", token=token).headers["X-Tentalis-Adapter"] == name)
    assert [answer("0af3"), answer("91b7"), answer("0af3")] == ["base", name, "base"], "no try mixes versions"


@pytest.mark.parametrize("model", ["helper", "base", "gpt-of-somebody", "stub/base"])
def test_a_try_of_an_evaluation_is_answered_as_that_says_whatever_its_harness_asks(
    gateway: GatewayThread, upstream: StubUpstream, task: Task, token: str, model: str
) -> None:
    adapter = make_adapter(task.worker, 7)
    upstream.load(adapter.name)
    wait_for(lambda: gateway.chat(adapter.name, token=token).status_code == 200)
    evaluation = Evaluation.objects.create(
        project=task.project, worker=task.worker, adapter=adapter, purpose="panel", item_set="own", planned=1,
        asked_with={"sampling": {"top_p": 0.9}},
    )  # fmt: skip
    Task.objects.filter(pk=task.pk).update(evaluation=evaluation, pins={"0": adapter.name}, seed=77)
    assert ask(gateway, token, task, model, temperature=0.2, top_k=5, seed=1) == adapter.name
    sent = upstream.requests[-1]["body"]
    assert (sent["temperature"], sent["top_p"], sent["seed"], sent["top_k"]) == (1.0, 0.9, 77, -1)
    beside = {"X-Tentalis-Task": str(task.pk), "X-Turn-Type": "side"}
    assert gateway.chat(model, token=token, headers=beside).headers["X-Tentalis-Adapter"] == adapter.name
    found = [record.header for record in gateway.records[-2:]]
    assert [one["turn"] for one in found] == ["eval", "side"]
    assert {(one["task"], one["adapter"], one["worker"]) for one in found} == {(task.pk, adapter.name, "helper")}
