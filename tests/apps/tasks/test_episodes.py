"""Attempts in worlds with turns: kept turn by turn, gone on with, never done twice, and no answer before their end."""

import math
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import Member, Project, Role, User
from apps.accounts.rights import Right
from apps.accounts.tokens import create_token
from apps.audit.models import AuditEntry
from apps.base.errors import BadInputError, ConflictError
from apps.erasure.records import find_person
from apps.evals.asking import measure_asked, open_items
from apps.evals.measuring import measure
from apps.evals.models import Evaluation, Item, Taskset
from apps.evals.panels import LEAST_OWN, ItemSet, choose_panel, has_panel, say_missing
from apps.feedback.models import Feedback
from apps.inference.errors import ProviderBusyError
from apps.inference.models import Exchange
from apps.inference.selectors import read_conversations
from apps.outbox.links import LINKS, run_claim
from apps.outbox.models import Segment
from apps.outbox.services import Hold, end_unwritten, hold, release, replay
from apps.pipeline import bridge, flow
from apps.pipeline.supervision import learn_from_waits
from apps.rollouts.examples import iterate_demonstrations, put_items
from apps.rollouts.models import Batch, Demonstration, Rollout
from apps.rollouts.services import build_rollouts
from apps.rollouts.tokens import load_conversations, read_parts
from apps.scoring.services import score_tasks
from apps.supervision.approving import ProposedCalls
from apps.supervision.errors import AlreadyDecidedError, NotYoursToDecideError
from apps.supervision.models import Proposal
from apps.supervision.services import decide, expire_proposals, take_models_word
from apps.tasks.errors import AllLostError
from apps.tasks.models import Attempt, EpisodeTurn, Step, Task
from apps.tasks.observations import find_all_observed
from apps.tasks.playing import play_task
from apps.workers.kinds import KINDS
from apps.workers.models import Worker
from apps.worlds.episodes import TAKEN_OVER, Episode, PlayedTurn
from apps.worlds.identity import name_world
from apps.worlds.registry import WORLDS, get_world
from tentalis.core.learning.gate import GatePolicy
from tentalis.core.scoring.judging import Decision
from tentalis.core.worlds import (
    AgentKind,
    AttemptDraft,
    EpisodeLimits,
    Observation,
    PanelItem,
    StateLostError,
    ToolCall,
    TurnDraft,
    Verification,
)
from tentalis.sandbox.errors import SandboxLostError
from tests.apps.console.builders import sign_in
from tests.apps.supervision.builders import let_time_pass
from tests.apps.worlds.tally_package import AGENT, EFFECTS, Tally, TallyAgent, TallyWorld
from tests.edges.caller import Caller
from tests.factories import make_user, make_worker
from tests.links import take_link

pytestmark = pytest.mark.django_db


class KilledError(BaseException):
    """As a `kill -9`: nothing of ours catches it."""


class Stage:
    """The tally world and its agent, and what goes wrong with them: `before_act` and `before_turn` may raise."""

    def __init__(self, effects: Path) -> None:
        self.effects = effects
        self.before_act: Callable[[int], None] = lambda count: None
        self.behind_act: Callable[[int], None] = lambda count: None
        self.before_turn: Callable[[int], None] = lambda turn: None
        self.acts = self.resets = self.closed = 0
        stage = self

        class World(TallyWorld):
            def reset(self, prompt: str, seed: int | None) -> Tally:
                stage.resets += 1
                return super().reset(prompt, seed)

            def act(self, state: Tally, call: ToolCall, key: str) -> Observation:
                stage.acts += 1
                stage.before_act(stage.acts)
                said = super().act(state, call, key)
                stage.behind_act(stage.acts)
                return said

            def close(self, state: Tally) -> None:
                stage.closed += 1

        class Agent(TallyAgent):
            def take_turns(self, asked: Sequence[Any], **kwargs: Any) -> list[TurnDraft]:
                for one in asked:
                    stage.before_turn(one.turn)
                return super().take_turns(asked, **kwargs)

        self.world, self.agent = World, Agent

    def count_effects(self) -> tuple[int, int]:
        """(how many were asked for, how many came of it)."""
        with closing(sqlite3.connect(self.effects)) as effects:
            asked, made = effects.execute("SELECT sum(asked), count(*) FROM effect").fetchone()
        return int(asked), int(made)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Stage:
    stage = Stage(tmp_path / "effects.sqlite")
    monkeypatch.setenv(EFFECTS, str(stage.effects))
    settings.ARTIFACTS = tmp_path / "artifacts"
    kind = AgentKind(**{**vars(AGENT), "make": lambda seat: stage.agent()})
    monkeypatch.setitem(vars(WORLDS), "_loaded", ({**WORLDS._things, "tally": stage.world()}, ()))
    monkeypatch.setitem(vars(KINDS), "_loaded", ({**KINDS._things, "tallying": kind}, ()))
    return stage


@pytest.fixture
def tallier(project: Project, stage: Stage) -> Worker:
    return make_worker(project, "tallier", kind="tallying")


def read(attempt: Attempt) -> dict[str, Any]:
    assert attempt.verification is not None
    return dict(attempt.verification)


def call_of(turn: EpisodeTurn) -> Exchange:
    assert turn.exchange is not None
    return turn.exchange


def submit(worker: Worker, by: User, prompt: str = "3", **values: Any) -> Task:
    defaults: dict[str, Any] = {"environment": "tally", "group_size": 2}
    return flow.submit(project=worker.project, worker=worker, prompt=prompt, by=by, **defaults | values)


def run_segment(task: Task) -> Segment:
    """Do the playing link as a queue process does; one that was killed has left its claim, which runs out."""
    segment = Segment.objects.get(subject_id=task.pk, kind="episode")
    release(segment, wait_s=0)
    held = Hold(take_link(segment.pk, 0))
    with hold(held):
        play_task(task.pk, by="worker", approvals=ProposedCalls())
        end_unwritten(held)
    segment.refresh_from_db()
    task.refresh_from_db()
    return segment


def run_whole_link(task: Task) -> Segment:
    """The same, and what is raised is kept on its row: of rows that are committed, for the keeper of leases looks."""
    segment = Segment.objects.get(subject_id=task.pk, kind="episode")
    run_claim(LINKS["tasks.play"], take_link(segment.pk, 0))
    segment.refresh_from_db()
    task.refresh_from_db()
    return segment


def test_an_episode_is_played_turn_by_turn_and_is_an_attempt_of_many_calls_in_the_end(
    tallier: Worker, stage: Stage, alice: User
) -> None:
    task = submit(tallier, alice)
    run_segment(task)
    assert task.state == "scoring"
    one, _ = task.attempts.all()
    assert (one.state, one.answer, one.outcome, one.unfit) == ("answered", "3", 1.0, "")
    assert read(one)["grader"] == name_world(get_world("tally"))
    assert read(one)["details"] == {"turns": 4, "actions": 3, "valid_actions": 3}
    assert [step.tool_result for step in one.ordered_steps] == [
        "the tally is 1",
        "the tally is 2",
        "the tally is 3",
        "",
    ]
    assert one.further.count() == 3
    (part,) = read_parts(one, load_conversations([one]))
    assert sum(part.joined.sampled) == sum(len(call_of(turn).unpack_token_ids()) for turn in one.turns.all())
    spans = [(step.token_start, step.token_end) for step in one.ordered_steps]
    assert spans == [*part.joined.spans[:3], (part.joined.spans[3][0] + 1, part.joined.spans[3][1])]
    turns = list(one.turns.all())
    assert [turn.state_hash for turn in turns] == ["1", "1-1", "1-1-1", ""]
    assert [turn.snapshot for turn in turns] == [None] * 4
    assert call_of(turns[1]).parent_id == turns[0].exchange_id
    assert call_of(turns[1]).messages == [{"role": "tool", "tool_call_id": "call_0", "content": "the tally is 1"}]
    assert stage.count_effects() == (6, 6)
    assert (stage.resets, stage.closed) == (2, 2)
    score_tasks([task.pk])
    one.refresh_from_db()
    assert one.score == 1.0
    assert read(one)["details"]["turns"] == 4


def test_a_result_that_is_handed_in_takes_the_place_of_the_episode(tallier: Worker, stage: Stage, alice: User) -> None:
    task = submit(tallier, alice)
    flow.submit_own_attempt(task=task, steps=[], answer="3", by=alice)
    assert [one.kind for one in Segment.objects.filter(subject_id=task.pk, state="open")] == ["work"]
    play_task(task.pk, by="worker", approvals=ProposedCalls())
    assert Attempt.every.filter(task=task).count() == 1


def test_who_says_that_it_could_not_do_a_task_ends_its_episode(tallier: Worker, stage: Stage, alice: User) -> None:
    task = submit(tallier, alice)
    said: dict[str, Any] = {"worker_id": tallier.name, "steps": [], "result": "too hard", "is_done": False, "by": alice}
    assert bridge.hand_in_result(task=task, **said).state == "failed"
    assert not Segment.objects.filter(subject_id=task.pk, state="open").exists()


def test_an_attempt_under_way_is_no_answer_to_anybody(tallier: Worker, stage: Stage, alice: User) -> None:
    task = submit(tallier, alice)

    def look(turn: int) -> None:
        if turn == 1:
            raise ProviderBusyError("the server is away")

    stage.before_turn = look
    with pytest.raises(ProviderBusyError):
        run_segment(task)
    task.refresh_from_db()
    assert task.state == "working"
    assert list(task.attempts.all()) == []
    assert Attempt.objects.count() == 0
    assert [one.state for one in Attempt.every.filter(task=task)] == ["running", "running"]
    assert EpisodeTurn.objects.filter(observations__isnull=False).count() == 2
    stage.before_turn = lambda turn: None
    run_segment(task)
    assert task.state == "scoring"
    assert stage.count_effects() == (6, 6)


@pytest.mark.thorough
@pytest.mark.parametrize("has_snapshots", [True, False])
@pytest.mark.parametrize("is_behind", [True, False])
def test_who_was_killed_in_a_call_goes_on_from_the_last_turn_and_does_nothing_twice(
    tallier: Worker, stage: Stage, alice: User, has_snapshots: bool, is_behind: bool
) -> None:
    def kill(count: int) -> None:
        if count == 2:
            raise KilledError

    if not has_snapshots:
        stage.world.snapshot = lambda self, state: None  # type: ignore[method-assign]
    if is_behind:
        stage.behind_act = kill
    else:
        stage.before_act = kill
    task = submit(tallier, alice, group_size=1)
    with pytest.raises(KilledError):
        run_segment(task)
    assert [turn.observations is None for turn in EpisodeTurn.objects.all()] == [False, True]
    stage.before_act = stage.behind_act = lambda count: None
    run_segment(task)
    assert task.state == "scoring"
    (attempt,) = task.attempts.all()
    assert (attempt.answer, attempt.outcome) == ("3", 1.0)
    assert Attempt.every.count() == 1
    assert stage.count_effects()[1] == 3
    assert len(attempt.ordered_steps) == 4


def test_while_nobody_plays_an_episode_no_time_of_its_own_goes_by(tallier: Worker, stage: Stage, alice: User) -> None:
    def kill(count: int) -> None:
        if count == 2:
            raise KilledError

    stage.behind_act = kill
    task = submit(tallier, alice, group_size=1)
    with pytest.raises(KilledError):
        run_segment(task)
    EpisodeTurn.objects.filter(observations__isnull=True).update(started_at=timezone.now() - timedelta(hours=1))
    run_segment(task)
    (attempt,) = task.attempts.all()
    assert "ended_by" not in read(attempt)["details"]
    assert attempt.elapsed_s is not None
    assert attempt.elapsed_s < TallyWorld.limits.seconds


def test_where_a_call_cannot_be_asked_again_the_attempt_is_lost_and_played_anew(
    tallier: Worker, stage: Stage, alice: User
) -> None:
    def kill(count: int) -> None:
        if count == 2:
            raise KilledError

    stage.world.idempotent = False
    stage.behind_act = kill
    task = submit(tallier, alice, group_size=1)
    with pytest.raises(KilledError):
        run_segment(task)
    run_segment(task)
    lost, played = Attempt.every.order_by("pk")
    assert (lost.state, played.state, played.outcome) == ("lost", "answered", 1.0)
    assert "interrupted in turn 2" in lost.error
    assert read(lost)["infrastructure"] == lost.error
    assert list(task.attempts.all()) == [played]


def test_a_world_that_comes_back_as_another_is_found_out(tallier: Worker, stage: Stage, alice: User) -> None:
    def kill(turn: int) -> None:
        if turn == 2:
            raise KilledError

    stage.before_turn = kill
    task = submit(tallier, alice, group_size=1)
    with pytest.raises(KilledError):
        run_segment(task)
    stage.before_turn = lambda turn: None
    stage.world.restore = lambda self, prompt, snapshot: Tally([7])  # type: ignore[method-assign]
    run_segment(task)
    lost, played = Attempt.every.order_by("pk")
    assert (lost.state, lost.error[:33]) == ("lost", "the state behind turn 2 is not wh")
    assert played.outcome == 1.0


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_user_who_has_more_to_say_is_heard_once_whoever_is_killed_behind_it(
    tallier: Worker, stage: Stage, alice: User, has_snapshots: bool
) -> None:
    def reply(world: TallyWorld, state: Tally, text: str, key: str) -> Observation | None:
        if 0 in state.added:
            return None
        state.added.append(0)
        return Observation(text=f"{text}, you say? Say it again.")

    def kill(turn: int) -> None:
        if turn == 4:
            raise KilledError

    stage.world.reply = reply  # type: ignore[assignment,method-assign]
    if not has_snapshots:
        stage.world.snapshot = lambda self, state: None  # type: ignore[method-assign]
    stage.before_turn = kill
    task = submit(tallier, alice, group_size=1)
    with pytest.raises(KilledError):
        run_segment(task)
    stage.before_turn = lambda turn: None
    run_segment(task)
    (attempt,) = task.attempts.all()
    assert (attempt.answer, attempt.outcome) == ("3", 1.0)
    turns = list(EpisodeTurn.objects.order_by("index"))
    assert [[one.get("text") for one in turn.observations or ()] for turn in turns[3:]] == [
        ["3, you say? Say it again."],
        [],
    ]
    (conversation,) = read_conversations([turns[4].exchange]).values()  # type: ignore[list-item]
    assert [one["role"] for one in conversation.messages[-2:]] == ["assistant", "user"]
    assert [one.kind for one in attempt.ordered_steps] == ["call", "call", "call", "answer", "answer"]


def test_what_a_user_changed_who_heard_the_last_words_is_there_again_behind_a_kill(
    tallier: Worker, stage: Stage, alice: User
) -> None:
    ends: list[list[int]] = []

    def hear(world: TallyWorld, state: Tally, text: str, key: str) -> None:
        state.added.append(0)

    def verify(world: TallyWorld, prompt: str, reference: Any, state: Tally, draft: AttemptDraft) -> Verification:
        ends.append(list(state.added))
        if len(ends) == 1:
            raise KilledError
        return Verification(outcome=1.0)

    stage.world.reply, stage.world.verify_state = hear, verify  # type: ignore[assignment,method-assign]
    stage.world.snapshot = lambda self, state: None  # type: ignore[method-assign]
    task = submit(tallier, alice, group_size=1)
    with pytest.raises(KilledError):
        run_segment(task)
    run_segment(task)
    assert ends == [[1, 1, 1, 0]] * 2


def lie(answer: Any) -> Callable[..., Any]:
    return lambda self, *given: answer


SHARED, NUMBERS = Tally(), count()
WRONG: Any = "png"
SHARED_WORDS = "each episode of tally wants a state of its own", "tally began it in another state than another"
"""As the one acts before the other begins, or behind."""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("lies", "words"),
    [
        ({"hash_state": lie(3)}, "hash_state: wanted str, found int 3"),
        ({"hash_state": lambda self, state: f"{id(self)}-{next(NUMBERS)}"}, "its state changed before turn 1, while"),
        ({"reset": lambda self, prompt, seed: Tally([next(NUMBERS)])}, "tally began it in another state than another"),
        ({"reset": lie(SHARED)}, SHARED_WORDS),
        ({"snapshot": lie("text")}, "snapshot: wanted bytes | None, found str 'text'"),
        ({"act": lie("3")}, "act: wanted Observation, found str '3'"),
        ({"act": lie(Observation(text="a", details={"x": math.nan}))}, "act: wanted details as JSON, found {'x': nan}"),
        ({"act": lie(Observation(text="a", screenshot=b"<svg>"))}, "act: wanted a screenshot as PNG, found b'<svg>'"),
        ({"act": lie(Observation(text="a", screenshot=WRONG))}, "screenshot: wanted bytes, found str 'png'"),
        ({"verify_state": lie(Verification(outcome=math.nan))}, "it could not be verified: ValueError: Out of range"),
        ({"verify_state": lie(Verification(outcome=1.5))}, "outcome: wanted a number from 0 to 1, or None, found 1.5"),
        ({"verify_state": lie(Verification(outcome=1.0, step_scores=[-1]))}, "step_scores: wanted a number from 0 to"),
        ({"verify_state": lie(True)}, "wanted a Verification or None, found bool"),
    ],
)
def test_a_world_that_lies_or_shares_its_state_is_named_and_nobody_is_rewarded(
    tallier: Worker, stage: Stage, alice: User, lies: dict[str, Any], words: str | tuple[str, ...]
) -> None:
    """In a group of two; what was said wrongly is kept nowhere, and its words are those of the attempt."""
    SHARED.added.clear()
    for name, value in lies.items():
        setattr(stage.world, name, value)
    task = submit(tallier, alice)
    with suppress(AllLostError):
        run_segment(task)
    said = " ".join(read(one).get("infrastructure", "") for one in Attempt.every.exclude(verification=None))
    found = [one for one in ([words] if isinstance(words, str) else words) if one in said]
    assert found, said
    for one in found:
        assert not any(said.outcome for said in Attempt.every.filter(verification__infrastructure__contains=one))
    assert all("nan" not in str(turn.observations) for turn in EpisodeTurn.objects.all())


def test_an_end_whose_state_is_gone_is_played_anew_and_not_left_without_a_word(
    tallier: Worker, stage: Stage, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = [StateLostError("the sandbox host is gone"), SandboxLostError("the sandbox host is gone")]
    verify = stage.world.verify_state

    def look(world: Any, *given: Any) -> Verification:
        if gone:
            raise gone.pop()
        return verify(world, *given)

    monkeypatch.setattr(stage.world, "verify_state", look)
    task = submit(tallier, alice, group_size=1)
    run_segment(task)
    *lost, played = Attempt.every.order_by("pk")
    assert [one.state for one in lost] == ["lost"] * 2
    assert [read(one)["infrastructure"] for one in lost] == [
        f"{kind}: the sandbox host is gone" for kind in ("SandboxLostError", "StateLostError")
    ]
    assert (played.state, played.outcome) == ("answered", 1.0)


def test_what_a_world_says_that_postgres_cannot_hold_is_kept_without_it(
    tallier: Worker, stage: Stage, alice: User
) -> None:
    stage.world.verify_state = lie(  # type: ignore[method-assign]
        Verification(outcome=1.0, step_reasons=["a\x00b"], details={"seen": "\x00"})
    )
    stage.world.act = lie(Observation(text="\x00", ends=True, details={"a\x00": "\x00"}))  # type: ignore[method-assign]
    task = submit(tallier, alice, group_size=1)
    run_segment(task)
    (attempt,) = task.attempts.all()
    assert (attempt.outcome, read(attempt)["details"]["seen"]) == (1.0, "\ufffd")
    assert attempt.turns.get().observations == [{"text": "\ufffd", "ends": True, "details": {"a\ufffd": "\ufffd"}}]


@pytest.mark.thorough
def test_a_world_that_hangs_is_left_and_the_attempt_played_anew(tallier: Worker, stage: Stage, alice: User) -> None:
    waits = Event()

    def hang(count: int) -> None:
        if count == 1:
            stage.world.limits = EpisodeLimits(turns=20, seconds=1.0)
            waits.wait(60)

    def give_time(turn: int) -> None:
        stage.world.limits = TallyWorld.limits

    stage.before_act, stage.before_turn = hang, give_time
    task = submit(tallier, alice, group_size=1)
    try:
        run_segment(task)
    finally:
        waits.set()
    lost, played = Attempt.every.order_by("pk")
    assert (lost.state, lost.error) == ("lost", "tally did not come back within 1 s")
    assert (played.state, played.outcome) == ("answered", 1.0)


@pytest.mark.django_db(transaction=True)
def test_a_world_that_always_breaks_fails_the_task_without_a_reward(tallier: Worker, stage: Stage, alice: User) -> None:
    def break_down(count: int) -> None:
        raise RuntimeError("the disk is full")

    stage.before_act = break_down
    task = submit(tallier, alice, group_size=1)
    segment = run_whole_link(task)
    assert (segment.state, task.state) == ("dead", "failed")
    assert "the disk is full" in task.failure
    assert [one.state for one in Attempt.every.order_by("pk")] == ["lost", "lost", "failed"]
    assert [one.outcome for one in Attempt.every.all()] == [None] * 3
    stage.before_act = lambda count: None
    replay(segment, by="alice")
    run_segment(task)
    assert [one.outcome for one in task.attempts.all()] == [1.0]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"turns": 2}, "turns"),
        ({"tokens": 5}, "tokens"),
        ({"seconds": 0.0}, "seconds"),
    ],
)
def test_a_limit_ends_an_episode_as_answered_with_its_cause(
    tallier: Worker, stage: Stage, alice: User, limits: dict[str, Any], why: str
) -> None:
    stage.world.limits = EpisodeLimits(**limits)
    task = submit(tallier, alice, group_size=1)
    run_segment(task)
    (attempt,) = task.attempts.all()
    assert (attempt.state, attempt.outcome) == ("answered", 0.0)
    assert read(attempt)["details"]["ended_by"] == why


def test_what_cannot_be_read_is_said_to_the_model_and_three_in_a_row_are_enough(
    tallier: Worker, stage: Stage, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.apps.worlds.tally_package.say", lambda messages: "subtract {}")
    task = submit(tallier, alice, group_size=1)
    run_segment(task)
    (attempt,) = task.attempts.all()
    assert read(attempt)["details"]["ended_by"] == "bad_calls"
    assert read(attempt)["details"]["valid_actions"] == 0
    assert "there is no tool 'subtract'" in str(attempt.turns.get(index=0).observations)
    assert stage.acts == 0


def test_words_between_calls_that_cannot_be_read_end_their_row_and_tools_are_asked_for_once_a_turn(
    tallier: Worker, stage: Stage, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = ["subtract {}", "subtract {}", "Wait.", "subtract {}", "subtract {}", "3"]
    offered: list[str] = []

    def offer(world: TallyWorld, prompt: str, state: Tally) -> Sequence[Any]:
        offered.append(prompt)
        return world.tools(prompt)

    def reply(world: TallyWorld, state: Tally, text: str, key: str) -> Observation | None:
        return Observation(text="Go on.") if text == "Wait." else None

    def say(messages: Sequence[dict[str, Any]]) -> str:
        return script[[one["role"] for one in messages].count("assistant")]

    monkeypatch.setattr("tests.apps.worlds.tally_package.say", say)
    stage.world.reply, stage.world.tools_now = reply, offer  # type: ignore[assignment,method-assign]
    task = submit(tallier, alice, group_size=1)
    run_segment(task)
    (attempt,) = task.attempts.all()
    assert (attempt.answer, "ended_by" in read(attempt)["details"]) == ("3", False)
    assert len(offered) == attempt.turns.count() == len(script)


def test_what_was_not_shown_of_an_observation_is_kept_whole(
    tallier: Worker, stage: Stage, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.apps.worlds.tally_package.say", lambda messages: 'add {"number": 2}')
    stage.world.limits = EpisodeLimits(turns=1, output_chars=50)
    task = submit(tallier, alice, group_size=1)
    run_segment(task)
    turn = EpisodeTurn.objects.get()
    ((_, told),) = turn.told
    assert told is not None
    assert told["text"].endswith("more characters]")
    (path,) = find_all_observed([turn.attempt_id])
    assert path.name == f"{turn.attempt_id}-{told['sha256']}"
    assert path.read_text() == "." * 1_000 + "the tally is 2"


def test_what_a_call_was_done_on_is_kept_as_a_file_by_its_attempt(
    tallier: Worker, stage: Stage, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + (640).to_bytes(4) + (480).to_bytes(4)
    act = stage.world.act

    def look(world: Any, *given: Any) -> Observation:
        return replace(act(world, *given), screenshot=picture, details={"mark": [3, 4]})

    monkeypatch.setattr(stage.world, "act", look)
    task = submit(tallier, alice, group_size=1)
    run_segment(task)
    turn = EpisodeTurn.objects.get(index=0)
    ((_, told),) = turn.told
    assert told is not None
    assert told["details"] == {"mark": [3, 4]}
    assert told["screenshot"] == {"sha256": sha256(picture).hexdigest(), "width": 640, "height": 480}
    (path,) = find_all_observed([turn.attempt_id])  # the same picture of every turn is one file
    assert path.read_bytes() == picture


@pytest.mark.django_db(transaction=True)
def test_cancelling_ends_what_is_under_way_between_turns(tallier: Worker, stage: Stage, alice: User) -> None:
    task = submit(tallier, alice, group_size=1)

    def cancel(count: int) -> None:
        if count == 2:
            flow.cancel(task=Task.objects.get(pk=task.pk), by=alice)

    stage.behind_act = cancel
    run_whole_link(task)
    assert task.state == "cancelled"
    (attempt,) = task.attempts.all()
    assert attempt.state == "cancelled"
    assert attempt.turns.count() == 2
    assert stage.closed == 1


# --- calls that wait for approval ------------------------------------------------------------------------------------


@pytest.fixture
def supervised(tallier: Worker) -> Worker:
    tallier.supervision = {"tools": ["add"], "deadline_s": 300}
    tallier.save()
    return tallier


def find_pending(task: Task) -> list[Proposal]:
    return list(Proposal.objects.filter(task=task, state="pending").order_by("attempt__index"))


def read_told(attempt: Attempt) -> list[str]:
    return [seen["text"] for turn in attempt.turns.all() for seen in turn.observations or ()]


def test_a_call_that_the_rules_name_waits_as_a_proposal_of_its_attempt_and_holds_no_seat(
    supervised: Worker, stage: Stage, alice: User
) -> None:
    task = submit(supervised, alice)
    segment = run_segment(task)
    assert (task.state, [one.state for one in Attempt.every.all()]) == ("working", ["waiting"] * 2)
    assert (segment.state, segment.fence, segment.attempts, segment.published_at) == ("open", None, 0, None)
    assert segment.run_after > timezone.now() + timedelta(seconds=200)
    assert (stage.acts, stage.resets, stage.closed) == (0, 2, 2)
    one, two = find_pending(task)
    assert (one.attempt, one.turn, one.call, one.proposed_by) == (Attempt.every.get(index=0), 0, 0, None)
    assert one.action == {"kind": "tool", "tool": "add", "arguments": {"number": 1}}
    made = AuditEntry.objects.get(kind="proposal.made", subject_id=one.pk)
    assert made.actor == "worker:tallier"
    assert not task.attempts.exists(), "nobody takes what waits for an answer"

    decide(proposal=one, decision="approve", by=alice)
    segment.refresh_from_db()
    assert segment.run_after <= timezone.now(), "the word wakes it"
    run_segment(task)
    assert stage.acts == 1
    further, still = find_pending(task)
    assert (further.attempt_id, further.turn, still.pk) == (one.attempt_id, 1, two.pk)


def test_what_was_decided_is_what_the_agent_is_told_and_it_goes_on(
    supervised: Worker, stage: Stage, alice: User
) -> None:
    stage.world.idempotent = False  # a call that surely was not made needs no second asking
    task = submit(supervised, alice, group_size=1)
    words: list[dict[str, Any]] = [
        {"decision": "reject", "reason": "too early"},
        {"decision": "hint", "hint": "count slowly"},
        {"decision": "edit", "action": {"kind": "tool", "tool": "add", "arguments": {"number": 2}}},
        {"decision": "approve"},
    ]
    for said in words:
        run_segment(task)
        (proposal,) = find_pending(task)
        decide(proposal=proposal, by=alice, **said)
        assert AuditEntry.objects.filter(subject_id=proposal.pk, actor=alice.handle).exists()
    run_segment(task)
    (attempt,) = task.attempts.all()
    told = read_told(attempt)
    assert told[:2] == ["not allowed: too early", "not done yet; think of this first: count slowly"]
    assert told[2].startswith('[this call was changed before it was made: add {"number": 2}]')
    assert told[3] == "the tally is 3"
    assert (task.state, attempt.state, attempt.outcome) == ("scoring", "answered", 1.0)
    assert Attempt.every.count() == 1
    assert stage.count_effects() == (2, 2)


def test_a_model_is_asked_first_where_the_rules_say_so(supervised: Worker, stage: Stage, alice: User) -> None:
    supervised.supervision |= {"model_decides": True}
    supervised.save()
    task = submit(supervised, alice)
    run_segment(task)
    asked = Segment.objects.filter(kind="decide", state="open").values_list("subject_id", flat=True)
    assert sorted(asked) == sorted(one.pk for one in find_pending(task))
    first, second = find_pending(task)
    take_models_word(first, Decision("approve", "It counts."), by="agent:llm:m", model="m")
    take_models_word(second, Decision("reject", "Not now."), by="agent:llm:m", model="m")
    run_segment(task)
    told = [read_told(attempt)[0] for attempt in Attempt.every.order_by("index")]
    assert told == ["the tally is 1", "not allowed: Not now."]


def test_who_is_killed_in_an_approved_call_goes_on_without_another_word(
    supervised: Worker, stage: Stage, alice: User
) -> None:
    task = submit(supervised, alice, prompt="2", group_size=1)
    run_segment(task)
    decide(proposal=find_pending(task)[0], decision="approve", by=alice)

    def kill(count: int) -> None:
        raise KilledError

    stage.behind_act = kill
    with pytest.raises(KilledError):
        run_segment(task)
    stage.behind_act = lambda count: None
    run_segment(task)
    (proposal,) = find_pending(task)
    assert (proposal.turn, Proposal.objects.count()) == (1, 2)
    assert stage.count_effects() == (2, 1), "asked again under its key, it was made once"


def test_what_was_said_stays_with_the_steps_it_was_about_by_who_said_it(
    supervised: Worker, stage: Stage, alice: User, project: Project
) -> None:
    supervised.supervision |= {"agents_decide": True}
    supervised.save()
    agent = make_user("judge", is_agent=True)
    Member.objects.create(project=project, user=agent, role=Role.AGENT)
    task = submit(supervised, alice, group_size=1)
    run_segment(task)
    decide(proposal=find_pending(task)[0], decision="hint", hint="Count twice.", by=alice)
    run_segment(task)
    decide(proposal=find_pending(task)[0], decision="reject", reason="Enough.", by=agent)
    run_segment(task)
    while waiting := find_pending(task):
        decide(proposal=waiting[0], decision="approve", by=alice)
        run_segment(task)
    learn_from_waits([task.pk])
    calls = list(Step.objects.filter(attempt__task=task, kind="call").values_list("index", flat=True))
    assert list(Proposal.objects.order_by("id").values_list("step_index", flat=True)) == calls
    by_alice, by_agent = Feedback.objects.order_by("id")
    assert (by_alice.author, by_alice.source, by_alice.trust) == ("supervisor:alice", "human", 1.0)
    assert (by_agent.author, by_agent.source, by_agent.trust) == ("supervisor:judge", "outside", 0.5)
    said = [(word.step and word.step.index, word.comment) for one in (by_alice, by_agent) for word in one.steps.all()]
    assert said == [(calls[0], "Before add(number=1): Count twice."), (calls[1], "Not allowed: add(number=1). Enough.")]


@pytest.mark.thorough
@pytest.mark.parametrize("turns", [0, 2])
def test_who_takes_an_attempt_over_ends_it_with_an_answer_that_teaches_and_no_token_of_it_does(
    supervised: Worker, stage: Stage, alice: User, project: Project, turns: int
) -> None:
    """Its world need not come back for that; the group's other attempt goes on."""
    stage.world.idempotent = False
    task = submit(supervised, alice)
    for _ in range(turns):
        run_segment(task)
        decide(proposal=find_pending(task)[0], decision="approve", by=alice)
    run_segment(task)
    mine, other = find_pending(task)
    stage.world.snapshot = lambda self, state: None  # type: ignore[method-assign]
    resets, acts = stage.resets, stage.acts
    pages = sign_in(alice)
    queue = pages.get(reverse("console:proposal-list", args=[project.slug])).content.decode()
    assert queue.count('data-answer="take_over"') == 2
    said = {"decision": "take_over", "answer": "It is three."}
    assert pages.post(reverse("console:proposal-decide", args=[project.slug, mine.pk]), said).status_code == 302
    other.refresh_from_db()
    assert other.state == "pending", "another attempt is another's work"
    assert AuditEntry.objects.filter(kind="proposal.taken_over", subject_id=mine.pk, actor=alice.handle).exists()
    run_segment(task)
    assert (stage.resets, stage.acts) == (resets, acts)
    taken = Attempt.every.get(index=mine.attempt.index)  # type: ignore[union-attr]
    assert (taken.state, taken.answer, taken.outcome, taken.unfit) == ("answered", "It is three.", None, TAKEN_OVER)
    assert (taken.ordered_steps[-1].kind, taken.ordered_steps[-1].text) == ("answer", "It is three.")
    stage.world.idempotent = True
    while other := next(iter(find_pending(task)), None):  # type: ignore[assignment]
        decide(proposal=other, decision="approve", by=alice)
        run_segment(task)
    assert [one.outcome for one in task.attempts.order_by("index")] == [None, 1.0]
    score_tasks([task.pk])
    learn_from_waits([task.pk])
    task.refresh_from_db()
    assert (task.answer, Attempt.every.get(pk=taken.pk).score) == ("It is three.", None)
    assert TAKEN_OVER in pages.get(reverse("console:task", args=[project.slug, task.pk])).content.decode().replace(
        "&#x27;", "'"
    )
    [word] = Feedback.objects.get().steps.all()
    assert (word.step and word.step.index, word.comment) == (
        turns, "Instead of add(number=1) a person took over and answered: It is three.",
    )  # fmt: skip
    Task.objects.update(state="learning")
    build_rollouts([task.pk], by="ledger")
    assert list(Rollout.objects.order_by("attempt__index").values_list("is_usable", flat=True)) == [False, True]
    shown = Demonstration.objects.get(source="guided")
    batch = Batch.objects.create(project=project, worker=supervised, number=9, state="closed", target_tasks=1)
    assert put_items(batch, Batch.Kind.DEMONSTRATIONS) == (2, {}), "the other attempt was good"
    (record,) = (one for one in iterate_demonstrations(batch) if one.demonstration_id == shown.pk)
    (part,) = read_parts(taken, load_conversations([taken]))
    assert (record.answer, list(record.token_ids or [])) == ("It is three.", [])
    assert [*record.prompt_token_ids] == [*part.joined.prompt, *part.joined.tokens[: shown.kept_tokens]]
    assert record.prompt_token_ids[-3:] == [1, 2, 3], "all that the model was told before the turn that was replaced"
    assert shown.kept_tokens == part.joined.spans[turns][0]


def test_agents_decide_where_the_rules_say_so(supervised: Worker, stage: Stage, alice: User, project: Project) -> None:
    task = submit(supervised, alice, group_size=1)
    run_segment(task)
    (proposal,) = find_pending(task)
    agent = make_user("judge", is_agent=True)
    Member.objects.create(project=project, user=agent, role=Role.AGENT)
    with pytest.raises(NotYoursToDecideError, match="agents decide no proposals of tallier"):
        decide(proposal=proposal, decision="approve", by=agent)
    with pytest.raises(BadInputError, match="answer: wanted some text, found none"):
        decide(proposal=proposal, decision="take_over", answer=" ", by=alice)
    other = {"kind": "tool", "tool": "subtract", "arguments": {}}
    with pytest.raises(BadInputError, match="wanted a call of add"):
        decide(proposal=proposal, decision="edit", action=other, by=alice)
    supervised.supervision |= {"agents_decide": True}
    supervised.save()
    decide(proposal=Proposal.objects.get(), decision="approve", by=agent)
    assert AuditEntry.objects.get(kind="proposal.approved").actor == "agent:judge"


@pytest.mark.parametrize(("rule", "state", "told"), [("reject", "working", ["not allowed: nobody approved it in time"]),
                                                     ("approve", "working", ["the tally is 1"]),
                                                     ("fail", "failed", [])])  # fmt: skip
def test_what_nobody_decides_in_time_the_rule_decides(
    supervised: Worker, stage: Stage, alice: User, rule: str, state: str, told: list[str]
) -> None:
    supervised.supervision |= {"on_timeout": rule}
    supervised.save()
    task = submit(supervised, alice, group_size=1)
    run_segment(task)
    assert expire_proposals() == []
    let_time_pass(find_pending(task)[0])
    segment = run_segment(task)
    assert segment.run_after <= timezone.now() + timedelta(seconds=2), "the sweep decides, and it looks again"
    (proposal,) = expire_proposals()
    run_segment(task)
    assert (proposal.state, task.state) == ("expired", state)
    assert read_told(Attempt.every.get()) == told


def test_what_is_decided_after_cancelling_is_refused_and_leaves_nothing(
    supervised: Worker, stage: Stage, alice: User
) -> None:
    task = submit(supervised, alice, group_size=1)
    run_segment(task)
    (proposal,) = find_pending(task)
    flow.cancel(task=task, by=alice)
    with pytest.raises(AlreadyDecidedError, match=r"user:alice was first \(the task is cancelled\)"):
        decide(proposal=proposal, decision="take_over", answer="By hand.", by=alice)
    attempt = Attempt.every.get()
    assert (attempt.state, attempt.error) == ("cancelled", "cancelled by alice while it was under way")
    assert (proposal.state, proposal.outcome, expire_proposals()) == ("expired", "stop", [])
    assert not Segment.objects.filter(subject_id=task.pk, state__in=["open", "claimed"]).exists()
    assert (stage.acts, stage.resets - stage.closed) == (0, 0)
    assert not Feedback.objects.exists()


def test_pages_and_rest_show_whose_call_waits(supervised: Worker, stage: Stage, alice: User, project: Project) -> None:
    task = submit(supervised, alice, group_size=1)
    run_segment(task)
    pages = sign_in(alice)
    queue = pages.get(reverse("console:proposal-list", args=[project.slug])).content.decode()
    assert "Call add" in queue
    assert "turn 1" in queue
    assert 'data-answer="reject"' in queue
    assert 'data-answer="take_over"' in queue
    assert "waits for approval" in pages.get(reverse("console:task", args=[project.slug, task.pk])).content.decode()
    assert "tallier" in pages.get(reverse("console:proposal-rules", args=[project.slug])).content.decode()
    as_alice = Caller(create_token(user=alice, name="t", scopes=Right.values, project=None, by=alice)[1])
    (row,) = as_alice.get("proposals").body["results"]
    assert (row["attempt"], row["turn"], row["call"], row["proposed_by"]) == (Attempt.every.get().pk, 0, 0, None)
    told = as_alice.post(f"proposals/{row['id']}/decide", {"decision": "reject", "reason": "not today"})
    assert (told.status, told.body["outcome"]) == (200, "stop")


def test_who_takes_no_turns_is_refused_where_there_are_tools(project: Project, stage: Stage, alice: User) -> None:
    with pytest.raises(BadInputError, match="takes no turns"):
        submit(make_worker(project), alice)


def test_a_model_is_measured_by_playing_episodes_that_nobody_keeps(tallier: Worker, stage: Stage) -> None:
    stage.world.keeps_nothing = True
    items = [PanelItem(prompt=f"{number}", seed=number) for number in (1, 2, 3)]
    found = measure(tallier, None, ItemSet("tallies", stage.world(), items), Evaluation.Purpose.REPORT)
    assert list(found.outcomes.values()) == [1.0] * 3
    assert (found.evaluation.state, found.evaluation.unscored) == ("done", 0)
    assert {row.grader for row in found.tries.values()} == {name_world(get_world("tally"))}
    assert all((row.traits or {}).get("length_tokens") for row in found.tries.values())
    assert (stage.resets, stage.closed) == (3, 3)
    assert not Attempt.every.exists()


def test_a_world_that_acts_outside_is_not_played_to_measure_a_model(
    tallier: Worker, stage: Stage, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No gate chooses it, and who asks for it is refused in words."""
    kind = replace(KINDS._things["tallying"], longest_try=64, base_model="tally-1")
    monkeypatch.setitem(vars(KINDS), "_loaded", ({**KINDS._things, "tallying": kind}, ()))
    Project.objects.update(has_held_out=True)
    worker = Worker.objects.select_related("project").get(pk=tallier.pk)
    taskset = Taskset.objects.create(project=worker.project, name="tallies", environment="tally")
    Item.objects.bulk_create(
        Item(taskset=taskset, split="held_out", prompt=f"{n}", content_hash=f"{n:064x}", bands=[])
        for n in range(1, LEAST_OWN + 1)
    )
    policy, words = GatePolicy(), "a try in Tally (tally) changes something beyond itself"
    assert choose_panel(worker, version=1, policy=policy) is None
    assert not has_panel(worker)
    assert say_missing(worker).startswith(words)
    for asked in ({"taskset": taskset}, {"environment": "tally"}):
        with pytest.raises(BadInputError, match=re.escape(words)):
            flow.ask_evaluation(worker=worker, by=alice, **asked)
    with pytest.raises(ConflictError, match=re.escape(words)):
        measure(worker, None, open_items(taskset, "held_out", count=2), Evaluation.Purpose.REPORT)
    assert (stage.resets, Evaluation.objects.count()) == (0, 0)

    stage.world.keeps_nothing = True
    panel = choose_panel(worker, version=1, policy=policy)
    assert panel is not None
    assert len(panel.items) == LEAST_OWN
    queued = flow.ask_evaluation(worker=worker, by=alice, taskset=taskset)
    assert queued.planned == LEAST_OWN

    stage.world.keeps_nothing = False  # what was queued before the world said so
    with pytest.raises(ConflictError, match=re.escape(words)):
        measure_asked(queued.pk, by="evals")
    assert (stage.resets, queued.item_tries.count()) == (0, 0)


def test_a_conversation_goes_on_as_it_was_last_shown() -> None:
    shown = [{"role": "user", "content": "3"}, {"role": "tool", "content": "(left out)"}]
    turn = PlayedTurn(draft=AttemptDraft(messages=shown), added=[{"role": "assistant", "content": "well"}])
    episode = Episode(key="a", prompt="3", opening=[{"role": "user", "content": "3"}], turns=[turn])
    assert episode.list_messages() == [*shown, {"role": "assistant", "content": "well"}]


def test_turns_are_shown_told_and_found_by_who_forgets(tallier: Worker, stage: Stage, alice: User) -> None:
    task = submit(tallier, alice, group_size=1)
    run_segment(task)
    (attempt,) = task.attempts.all()
    page = sign_in(alice).get(reverse("console:task", args=[task.project.slug, task.pk])).content.decode()
    assert "Turns (4)" in page
    assert "the tally is 2" in page
    _, token = create_token(user=alice, name="t", scopes=[Right.ATTEMPTS_READ], by=alice)
    told = Caller(token).send("GET", f"attempts/{attempt.pk}").body["turns"]
    assert [turn["state_hash"] for turn in told] == ["1", "1-1", "1-1-1", ""]
    assert told[0]["observations"] == [{"text": "the tally is 1"}]
    Step.objects.all().delete()
    olivia = make_user("olivia")
    task.project.members.create(user=olivia, role="owner")
    found = find_person(project=task.project, by=olivia, text="the tally is 3")
    assert found.tasks == [task.pk]
    assert set(found.exchanges) >= {turn["exchange"] for turn in told}
