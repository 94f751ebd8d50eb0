"""Doing tasks in worlds with turns: attempts are rows from their start, and every turn is written before its calls are
made and completed behind them, under the fence of the task's segment. Whoever takes a task up after a kill goes on from
there.

An attempt that is lost to a fault says nothing of its model: its row stays, in no group, and a fresh one is played in
its place, a few times.
"""

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from typing import Any, Final

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from apps.adapters.selectors import choose_adapters
from apps.adapters.serving import load
from apps.audit.services import move
from apps.base.errors import ConflictError
from apps.base.inserting import insert
from apps.checks.graders import Graders, convene_graders
from apps.inference.calls import find_exact, find_spans, find_unfit
from apps.inference.errors import ModelNotServedError
from apps.inference.metering import charge
from apps.inference.models import Exchange
from apps.inference.selectors import read_conversations
from apps.inference.services import CallBefore, find_known_price, record_exchanges
from apps.outbox.services import execute_held, final_write, held_write, put_off
from apps.tasks.approvals import Approvals, CallPlace
from apps.tasks.drafts import CUT_OFF
from apps.tasks.errors import AllLostError
from apps.tasks.models import Attempt, EpisodeTurn, FurtherExchange, Task
from apps.tasks.observations import keep_observed
from apps.tasks.services import drop_snapshots, save_steps
from apps.workers.agents import get_agent
from apps.workers.models import Worker
from apps.workers.selectors import find_base_model
from apps.worlds.episodes import TAKEN_OVER, Episode, Instead, PlayedTurn, Seen
from apps.worlds.playing import Journal, play
from apps.worlds.registry import find_world, get_world
from apps.worlds.screenshots import read_png_size
from tentalis.core.conversation_delta import Conversation, make_answer
from tentalis.core.packing import pack_int32, unpack_int32
from tentalis.core.steps import parse_steps
from tentalis.core.token_use import TokenUse
from tentalis.core.worlds import AttemptDraft, DraftStep, ToolCall, TurnAgent, Verification

MOST_TRIES: Final = 3
"""Times that an attempt is played which faults end; then it has failed, and says why."""

LEAST_WAIT: Final = timedelta(seconds=1)
"""Until a word whose time is over is looked for again: it is the sweep's to say."""

_COMPLETE = """
new AS (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS new(id bigint, attempt bigint, observations jsonb, state_hash text,
                                              started_at timestamptz, ended_at timestamptz, snapshot text)
), dropped AS (
    UPDATE tasks_episodeturn AS earlier SET snapshot = NULL FROM new
    WHERE earlier.attempt_id = new.attempt AND earlier.id <> new.id AND earlier.snapshot IS NOT NULL
          AND new.snapshot IS NOT NULL AND EXISTS (SELECT FROM held)
)
UPDATE tasks_episodeturn SET observations = new.observations, state_hash = new.state_hash, ended_at = new.ended_at,
                             started_at = new.started_at, snapshot = decode(new.snapshot, 'base64')
FROM new WHERE tasks_episodeturn.id = new.id AND EXISTS (SELECT FROM held)
"""


def has_turns(task: Task) -> bool:
    """Whether the platform plays it turn by turn."""
    return task.worker.kind != Worker.Kind.OUTSIDE and find_world(task.environment).has_turns


def find_time_s(task_id: int) -> float:
    """How many seconds playing a task's group may take: an episode whose time is over still waits for its last call."""
    names = Task.objects.filter(pk=task_id).values_list("environment", flat=True)
    longest = max((find_world(name).limits.seconds for name in names), default=0.0)
    return longest + float(settings.TENTALIS["TASK_TIMEOUT_SECONDS"])


def play_task(task_id: int, *, by: str, approvals: Approvals | None = None) -> None:
    """Play the attempts at a task to their ends, from wherever they are, and hand it on to be scored. Where all that
    are left wait for somebody's word, it is put off until that is said.

    Raises:
        AllLostError: no attempt came to an end of its own.
        ProviderBusyError, ProviderRefusedError: the model could not be asked; what was played is kept.
    """
    told_by = ("worker__provider", "worker__agent_server", "worker__learns_with", "worker__project")
    waiting = Task.objects.filter(pk=task_id, state__in=(Task.State.QUEUED, Task.State.WORKING))
    task = waiting.select_related(*told_by).first()
    if task is None:
        return
    if task.state == Task.State.QUEUED:
        move(task, Task.State.WORKING, by=by)
    approvals = approvals or Approvals()
    while attempts := _open_attempts(task, approvals):
        for model_of, group in groupby(sorted(attempts, key=_name_model), key=_name_model):
            _play(task, list(group), model=model_of, approvals=approvals)
    if attempts is None:
        return
    ended = list(Attempt.objects.filter(task=task).order_by("index").values_list("pk", "state", "error"))
    if all(state == Attempt.State.FAILED for _, state, _ in ended):
        raise AllLostError(f"none of {len(ended)} attempts gave an answer: {ended[0][2]}")
    with final_write([task.pk]) as kept:
        if task.pk in kept:
            move(task, Task.State.SCORING, by=by, payload={"attempts": [pk for pk, *_ in ended]})


def _open_attempts(task: Task, approvals: Approvals) -> list[Attempt] | None:
    """Those of the task's group that can be played; what it lacks begins. None where those left wait for a word: the
    task is put off then. Who decides locks its segment first, so that no word comes unseen."""
    with held_write([task.pk]):
        attempts = (
            Attempt.every.filter(task=task).exclude(state=Attempt.State.LOST).select_related("adapter", "exchange")
        )
        found = list(attempts.order_by("index"))
        missing = set(range(task.group_size)) - {one.index for one in found}
        chosen = choose_adapters(task.worker, {task.pk: task.parent_id is None})[task.pk] if missing else None
        found += insert(
            Attempt(task=task, index=index, worker=task.worker, adapter=chosen, state=Attempt.State.RUNNING)
            for index in sorted(missing)
        )
        waiting = [one for one in found if one.state == Attempt.State.WAITING]
        pending = approvals.find_pending(waiting) if waiting else {}
        for one in waiting:
            if one.pk not in pending:
                one.state, one.was_waiting = Attempt.State.RUNNING, True
                one.save(update_fields=["state"])
        if pending and all(one.state != Attempt.State.RUNNING for one in found):
            put_off(max(min(pending.values()), timezone.now() + LEAST_WAIT))
            return None
    return [one for one in found if one.state == Attempt.State.RUNNING]


def _name_model(attempt: Attempt) -> str:
    return attempt.adapter.name if attempt.adapter else find_base_model(attempt.worker)


def _play(task: Task, attempts: Sequence[Attempt], *, model: str, approvals: Approvals) -> None:
    agent = get_agent(task.worker, task_id=task.pk)
    if not isinstance(agent, TurnAgent):
        raise ConflictError(f"{task.worker.name} takes no turns, and {task.environment} has tools")
    world = get_world(task.environment)

    def play_on() -> None:
        running = [one for one in attempts if one.state == Attempt.State.RUNNING]
        rows = _Rows(task, running, model, approvals)
        with charge(project=task.project, turn="judge", task_id=task.pk):
            rows.graders = convene_graders(task.project, task.checks, trains=True)
            play(rows.read(), world=world, agent=agent, model=model, journal=rows)

    try:
        play_on()
    except ModelNotServedError:
        if (adapter := attempts[0].adapter) is None:
            raise
        load(adapter)
        play_on()


class _Rows(Journal):
    """Attempts at one task by one model, and their turns, as rows."""

    def __init__(self, task: Task, attempts: Sequence[Attempt], model: str, approvals: Approvals) -> None:
        self.task, self.model, self.approvals = task, model, approvals
        self.attempts = {str(attempt.pk): attempt for attempt in attempts}
        self.turns: dict[str, list[EpisodeTurn]] = {key: [] for key in self.attempts}
        self.before: dict[str, CallBefore] = {}
        self.graders: Graders | None = None
        self.price = find_known_price(task.worker.provider, model)

    def read(self) -> list[Episode]:
        """Their episodes, as far as they were played."""
        for turn in self._load_turns(self.attempts.values()):
            self.turns[str(turn.attempt_id)].append(turn)
        conversations = read_conversations(
            turn.exchange for turns in self.turns.values() for turn in turns if turn.exchange
        )
        decided = self.approvals.read(self.attempts.values())
        return [self._read_episode(key, attempt, conversations, decided) for key, attempt in self.attempts.items()]

    def _read_episode(
        self,
        key: str,
        attempt: Attempt,
        conversations: Mapping[int, Conversation],
        decided: Mapping[CallPlace, Instead],
    ) -> Episode:
        task, world = self.task, get_world(self.task.environment)
        episode = Episode(
            key=key,
            prompt=task.prompt,
            reference=task.reference,
            checks=task.checks,
            graders=self.graders,
            seed=task.seed,
            sampling_seed=None if task.seed is None else task.seed + attempt.index,
            opening=world.messages_for(task.prompt, task.worker.system_prompt),
        )
        for turn in self.turns[key]:
            found = conversations.get(turn.exchange_id or 0)
            if turn.exchange is None or found is None or not found.is_whole:
                episode.lost = f"the call of turn {turn.index + 1} was deleted"
                break
            played = _read_turn(turn, turn.exchange, found)
            played.instead = {
                place.call: one for place, one in decided.items() if place[:2] == (attempt.pk, turn.index)
            }
            played.is_unmade = attempt.was_waiting and played.seen is None
            episode.turns.append(played)
            self._go_on_from(key, turn.exchange.pk, found)
        return episode

    def keep_asked(self, episodes: Sequence[Episode]) -> None:
        task, worker = self.task, self.task.worker
        adapter = self.attempts[episodes[0].key].adapter
        drafts = [one.turns[-1].draft for one in episodes]
        with held_write([task.pk]):
            exchanges = record_exchanges(
                project=worker.project,
                drafts=drafts,
                worker_name=worker.name,
                model=self.model,
                adapter_name=adapter.name if adapter else "",
                policy_version=adapter.version if adapter else 0,
                provider=worker.provider,
                task_ids=[task.pk] * len(episodes),
                before=[self.before.get(one.key) for one in episodes],
                price=self.price,
            )
            rows = insert(
                _make_turn(self.attempts[one.key], len(one.turns) - 1, one.turns[-1], exchange)
                for one, exchange in zip(episodes, exchanges, strict=True)
            )
            calls = [(row, one.turns[-1].calls) for row, one in zip(rows, episodes, strict=True)]
            if waiting := self.approvals.ask(task, calls):
                Attempt.every.filter(pk__in=waiting).update(state=Attempt.State.WAITING)
        for one, draft, row, exchange in zip(episodes, drafts, rows, exchanges, strict=True):
            self.turns[one.key].append(row)
            if row.attempt_id in waiting:
                one.is_waiting, self.attempts[one.key].state = True, Attempt.State.WAITING
            one.turns[-1].usd = float(exchange.cost_usd or 0)
            whole = Conversation(
                messages=list(draft.messages),
                answer=make_answer(draft.text, list(draft.tool_calls)),
                request=dict(draft.request),
                prompt_token_ids=pack_int32(draft.prompt_token_ids),
                token_ids=pack_int32(draft.token_ids),
            )
            self._go_on_from(one.key, exchange.pk, whole)

    def keep_done(self, episodes: Sequence[Episode]) -> None:
        rows = [self.turns[one.key][-1] for one in episodes]
        values = [_tell_done(row, one.turns[-1]) for row, one in zip(rows, episodes, strict=True)]
        execute_held(_COMPLETE, [json.dumps(values)])

    def keep_end(self, episodes: Sequence[Episode]) -> None:
        attempts = [self.attempts[one.key] for one in episodes]
        with held_write([self.task.pk]):
            lost = Counter(
                Attempt.every.filter(task=self.task, state=Attempt.State.LOST).values_list("index", flat=True)
            )
            calls: dict[int, list[Exchange]] = {attempt.pk: [] for attempt in attempts}
            for turn in self._load_turns(attempts):
                if turn.exchange is not None:
                    calls[turn.attempt_id].append(turn.exchange)
            conversations = read_conversations(one for found in calls.values() for one in found)
            for attempt, episode in zip(attempts, episodes, strict=True):
                is_again = bool(episode.lost) and lost[attempt.index] + 1 < MOST_TRIES
                _end(attempt, episode, calls[attempt.pk], conversations, is_again=is_again)
                if not is_again:
                    self.approvals.note_steps(_find_steps(attempt, episode.turns))
            drop_snapshots(attempts)

    def _go_on_from(self, key: str, exchange_id: int, whole: Conversation) -> None:
        known = [*whole.messages, whole.answer] if whole.answer else whole.messages
        self.before[key] = CallBefore(exchange_id, known, whole.prompt_token_ids + whole.token_ids, whole.request)

    def _load_turns(self, attempts: Iterable[Attempt]) -> QuerySet[EpisodeTurn]:
        return (
            EpisodeTurn.objects.filter(attempt__in=list(attempts))
            .select_related("exchange")
            .order_by("attempt", "index")
        )


# --- a turn as a row, and back ---------------------------------------------------------------------------------------


def _make_turn(attempt: Attempt, index: int, turn: PlayedTurn, exchange: Exchange) -> EpisodeTurn:
    answer = make_answer(turn.draft.text, list(turn.draft.tool_calls))
    return EpisodeTurn(
        attempt=attempt,
        index=index,
        exchange=exchange,
        added=None if list(turn.added) == [answer] else list(turn.added),
        calls=[{name: value for name, value in vars(call).items() if value} for call in turn.calls],
        observations=None if turn.seen is None else [],
        started_at=turn.started_at,
        ended_at=turn.ended_at,
    )


def _tell_done(row: EpisodeTurn, turn: PlayedTurn) -> dict[str, Any]:
    return {
        "id": row.pk,
        "attempt": row.attempt_id,
        "observations": [_write_seen(row.attempt_id, seen) for seen in turn.seen or ()],
        "state_hash": turn.state_hash,
        "started_at": turn.started_at.isoformat(),
        "ended_at": turn.ended_at.isoformat() if turn.ended_at else None,
        "snapshot": None if turn.snapshot is None else b64encode(turn.snapshot).decode(),
    }


def _write_seen(attempt_id: int, seen: Seen) -> dict[str, Any]:
    told = {"text": seen.text, "ends": seen.ends, "details": seen.details}
    if seen.whole:
        told["sha256"] = keep_observed(attempt_id, seen.whole.encode())
    if size := read_png_size(seen.screenshot):
        sha256 = keep_observed(attempt_id, seen.screenshot)
        told["screenshot"] = {"sha256": sha256, "width": size[0], "height": size[1]}
    return {name: value for name, value in told.items() if value}


def _read_turn(turn: EpisodeTurn, exchange: Exchange, found: Conversation) -> PlayedTurn:
    answer = make_answer(exchange.text, exchange.tool_calls)
    parsed = parse_steps(exchange.text, exchange.tool_calls)
    steps = [
        DraftStep(kind=step.kind, text=step.text, tool_name=step.tool_name, tool_result=step.result or "")
        for step in parsed.steps
    ]
    if parsed.answer is not None:
        steps.append(DraftStep(kind="answer", text=parsed.answer))
    return PlayedTurn(
        draft=AttemptDraft(
            text=exchange.text,
            answer=parsed.answer or "",
            steps=steps,
            messages=found.messages,
            prompt_token_ids=unpack_int32(found.prompt_token_ids),
            token_ids=exchange.unpack_token_ids(),
            finish_reason=exchange.finish_reason,
            ended=exchange.finish_reason != CUT_OFF,
            tool_calls=exchange.tool_calls,
            error=exchange.error,
            use=TokenUse(exchange.prompt_tokens, exchange.completion_tokens, exchange.cached_tokens),
        ),
        calls=[ToolCall(**{"id": "", "name": "", **call}) for call in turn.calls],
        added=turn.added if turn.added is not None else [answer],
        seen=None if turn.observations is None else [_read_seen(one) for one in turn.observations],
        state_hash=turn.state_hash,
        snapshot=None if turn.snapshot is None else bytes(turn.snapshot),
        started_at=turn.started_at,
        ended_at=turn.ended_at,
        usd=float(exchange.cost_usd or 0),
        is_kept=turn.observations is not None,
    )


def _read_seen(told: Mapping[str, Any]) -> Seen:
    return Seen(text=told.get("text", ""), ends=told.get("ends", False), details=told.get("details", {}))


# --- the end ---------------------------------------------------------------------------------------------------------


def _end(
    attempt: Attempt,
    episode: Episode,
    calls: Sequence[Exchange],
    conversations: Mapping[int, Conversation],
    *,
    is_again: bool,
) -> None:
    """Write what came of an episode into its attempt, which is like any of several calls then.

    Args:
        calls: of its turns, in order.
        is_again: it was lost, and another is played in its place.
    """
    draft, exact = episode.join(), find_exact(calls)
    attempt.exchange = exact[0] if exact else None
    fault = find_unfit(calls, exact) if exact else ""
    attempt.unfit = TAKEN_OVER if episode.taken_over else fault
    attempt.state = Attempt.State.FAILED if draft.error else Attempt.State.ANSWERED
    attempt.text, attempt.answer, attempt.error = draft.text, draft.answer, draft.error
    attempt.elapsed_s = episode.elapsed_s
    found = episode.verification
    if episode.lost:
        found = Verification(outcome=None, infrastructure=episode.lost, grader="player")
    if is_again:
        attempt.state = Attempt.State.LOST
    attempt.verification = found.to_json() if found else None
    attempt.outcome = found.outcome if found else None
    attempt.save()
    insert(
        FurtherExchange(attempt=attempt, exchange=call, place=place) for place, call in enumerate(exact[1:], start=1)
    )
    if is_again:
        return
    spans = dict(zip((one.pk for one in exact), find_spans(exact, conversations), strict=True)) if not fault else {}
    starts = [spans[call.pk][0] if call.pk in spans else None for call in calls]
    placed = zip(starts, episode.turns, strict=False)
    save_steps([attempt], [AttemptDraft(steps=[_shift(step, start) for start, turn in placed for step in turn.steps])])


def _find_steps(attempt: Attempt, turns: Sequence[PlayedTurn]) -> Mapping[CallPlace, int]:
    """Where each call stands among the attempt's steps."""
    places, before = dict[CallPlace, int](), 0
    for number, turn in enumerate(turns):
        calls = [before + index for index, step in enumerate(turn.steps) if step.kind == "call"]
        places |= {CallPlace(attempt.pk, number, call): place for call, place in enumerate(calls)}
        before += len(turn.steps)
    return places


def _shift(step: DraftStep, start: int | None) -> DraftStep:
    """With its span in the sequence in which its call begins at `start`; None where that has none."""
    if start is None or step.token_start is None or step.token_end is None:
        return replace(step, token_start=None, token_end=None, token_overlap=None)
    return replace(step, token_start=start + step.token_start, token_end=start + step.token_end)
