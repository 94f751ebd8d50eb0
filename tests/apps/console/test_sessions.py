"""Sessions and calls: found by what one knows of them, shown as they were said, token by token."""

import html
import json
import math
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache
from django.urls import reverse

from apps.accounts.models import Project, User
from apps.console.rendering.tokens import BUCKETS, bucket_of, clean_piece, render_tokens, say_probability
from apps.console.selectors.exchange import keep_spelling, show_exchange
from apps.console.selectors.trace_tree import MOST_DEPTH, TreeCall, TreeTool, grow_tree
from apps.conversations.models import Turn, TurnExchange, TurnSignal
from apps.feedback.models import Feedback
from apps.inference.client import ModelClient
from apps.inference.models import Exchange, Session
from apps.rollouts.models import Batch, Rollout, TrainingUse
from tentalis.core.packing import pack_bools, pack_float32, pack_int32
from tests.apps.console.builders import sign_in
from tests.factories import make_attempt, make_task, make_worker
from tests.fakes import FakeModelServer

CSS = Path(__file__).parents[3] / "static" / "css" / "gateway.css"


def path(name: str, *args: object) -> str:
    return reverse(f"console:{name}", args=("shop", *args))


def make_exchange(project: Project, count: int = 4, **values: Any) -> Exchange:
    said = {
        "model": "desk",
        "messages": [{"role": "user", "content": "What does it cost?"}],
        "text": "It costs 4",
        "prompt_token_ids": pack_int32([1, 2, 3]),
        "token_ids": pack_int32(range(100, 100 + count)),
        "logprobs": pack_float32([-0.01, -0.5, -2.0, -6.0][:count] + [-0.3] * (count - 4)),
        "sampled": pack_bools([place != 1 for place in range(count)]),
        "prompt_tokens": 3,
        "completion_tokens": count,
    }
    return Exchange.objects.create(project=project, **said | values)


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logprob", "name"),
    [(0.0, "sure"), (math.log(0.9), "sure"), (math.log(0.89), "likely"), (math.log(0.2), "open"),
     (math.log(0.05), "unlikely"), (-50.0, "rare"), (-math.inf, "rare"), (math.nan, "rare")],
)  # fmt: skip
def test_a_log_prob_falls_into_one_stretch(logprob: float, name: str) -> None:
    assert bucket_of(logprob) == name


def test_chances_are_said_as_people_read_them() -> None:
    assert [say_probability(math.log(chance)) for chance in (1.0, 0.5, 0.001)] == [
        "100\u00a0%",
        "50\u00a0%",
        "0.1\u00a0%",
    ]
    assert say_probability(-40) == "< 0.01\u00a0%"


def test_tokens_are_marked_by_how_likely_they_were_and_given_ones_apart() -> None:
    words, logprobs = ["It", " <b>", "\n"], [-0.01, -3.0, -9.0]
    made = render_tokens([7, 8, 9], texts=words, logprobs=logprobs, sampled=[True, True, False], marks={1: "step 2"})
    assert re.findall(r'<i class="(\w+)"', made) == ["sure", "unlikely", "given"]
    assert "&lt;b&gt;" in made
    assert "<b>" not in made.replace('<b class="begins">', "")
    assert made.index("step 2") < made.index("&lt;b&gt;")
    assert 'title="4.98\u00a0% · -3.000 · 8"' in made


def test_hidden_characters_in_tokens_are_shown() -> None:
    assert "U+202E" in render_tokens([1], texts=["a\u202eb"])


def test_pieces_of_other_tokenizers_are_read() -> None:
    assert [clean_piece(piece) for piece in ("Ġthe", "▁cat", "Ċ")] == [" the", " cat", "\n"]


def test_every_stretch_has_a_look_without_colour() -> None:
    """Colour alone tells nobody anything: each has an underline of its own."""
    css = CSS.read_text(encoding="utf-8")
    looks = [re.findall(rf"\.tokens \.{bucket.name} {{[^}}]*text-decoration: ([^;]+);", css) for bucket in BUCKETS[1:]]
    assert all(looks)
    assert len({look[0] for look in looks}) == len(BUCKETS) - 1


@pytest.mark.django_db
def test_eight_thousand_tokens_are_shown_at_once(project: Project, alice: User) -> None:
    count = 8192
    exchange = make_exchange(project, count, prompt_token_ids=pack_int32(range(count)), prompt_tokens=count)
    keep_spelling(exchange, list(range(100, 100 + count)), [f" word{place}" for place in range(count)])
    client = sign_in(alice)
    client.get(path("exchange", exchange.pk))
    begun = time.perf_counter()
    page = client.get(path("exchange", exchange.pk)).content.decode()
    took_s = time.perf_counter() - begun
    assert page.count("<i class=") >= count
    assert len(page) < 900_000
    assert took_s < 2.0, f"took {took_s:.2f} s"


# --- calls -----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_call_that_goes_on_shows_the_whole_talk_and_what_is_new(project: Project, alice: User) -> None:
    first = make_exchange(project)
    second = make_exchange(
        project,
        parent=first,
        shared_messages=2,
        shared_tokens=7,
        messages=[{"role": "user", "content": "And with shipping?"}],
        prompt_token_ids=pack_int32([50, 51]),
        text="It costs 9",
        request={"temperature": 0.7, "tools": [{"type": "function", "function": {"name": "stock"}}]},
    )
    client = sign_in(alice)
    page = client.get(path("exchange", second.pk) + "?prompt=1").content.decode()
    for words in ("2 messages repeated from the call before", "What does it cost?", "And with shipping?", "It costs 9",
                  "7 tokens repeated from the call before", "Temperature", "1 tool offered", "stock"):  # fmt: skip
        assert words in page, words
    assert path("exchange", first.pk) in page
    told = client.get(path("exchange-json", second.pk))
    assert told.headers["Content-Disposition"] == f'attachment; filename="exchange-{second.pk}.json"'
    data = json.loads(told.content)
    assert data["prompt_token_ids"] == [1, 2, 3, 100, 101, 102, 103, 50, 51]
    assert [message["content"] for message in data["messages"]] == [
        "What does it cost?", "It costs 4", "And with shipping?"
    ]  # fmt: skip


@pytest.mark.django_db
def test_a_call_whose_beginning_was_deleted_says_so(project: Project, alice: User) -> None:
    first = make_exchange(project)
    second = make_exchange(project, parent=first, shared_messages=2, shared_tokens=7, messages=[])
    first.delete()
    page = sign_in(alice).get(path("exchange", second.pk)).content.decode()
    assert "Part of this conversation was deleted" in page


@pytest.mark.django_db
def test_marks_say_what_was_wrong_with_a_call(project: Project, alice: User) -> None:
    exchange = make_exchange(
        project, status=503, error="no server", is_truncated=True, is_mixed=True, turn="side", is_streamed=True
    )
    page = sign_in(alice).get(path("exchange", exchange.pk)).content.decode()
    for words in ("Error 503", "Cut off", "Mixed", "Beside", "Streamed", "no server"):
        assert words in page, words
    shown = make_exchange(project, error="it was shown more than text (image_url)")
    page = sign_in(alice).get(path("exchange", shown.pk)).content.decode()
    assert "Tokens not exact" in page
    assert "Error 200" not in page


@pytest.mark.django_db
def test_a_call_leads_to_what_learned_from_it(project: Project, alice: User) -> None:
    worker = make_worker(project)
    task = make_task(project, worker)
    attempt = make_attempt(task, tokens=6)
    rollout = Rollout.objects.create(
        project=project, worker=worker, task=task, attempt=attempt, is_usable=True, reward=0.75, reward_source="human",
        steps=[[0, 3, 1.0, None], [4, 6, 0.0, None]],
    )  # fmt: skip
    batch = Batch.objects.create(project=project, worker=worker, number=9, target_tasks=2)
    TrainingUse.objects.create(rollout=rollout, batch=batch)
    exchange = attempt.exchange
    assert exchange is not None
    page = sign_in(alice).get(path("exchange", exchange.pk)).content.decode()
    for words in (path("task", task.pk), "attempt 1", "in batch 9", "0.75", "a person&#x27;s feedback", "step 2"):
        assert words in page, words


@pytest.mark.django_db
def test_what_tokens_write_is_asked_once_of_the_server_that_served_them(project: Project, alice: User) -> None:
    cache.clear()
    exchange = make_exchange(project)
    assert show_exchange(project, exchange.pk) is not None
    client = sign_in(alice)
    page = client.get(path("exchange", exchange.pk)).content.decode()
    assert "?words=1" in page
    assert 'hx-trigger="load"' in page
    asked = client.get(path("exchange", exchange.pk) + "?words=1&fragment=exchange_tokens").content.decode()
    assert "can no longer decode them" in asked
    assert 'hx-trigger="load"' not in asked
    keep_spelling(exchange, [100, 101, 102, 103], ["It", " costs", " 4", "<|end|>"])
    page = client.get(path("exchange", exchange.pk)).content.decode()
    assert "&lt;|end|&gt;" in page
    assert 'hx-trigger="load"' not in page
    cache.clear()


def test_a_server_that_speaks_vllms_dialect_spells_its_tokens() -> None:
    with FakeModelServer() as server:
        client = ModelClient(server.url, kind="vllm", allow_private=True)
        ids = client.tokenize("Name the price.", model="desk")
        words = client.spell(ids, model="desk")
        assert words is not None
        assert len(words) == len(ids)
        assert "".join(words) == "Name the price."


# --- sessions --------------------------------------------------------------------------------------------------------


@pytest.fixture
def talk(project: Project) -> Session:
    session = Session.objects.create(project=project, key="claw-1", worker_name="desk", end_user="Anna")
    Session.objects.create(project=project, key="claw-2", worker_name="other", end_user="Ben")
    first = make_exchange(project, session=session, cost_usd="0.25")
    make_exchange(project, session=session, turn="side", status=500, error="gone", text="")
    turn = Turn.objects.create(project=project, session=session, number=0, state="settled", closed_by="next")
    task = make_task(project)
    Turn.objects.filter(pk=turn.pk).update(task=task)
    TurnExchange.objects.create(exchange=first, turn=turn)
    TurnSignal.objects.create(
        turn=turn, kind="corrected", source="rule", score=0.0, trust=0.7, reason="the next words say otherwise"
    )
    Feedback.objects.create(project=project, task=task, source="outside", author="rule:next", score=0.0)
    return session


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("query", "found"),
    [("", {"claw-1", "claw-2"}), ("worker=desk", {"claw-1"}), ("end_user=Ben", {"claw-2"}), ("trouble=1", {"claw-1"}),
     ("key=claw-2", {"claw-2"}), ("state=closed", set()), ("end_user=Nobody", set())],
)  # fmt: skip
def test_sessions_are_found_by_worker_person_key_state_and_trouble(
    talk: Session, alice: User, query: str, found: set[str]
) -> None:
    page = sign_in(alice).get(f"{path('session-list')}?{query}")
    assert {row.session.key for row in page.context["rows"]} == found
    if not found:
        assert "No session matches" in page.content.decode()


@pytest.mark.django_db
def test_a_call_is_found_by_the_id_its_caller_was_told(talk: Session, alice: User) -> None:
    exchange = talk.exchanges.earliest("pk")
    answer = sign_in(alice).get(path("session-list"), {"key": str(exchange.public_id)})
    assert answer.headers["Location"] == path("exchange", exchange.pk)
    other = sign_in(alice).get(path("session-list"), {"key": "0" * 36})
    assert other.status_code == 200


@pytest.mark.django_db
def test_a_session_shows_turns_with_what_they_showed_and_became(talk: Session, alice: User) -> None:
    page = sign_in(alice).get(path("session", talk.pk)).content.decode()
    task = Turn.objects.get().task
    assert task is not None
    for words in ("Turn 1", "Corrected", "weight 0.70", f"task {task.pk}", "$0.25", "Beside",
                  path("feedback", Feedback.objects.get().pk), "ended by the next message"):  # fmt: skip
        assert words in page, words
    assert "<html" not in sign_in(alice).get(path("session", talk.pk), {"fragment": "session"}).content.decode()


@pytest.mark.django_db
def test_an_empty_list_says_where_to_point_an_agent(project: Project, alice: User) -> None:
    make_worker(project, name="clerk")
    page = html.unescape(sign_in(alice).get(path("session-list")).content.decode())
    for words in ("OPENAI_BASE_URL=http://testserver:", "ANTHROPIC_BASE_URL", "configure clerk", 'model="clerk"'):
        assert words in page, words


@pytest.mark.django_db
def test_token_texts_come_from_the_workers_own_tokenizer_where_no_server_tells(
    project: Project, alice: User, tmp_path: Path
) -> None:
    """And never for an answer of another model: a fallback's tokens are spelled by nobody here."""
    cache.clear()
    vocabulary = {"It": 100, "Ġcosts": 101, "Ġ4": 102}
    told = {"model": {"vocab": vocabulary}, "added_tokens": [{"id": 103, "content": "<|end|>"}]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(told))
    make_worker(project, name="own", kind="chat", base_model="mine", base_directory=str(tmp_path))
    exchange = make_exchange(project)
    Exchange.objects.filter(pk=exchange.pk).update(worker_name="own", model="mine", adapter_name="")
    other = Exchange.objects.get(pk=exchange.pk)
    view = show_exchange(project, exchange.pk, ask=True)
    assert view is not None
    assert view.words == ["It", " costs", " 4", "<|end|>"]
    cache.clear()
    other.fallback_reason = "mine is away"
    other.save(update_fields=["fallback_reason"])
    view = show_exchange(project, exchange.pk, ask=True)
    assert view is not None
    assert view.words is None
    cache.clear()


def call(
    pk: int, parent: int | None = None, *, tools: tuple[tuple[str, str], ...] = (), turn: str = "main"
) -> TreeCall:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=pk)
    return TreeCall(
        pk, parent, turn, "m", f"answer {pk}", "", at - timedelta(milliseconds=500), at, 500.0, 10, 5,
        [TreeTool(name, given) for name, given in tools],
    )  # fmt: skip


def outline(talk: list[TreeCall]) -> list[Any]:
    """The tree as lists: a call's number, then (tool, talks it started), then talks beside it."""
    found: list[Any] = []
    for one in talk:
        found.append(one.pk)
        found += [(tool.name, [outline(started) for started in tool.started]) for tool in one.tools]
        found += [{"beside": outline(beside)} for beside in one.beside]
    return found


def test_a_sub_agent_hangs_below_the_tool_that_started_it() -> None:
    calls = [
        call(1, tools=(("read", "file.py"), ("task", "Look into the tests. Say why."))),
        call(2, tools=(("grep", "def"),)),
        call(3, 2),
        call(4, 1),
        call(5, turn="side"),
        call(6, 4),
        call(7),
    ]
    top = grow_tree(calls, {2: "Look into the tests."})
    assert [outline(talk) for talk in top] == [
        [1, ("read", []), ("task", [[2, ("grep", []), 3]]), 4, {"beside": [5]}, 6],
        [7],
    ]
    assert calls[0].left == 0
    assert calls[-1].left + calls[-1].width == pytest.approx(100)


def test_agents_that_start_each_other_without_end_are_shown_to_a_depth() -> None:
    calls = [call(number, tools=(("task", f"work {number + 1}."),)) for number in range(1, 40)]
    top = grow_tree(calls, {number: f"work {number}." for number in range(2, 40)})
    assert max(one.depth for one in calls) == MOST_DEPTH
    assert sum(len(talk) for talk in top) == 39 - sum(one.depth > 0 for one in calls)


@pytest.mark.django_db
def test_a_session_with_tools_begins_with_its_tree(project: Project, alice: User) -> None:
    session = Session.objects.create(project=project, key="nested")
    said = {"project": project, "session": session, "model": "m", "messages": [{"role": "user", "content": "Go."}]}
    given = {"function": {"name": "task", "arguments": json.dumps({"prompt": "Count the <b>lamps</b>."})}}
    first = Exchange.objects.create(**said, text="I ask.", tool_calls=[given], latency_ms=80)
    counting = [{"role": "user", "content": "Count the <b>lamps</b>."}]
    Exchange.objects.create(**said | {"messages": counting}, text="12.", latency_ms=20)
    Exchange.objects.create(**said, parent=first, shared_messages=2, text="There are 12.")
    page = sign_in(alice).get(path("session", session.pk)).content.decode()
    tree = page[page.index('id="tree-title"') : page.index('aria-label="Calls"')]
    assert tree.index("<code>task</code>") < tree.index("12.") < tree.index("There are 12.")
    assert "&lt;b&gt;lamps" in tree
    assert tree.count("<details open>") == 2


@pytest.mark.django_db
def test_a_call_whose_arguments_are_too_deep_to_read_stands_as_it_is(project: Project, alice: User) -> None:
    session = Session.objects.create(project=project, key="deep")
    given = {"function": {"name": "dig", "arguments": "[" * 20_000}}
    said = {"role": "assistant", "content": None, "tool_calls": [given]}
    Exchange.objects.create(
        project=project, session=session, model="m", messages=[{"role": "user", "content": "Go."}, said],
        text="Dug.", tool_calls=[given],
    )  # fmt: skip
    page = sign_in(alice).get(path("session", session.pk))
    assert page.status_code == 200
    assert "dig" in page.content.decode()
