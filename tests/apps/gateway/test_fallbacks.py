"""Where a worker's own model cannot be had its fallbacks answer, and what they say is told apart from its own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.base.errors import BadInputError
from apps.conversations.models import Turn
from apps.gateway.capture import capture
from apps.gateway.conversation_delta import Placed
from apps.gateway.rows import COLUMNS, make_row
from apps.inference.breaker import SILENCES
from apps.inference.models import FELL_BACK, Exchange
from apps.rollouts.models import Rollout
from apps.rollouts.services import build_rollouts
from apps.workers.models import Worker
from apps.workers.services import change_worker, create_worker
from tests.apps.conversations.conftest import read, talk  # noqa: F401
from tests.apps.conversations.talk import Talk, user
from tests.apps.gateway.running import GatewayThread, make_agent_token, make_chat_worker, make_provider
from tests.apps.gateway.upstream import StubUpstream

STRONG, OTHER = "far/strong", "second"


@pytest.fixture(scope="module")
def shared_far() -> Iterator[StubUpstream]:
    with StubUpstream(models=("strong", "base")) as upstream:
        yield upstream


@pytest.fixture
def far(shared_far: StubUpstream) -> StubUpstream:
    shared_far.reset()
    return shared_far


@pytest.fixture
def backed(helper: Worker, far: StubUpstream) -> Worker:
    """`helper`, for whom `far/strong` answers where its own server does not."""
    make_provider(helper.project, far.url, name="far", kind="custom", default_model="strong")
    Worker.objects.filter(pk=helper.pk).update(fallbacks=[STRONG])
    helper.refresh_from_db()
    return helper


@pytest.fixture
def edge(backed: Worker, token: str) -> Iterator[GatewayThread]:
    with GatewayThread() as running:
        yield running


def test_an_answer_of_the_worker_itself_says_nothing_of_fallbacks(
    edge: GatewayThread, token: str, far: StubUpstream
) -> None:
    answer = edge.chat("helper", token=token)
    assert (answer.status_code, answer.headers.get("X-Tentalis-Fallback")) == (200, None)
    assert "fallback" not in edge.records[0].header
    assert far.requests == []


@pytest.mark.parametrize("status", [429, 500, 503, 529])
@pytest.mark.parametrize("is_stream", [False, True])
def test_the_next_is_asked_before_the_first_byte(
    edge: GatewayThread, token: str, upstream: StubUpstream, far: StubUpstream, status: int, is_stream: bool
) -> None:
    upstream.plan(status=status)
    answer = edge.chat("helper", token=token, stream=is_stream)
    assert (answer.status_code, answer.headers["X-Tentalis-Fallback"]) == (200, STRONG)
    assert [seen["body"]["model"] for seen in far.requests] == ["strong"]
    assert "return_token_ids" not in far.requests[0]["body"]
    [record] = edge.records
    header = record.header
    assert (header["worker"], header["model"], header["asked"], header["upstream"]) == (
        "helper",
        "helper",
        "strong",
        far.url,
    )
    assert (header["error"], header["status"]) == ("", 200)
    assert header["fallback"].startswith("helper: stub")
    assert str(status) in header["fallback"]


def test_a_server_that_is_gone_silent_or_out_of_credit_is_passed_over(
    project: Project, backed: Worker, token: str, far: StubUpstream, upstream: StubUpstream
) -> None:
    with StubUpstream() as gone:
        make_chat_worker(project, make_provider(project, gone.url, name="gone"), "lonely")
        make_chat_worker(project, make_provider(project, upstream.url, name="slow", timeout_s=0.2), "late")
    Worker.objects.filter(name__in=["lonely", "late"]).update(fallbacks=[STRONG])
    with GatewayThread() as gateway:
        lonely = gateway.chat("lonely", token=token)
        upstream.plan(think_s=5)
        late = gateway.chat("late", token=token, stream=True)
        upstream.plan(think_s=0, status=402)
        poor = gateway.chat("helper", token=token)
    reasons = [record.header.get("fallback") for record in gateway.records]
    assert [lonely.status_code, late.status_code, poor.status_code] == [200, 200, 200]
    assert reasons[0] == "lonely: gone is down: no connection"
    assert reasons[1] == "late: slow was silent for 0.2 s"
    assert "402" in str(reasons[2])


def test_what_is_the_requests_own_fault_is_nobody_elses(
    edge: GatewayThread, token: str, far: StubUpstream, upstream: StubUpstream
) -> None:
    upstream.plan(status=400)
    assert edge.chat("helper", token=token).status_code == 400
    assert far.requests == []


def test_each_api_falls_back_in_its_own_words(
    edge: GatewayThread, token: str, upstream: StubUpstream, far: StubUpstream
) -> None:
    upstream.plan(status=503)
    far.plan(reply="Good day.")
    bodies: dict[str, dict[str, Any]] = {
        "/v1/messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 9},
        "/v1/responses": {"input": "hello"},
    }
    for path, body in bodies.items():
        for is_stream in (False, True):
            asked = body | {"model": "helper", "stream": is_stream}
            answer = edge.client.post(path, json=asked, headers={"x-api-key": token})
            assert answer.status_code == 200
            assert "Good" in answer.text


def test_where_nobody_answers_the_first_refusal_is_told_and_what_the_others_said(
    edge: GatewayThread, token: str, upstream: StubUpstream, far: StubUpstream
) -> None:
    upstream.plan(status=429, retry_after="7")
    far.plan(status=500)
    answer = edge.chat("helper", token=token)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
    message = answer.json()["error"]["message"]
    assert message.startswith("stub: the stub was told to answer 429; far/strong: far: ")
    assert "fallback" not in edge.records[0].header


def test_who_failed_a_few_times_cools_down_and_is_tried_again_by_one(
    edge: GatewayThread, token: str, upstream: StubUpstream, far: StubUpstream
) -> None:
    upstream.plan(status=500)
    for _ in range(SILENCES):
        edge.chat("helper", token=token)
    upstream.plan(status=200)
    before = len(upstream.requests)
    assert edge.chat("helper", token=token).headers["X-Tentalis-Fallback"] == STRONG
    assert len(upstream.requests) == before
    assert f"gave no answer {SILENCES} times in a row" in edge.records[-1].header["fallback"]
    far.plan(status=500)  # nobody else is left: who cools down is asked all the same
    last = edge.chat("helper", token=token)
    assert (last.status_code, last.headers.get("X-Tentalis-Fallback")) == (200, None)
    assert edge.chat("helper", token=token).headers.get("X-Tentalis-Fallback") is None


def test_a_429_cools_down_at_once_for_as_long_as_it_says(
    edge: GatewayThread, token: str, upstream: StubUpstream, far: StubUpstream
) -> None:
    upstream.plan(status=429, retry_after="60")
    edge.chat("helper", token=token)
    edge.chat("helper", token=token)
    assert len(upstream.requests) == 1
    assert (
        "can take no more and is left alone for now; it is asked again in 60 s" in edge.records[-1].header["fallback"]
    )


def test_a_fallback_may_be_another_worker_and_what_is_not_there_is_passed_over(
    project: Project, backed: Worker, token: str, upstream: StubUpstream, far: StubUpstream
) -> None:
    make_chat_worker(project, make_provider(project, far.url, name="near"), OTHER)
    Worker.objects.filter(pk=backed.pk).update(fallbacks=["nowhere/x", OTHER])
    upstream.plan(status=503)
    with GatewayThread() as gateway:
        answer = gateway.chat("helper", token=token)
        pinned = gateway.chat("stub/base", token=token)
    assert (answer.status_code, answer.headers["X-Tentalis-Fallback"], pinned.status_code) == (200, OTHER, 503)
    header = gateway.records[0].header
    assert (header["worker"], header["asked"]) == ("helper", "base")
    assert "nowhere/x: no model 'nowhere/x' here" in header["fallback"]


def test_a_request_is_counted_once_and_tokens_where_they_were_used(
    project: Project, backed: Worker, upstream: StubUpstream, far: StubUpstream
) -> None:
    token = make_agent_token(project, "thrifty", requests_per_minute=2, tokens_per_day=10_000)
    type(backed.provider).objects.filter(name="far").update(requests_per_minute=1)  # type: ignore[union-attr]
    upstream.plan(status=503)
    with GatewayThread() as gateway:
        answers = [gateway.chat("helper", token=token) for _ in range(3)]
        spent = {key: count.said + count.unsaid for key, count in gateway.edge.budgets._counts.items()}
    assert [answer.status_code for answer in answers] == [200, 503, 429]  # ours, then the far server's limit
    assert "provider far may use 1 requests a minute" in answers[1].json()["error"]["message"]
    tokens = answers[0].json()["usage"]["total_tokens"]
    by_metric = {(key.partition(":")[0], metric): amount for (key, metric), amount in spent.items()}
    assert by_metric["token", "tokens_per_day"] == tokens
    assert by_metric["token", "requests_per_minute"] == 2
    assert by_metric["provider", "requests_per_minute"] == 1


def test_the_row_says_which_answered_and_why_not_the_first(
    edge: GatewayThread, token: str, upstream: StubUpstream, backed: Worker
) -> None:
    upstream.plan(status=503)
    edge.chat("helper", token=token)
    [captured] = capture(edge.records[0])
    placed = Placed(None, 0, 0, captured.messages, captured.request, b"")
    row = dict(zip(COLUMNS, make_row(captured, placed, pk=1, session_id=1, provider_id=None), strict=True))
    assert row["fallback_reason"].startswith("helper: stub is down: status 503")
    assert (row["model"], row["worker_name"]) == ("strong", "helper")


def test_an_answer_of_a_fallback_trains_nobody(talk: Talk, read: Callable[[Talk], list[Turn]]) -> None:  # noqa: F811
    talk.ask(user("What is two and two?"), answer="It is four.", fallback_reason="helper: stub is down")
    talk.ask(user("Thanks!"), answer="You are welcome.")
    task = read(talk)[0].task
    assert task is not None
    exchange = Exchange.objects.order_by("id")[0]
    assert exchange.token_ids
    assert (exchange.has_exact_tokens, exchange.token_fault) == (False, FELL_BACK)
    build_rollouts([task.pk], by="test")
    rollout = Rollout.objects.get(task=task)
    assert (rollout.is_usable, rollout.unusable_reason) == (False, FELL_BACK)


def test_nor_does_a_turn_in_which_one_helped(talk: Talk, read: Callable[[Talk], list[Turn]]) -> None:  # noqa: F811
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    talk.ask(user("Where is order 7?"), calls=[call], fallback_reason="helper: stub is down")
    talk.ask({"role": "tool", "tool_call_id": "c1", "content": "in Berlin"}, answer="It is in Berlin.")
    talk.ask(user("Great, thanks"), answer="Bye.")
    task = read(talk)[0].task
    assert task is not None
    build_rollouts([task.pk], by="test")
    assert Rollout.objects.get(task=task).unusable_reason == FELL_BACK


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["nowhere/x"], "no model server nowhere"),
        (["helper"], "no fallback of its own"),
        (["nobody"], "server/model, or another worker"),
        ([f"engine/m{n}" for n in range(6)], "at most 5"),
        (["engine/a", "engine/a"], "each once"),
        ("engine/a", "a list of names"),
    ],
)
def test_names_are_looked_at_when_they_are_given(alice: User, helper: Worker, names: Any, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        change_worker(worker=helper, by=alice, fallbacks=names)
    with pytest.raises(BadInputError, match="worker of kind echo asks no model"):
        create_worker(project=helper.project, name="parrot", kind="echo", by=alice, fallbacks=["helper"])


def test_names_that_hold_are_kept(alice: User, backed: Worker) -> None:
    Worker.objects.create(project=backed.project, name=OTHER, kind="desk")
    changed = change_worker(worker=backed, by=alice, fallbacks=[OTHER, "far/any/model", "engine/desk"])
    assert changed.fallbacks == [OTHER, "far/any/model", "engine/desk"]
