"""What is kept of each try that somebody asked for."""

import json

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.base.counting import forget_callers
from apps.evals.asking import ask_evaluation, measure_asked
from apps.evals.models import Item, ItemTry, TryRecord
from apps.evals.records import make_record, read_draft
from apps.inference.models import Price
from apps.workers.models import Worker
from apps.worlds.episodes import Episode, PlayedTurn, Seen
from tentalis.core.packing import unpack_float32, unpack_int32
from tentalis.core.token_use import TokenUse
from tentalis.core.worlds import AttemptDraft, DraftStep, ToolCall, Verification
from tests.apps.evals.conftest import make_numbers
from tests.edges.caller import Caller
from tests.fakes import FakeModelServer

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_try_that_was_asked_for_keeps_all_that_came_of_it_and_tells_it_by_rest(
    worker: Worker, alice: User, server: FakeModelServer
) -> None:
    server.usage = {"prompt_tokens": 11, "completion_tokens": 3}
    Price.objects.create(provider=worker.provider, model="desk", input=1, output=2, valid_from=timezone.now())
    taskset = make_numbers(worker.project, range(1, 4))
    Item.objects.filter(prompt="Say 2").update(category="even")
    row = ask_evaluation(worker=worker, taskset=taskset, by=alice)
    measure_asked(row.pk, by="evals")
    forget_callers()
    _, text = create_token(user=alice, name="test", scopes=Right.values, project=None, by=alice)
    caller = Caller(text)
    tries = caller.get(f"evaluations/{row.pk}/tries").body["results"]
    told = {one["place"]: caller.get(f"evaluations/{row.pk}/tries/{one['id']}").body for one in tries}
    assert [told[place]["category"] for place in range(3)] == ["", "even", ""]
    second = told[1]["record"]
    assert (second["answer"], second["text"], second["error"], told[1]["turns"]) == ("2", "2", "", 1)
    assert second["messages"] == [{"role": "user", "content": "Say 2"}, {"role": "assistant", "content": "2"}]
    assert second["verification"]["outcome"] == told[1]["outcome"] == 1.0
    assert told[2]["record"]["verification"]["outcome"] == 0.0
    assert (told[1]["prompt_tokens"], told[1]["completion_tokens"]) == (11, 3)
    assert told[1]["cost_usd"] == pytest.approx((11 + 2 * 3) / 1e6)
    assert told[1]["seconds"] > 0
    assert len(second["token_ids"]) == len(second["logprobs"]) == sum(second["turn_tokens"]) > 0
    assert caller.get(f"evaluations/{row.pk}/tries/{10**9}").status == 404
    sent = {json.dumps(one.body["messages"]) for one in server.requests if "messages" in one.body}
    kept = TryRecord.objects.values_list("messages", flat=True)
    assert {json.dumps(one[:1]) for one in kept} == sent


def test_what_the_gate_measures_keeps_none(worker: Worker, alice: User, server: FakeModelServer) -> None:
    row = ask_evaluation(worker=worker, taskset=make_numbers(worker.project, range(1, 3)), by=alice)
    type(row).objects.update(purpose="fresh")
    measure_asked(row.pk, by="evals")
    assert (ItemTry.objects.count(), TryRecord.objects.count()) == (2, 0)


def test_an_episode_is_kept_turn_by_turn_and_read_again_as_it_was() -> None:
    opening = [{"role": "user", "content": "Count."}]
    call = ToolCall(id="a", name="count", arguments="{}")
    asks = {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]}
    first = PlayedTurn(
        draft=AttemptDraft(
            messages=opening, token_ids=[5, 6], logprobs=[-0.5, -1.0], sampled=[True, False], use=TokenUse(4, 2),
            steps=[DraftStep(kind="call", text="count", tool_name="count")], request={"tools": [{"type": "function"}]},
        ),
        calls=[call], added=[asks], seen=[Seen(text="three\x00")],
    )  # fmt: skip
    then = [*opening, *first.messages]
    last = PlayedTurn(
        draft=AttemptDraft(
            text="3", answer="3", messages=then, token_ids=[7], logprobs=[-2.0], sampled=[True], use=TokenUse(9, 1),
            steps=[DraftStep(kind="answer", text="3")], finish_reason="stop",
        ),
        added=[{"role": "assistant", "content": "3"}], seen=(),
    )  # fmt: skip
    episode = Episode(key="k", prompt="Count.", opening=opening, turns=[first, last])
    found = Verification(outcome=1.0, checks=[{"check": "x"}])
    record, numbers = make_record(episode.join(), found, turns=[first.draft, last.draft], opening=opening)
    assert [one["role"] for one in record.messages] == ["user", "assistant", "tool", "assistant"]
    assert record.messages[2]["content"] == "three\ufffd", "what Postgres cannot hold"
    assert record.turn_tokens == [1, 1]
    assert (numbers["turns"], numbers["prompt_tokens"], numbers["completion_tokens"]) == (2, 13, 3)
    assert (unpack_int32(record.token_ids), unpack_float32(record.logprobs)) == ([5, 7], [-0.5, -2.0])
    assert record.verification == {"outcome": 1.0, "checks": [{"check": "x"}]}
    again = read_draft(record)
    assert (again.answer, [(one.kind, one.tool_name) for one in again.steps]) == (
        "3",
        [("call", "count"), ("answer", "")],
    )
    other, _ = make_record(
        episode.join(), found, turns=[first.draft, last.draft], opening=[{"role": "user", "content": "?"}]
    )
    assert record.prompt_hash != other.prompt_hash
