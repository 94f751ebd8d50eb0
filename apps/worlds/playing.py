"""Playing episodes: many at once, each turn told to a journal before its calls are made and again behind them."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import zip_longest
from typing import Any, Final

from django.conf import settings
from django.db import connection
from django.utils import timezone

from apps.base.texts import make_storable
from apps.worlds.episodes import TAKEN_OVER, Episode, Instead, PlayedTurn, Seen
from apps.worlds.registry import WORLDS
from apps.worlds.screenshots import read_png_size
from apps.worlds.verifying import MOST_WORDS, verify_answer
from tentalis.core.canon import canonical_json, content_hash
from tentalis.core.worlds import (
    AttemptDraft,
    EpisodeLimits,
    Observation,
    StateLostError,
    ToolCall,
    TurnAgent,
    TurnAsked,
    TurnDraft,
    Verification,
    World,
)
from tentalis.outbound.scopes import ScopedThreadPool, current_scope
from tentalis.sandbox.errors import SandboxError

logger = logging.getLogger(__name__)

AT_ONCE: Final = 32
"""Worlds that act, and questions to models, of one player at one time."""
TOGETHER_S: Final = 0.02
"""Worlds that act are waited for so long, so that those that are quick are asked about and written down together."""
LOOK_S: Final = 1.0
NOT_DONE: Final = "not done: somebody took over"
NOT_MADE: Final = "its call was not made"
CHANGED: Final = "somebody changed its call before it was made"
NEXT_TURN: Final = 7_919
"""Added to an episode's seed for each turn of it."""


def find_measuring_time_s(_subject: int) -> float:
    """How many seconds a link may take that measures: a try may be an episode of whatever world there is."""
    longest = max((world.limits.seconds for world in WORLDS.values() if world.has_turns), default=0.0)
    return longest + float(settings.TENTALIS["TASK_TIMEOUT_SECONDS"])


class Journal:
    """Who is told of turns, in the player's own thread. This one keeps nothing: a kill loses what was played."""

    def keep_asked(self, episodes: Sequence[Episode]) -> None:
        """Their last turns are about to be done; whose calls are not to be made yet is marked as waiting."""

    def keep_done(self, episodes: Sequence[Episode]) -> None:
        """Their last turns were done."""

    def keep_end(self, episodes: Sequence[Episode]) -> None:
        """They are over."""


class _LostEpisodeError(Exception):
    """A fault that is not the model's."""


def play(
    episodes: Iterable[Episode],
    *,
    world: World,
    agent: TurnAgent,
    model: str,
    greedy: bool = False,
    journal: Journal | None = None,
) -> None:
    """Play each to its end, or go on with it from where its turns end. Who is ready is asked about, whoever waits.

    Raises:
        ProviderBusyError, ProviderRefusedError: a model could not be asked: what is under way then is done and kept,
            and its episodes can be gone on with.
        RequestEndedError: the scope is over; so it is between turns.
    """
    _Player(world, agent, model, greedy, journal or Journal()).play(list(episodes))


@dataclass
class _Player:
    world: World
    agent: TurnAgent
    model: str
    greedy: bool
    journal: Journal

    def play(self, episodes: Sequence[Episode]) -> None:
        self.pool = ScopedThreadPool(AT_ONCE)
        self.acting: dict[Future[None], tuple[Episode, float]] = {}
        self.last: dict[Episode, Future[None]] = {}
        self.asking: dict[Future[list[TurnDraft]], tuple[list[Episode], list[Mapping[str, Any]], datetime]] = {}
        self.failure: BaseException | None = None
        begin = partial(_begin, begun={})
        try:
            for episode in episodes:
                self._act(begin, episode)
            while self.acting or self.asking:
                self._go_on()
            if self.failure is not None:
                raise self.failure
        finally:
            self.pool.shutdown(wait=False, cancel_futures=True)
            for episode in list(self.last):
                self._give_back(episode)

    def _go_on(self) -> None:
        at_work: set[Future[Any]] = {*self.acting, *self.asking}
        done, _ = wait(at_work, timeout=LOOK_S, return_when=FIRST_COMPLETED)
        if (scope := current_scope()) is not None:
            scope.require()
        if not done.isdisjoint(self.acting):
            wait(self.acting, timeout=TOGETHER_S)
        self._take_asked([one for one in self.asking if one.done()])
        self._take_acted([one for one in self.acting if one.done()])
        self._drop_hanging()

    def _take_acted(self, found: Sequence[Future[None]]) -> None:
        episodes = []
        for future in found:
            episode, _ = self.acting.pop(future)
            future.result()
            episodes.append(episode)
        if over := [one for one in episodes if one.is_over]:
            self.journal.keep_end(over)
        going = [one for one in episodes if not (one.is_over or one.is_waiting)]
        fresh = [one for one in going if one.turns and one.turns[-1].seen is not None and not one.turns[-1].is_kept]
        if fresh:
            self.journal.keep_done(fresh)
            for one in fresh:
                one.turns[-1].is_kept = True
        ready: dict[str, tuple[list[Episode], list[Mapping[str, Any]]]] = {}
        for episode in going:
            if _has_ended(episode, self.world.limits):
                self._act(_finish, episode)
            elif self.failure is None:
                offered, tools = _find_tools(self.world, episode)
                if episode.lost:
                    self._act(_finish, episode)
                else:
                    ready.setdefault(offered, ([], tools))[0].append(episode)
        for offered, (together, tools) in ready.items():
            self._ask(together, tools, offered)

    def _ask(self, episodes: list[Episode], tools: list[Mapping[str, Any]], offered: str) -> None:
        asked = [_ask_turn(episode, offered) for episode in episodes]
        future = self.pool.submit(
            _closing_connections,
            partial(self.agent.take_turns, asked, world=self.world, tools=tools, model=self.model, greedy=self.greedy),
        )
        self.asking[future] = episodes, tools, timezone.now()

    def _take_asked(self, found: Sequence[Future[list[TurnDraft]]]) -> None:
        for future in found:
            episodes, tools, started_at = self.asking.pop(future)
            if (error := future.exception()) is not None:
                self.failure = error  # raised when what is under way is done
                continue
            said = []
            for episode, one in zip(episodes, future.result(), strict=True):
                if one.draft.is_lost:
                    episode.lost = f"its model could not be asked: {one.draft.error}"[:MOST_WORDS]
                    continue
                said.append(episode)
                draft = one.draft if one.draft.messages else replace(one.draft, messages=episode.list_messages())
                calls = [_check_call(call, tools) for call in one.calls]
                turn = PlayedTurn(draft=draft, calls=calls, added=one.messages, started_at=started_at)
                if not one.calls and not self.world.has_users:  # its last word: there is nothing to do
                    turn.seen, turn.ended_at = (), timezone.now()
                episode.turns.append(turn)
            if said:
                self.journal.keep_asked(said)
            for episode in episodes:
                is_done = episode.lost or episode.turns[-1].seen is not None
                self._act(_close if episode.is_waiting else _finish if is_done else _do_calls, episode)

    def _act(self, what: Callable[[World, Episode], None], episode: Episode) -> None:
        future = self.pool.submit(_closing_connections, partial(what, self.world, episode))
        self.acting[future] = episode, time.monotonic()
        self.last[episode] = future

    def _drop_hanging(self) -> None:
        for future, (episode, since) in list(self.acting.items()):
            left = max(self.world.limits.seconds - episode.elapsed_s, LOOK_S)
            if not future.done() and time.monotonic() - since > left:
                episode.lost = f"{self.world.name} did not come back within {left:.0f} s"
                episode.is_over = True
                del self.acting[future]
                self._give_back(episode)
                self.journal.keep_end([episode])

    def _give_back(self, episode: Episode) -> None:
        """Close its state as soon as its world does nothing more in it: it may even be opened only then."""
        self.last.pop(episode).add_done_callback(lambda _: _close(self.world, episode))


def _closing_connections(do: Callable[[], Any]) -> Any:
    try:
        return do()
    finally:
        connection.close()


def _find_tools(world: World, episode: Episode) -> tuple[str, list[Mapping[str, Any]]]:
    """What may be called next, and its hash; a world that cannot say so loses the episode."""
    with _losing(episode):
        tools = list(world.tools_now(episode.prompt, episode.state))
        _name_tools(tools)
        if episode.turns and not episode.offered:
            episode.offered = content_hash(list(world.tools(episode.prompt)))
        return content_hash(tools), tools
    return "", []


def _name_tools(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    return [tool["function"]["name"] for tool in tools]


def _ask_turn(episode: Episode, offered: str) -> TurnAsked:
    """Where other tools are offered than before, they stand in another prompt, which goes on from no tokens."""
    before, episode.offered = episode.offered, offered
    last = episode.turns[-1].draft if episode.turns and before == offered else AttemptDraft()
    place = len(episode.turns)
    return TurnAsked(
        messages=episode.list_messages(),
        prompt_token_ids=last.prompt_token_ids,
        token_ids=last.token_ids,
        seed=None if episode.sampling_seed is None else episode.sampling_seed + NEXT_TURN * place,
        turn=place,
    )


def _has_ended(episode: Episode, limits: EpisodeLimits) -> bool:
    """Whether it takes no further turn, and where a limit is why, say so in it."""
    if episode.lost:
        return True
    if not episode.turns:
        return False
    last = episode.turns[-1]
    if not (last.calls or last.seen) or any(seen.ends for seen in last.seen or ()):
        return True
    reached = {
        "turns": len(episode.turns) >= limits.turns,
        "tokens": episode.tokens >= limits.tokens,
        "seconds": episode.elapsed_s >= limits.seconds,
        "usd": limits.usd is not None and sum(turn.usd for turn in episode.turns) >= limits.usd,
        "bad_calls": _count_bad_calls(episode) >= limits.bad_calls,
    }
    episode.ended_by = next((name for name, is_reached in reached.items() if is_reached), "")
    return bool(episode.ended_by)


def _count_bad_calls(episode: Episode) -> int:
    """Those at its end, in a row: words without a call end it too."""
    count = 0
    for turn in reversed(episode.turns):
        if not turn.calls:
            return count
        for call in reversed(turn.calls):
            if not call.fault:
                return count
            count += 1
    return count


# --- what a world does, in a thread of the pool: what it raises ends the episode -------------------------------------


Reply: Final = Observation | None
Begun = dict[tuple[str, int | None], str]
"""Prompt and seed -> the hash of the state that their first episode began in."""


def _begin(world: World, episode: Episode, *, begun: Begun) -> None:
    """Its state: of a new one from `reset`; of one that was interrupted, as it was behind its last turn."""
    if episode.turns and episode.turns[-1].seen is None and _hand_over(episode.turns[-1]):
        return
    with _losing(episode):
        done = [turn for turn in episode.turns if turn.seen is not None]
        start = next((place for place in reversed(range(len(done))) if done[place].snapshot is not None), None)
        if start is None:
            episode.state, episode.is_open = world.reset(episode.prompt, episode.seed), True
            episode.left_at = _hash_state(world, episode)
            if (wanted := begun.setdefault((episode.prompt, episode.seed), episode.left_at)) != episode.left_at:
                raise _LostEpisodeError(
                    f"{world.name} began it in another state than another try of the same task: wanted {wanted:.12}, "
                    f"found {episode.left_at:.12}; `reset` gives the same for the same prompt and seed"
                )
        else:
            episode.state, episode.is_open = world.restore(episode.prompt, done[start].snapshot or b""), True
            _compare(world, episode, start)
        for place in range(0 if start is None else start + 1, len(done)):
            if done[place].calls or world.has_users:
                _require_repeatable(world, f"turn {place + 1} is in no snapshot")
                _call(world, episode, place, most=len(done[place].seen or ()))
                _compare(world, episode, place)
        if len(done) < len(episode.turns):
            if not episode.turns[-1].is_unmade:
                _require_repeatable(
                    world, f"it was interrupted in turn {len(done) + 1}, whose calls may have been made"
                )
            episode.turns[-1].started_at = timezone.now()  # while nobody played, no time of its own went by
            _do_calls(world, episode)


def _hand_over(turn: PlayedTurn) -> bool:
    """End an episode that somebody took over: of the turn's calls none is made, and no state is needed."""
    place = next((place for place, one in sorted(turn.instead.items()) if one.answer), None)
    if place is None:
        return False
    words = [turn.instead[call].words if call in turn.instead else NOT_DONE for call in range(place + 1)]
    turn.seen = [Seen(text=said, ends=call == place) for call, said in enumerate(words)]
    turn.ended_at = timezone.now()
    return True


def _require_repeatable(world: World, why: str) -> None:
    if not world.idempotent:
        raise _LostEpisodeError(f"{why}, and calls of {world.name} cannot be asked again")


def _compare(world: World, episode: Episode, place: int) -> None:
    wanted, found = episode.turns[place].state_hash, _hash_state(world, episode)
    episode.left_at = found
    if wanted != found:
        message = f"the state behind turn {place + 1} is not what it was: wanted {wanted:.12}, found {found:.12}"
        raise _LostEpisodeError(message)


def _do_calls(world: World, episode: Episode) -> None:
    """Make the calls of its last turn."""
    with _losing(episode):
        turn = episode.turns[-1]
        if (found := _hash_state(world, episode)) != episode.left_at:
            raise _LostEpisodeError(
                f"its state changed before turn {len(episode.turns)}, while nobody acted in it: wanted "
                f"{episode.left_at:.12}, found {found:.12}; each episode of {world.name} wants a state of its own"
            )
        seen = _call(world, episode, len(episode.turns) - 1, most=len(turn.calls))
        turn.state_hash = episode.left_at = _hash_state(world, episode)
        turn.snapshot = _require("snapshot", world.snapshot(episode.state), bytes | None)
        turn.ended_at = timezone.now()
        turn.seen = seen


def _call(world: World, episode: Episode, place: int, *, most: int) -> list[Seen]:
    """Make the first `most` calls of a turn, up to one that ends the episode; of one without calls, hear the reply."""
    seen: list[Seen] = []
    if not (turn := episode.turns[place]).calls:
        said = _require("reply", world.reply(episode.state, turn.draft.answer, f"{episode.key}-{place}"), Reply)
        return [] if said is None else [_show(said, world.limits.output_chars)]
    for number in range(most):
        said = _do_call(world, episode, place, number)
        seen.append(_show(said, world.limits.output_chars))
        if said.ends:
            break
    return seen


def _do_call(world: World, episode: Episode, place: int, number: int) -> Observation:
    turn = episode.turns[place]
    call, instead = turn.calls[number], turn.instead.get(number)
    if call.fault:
        return Observation(text=f"error: {call.fault}")
    if instead is not None and instead.call is None:
        return Observation(text=instead.words)
    made, key = instead.call if instead and instead.call else call, f"{episode.key}-{place}-{number}"
    said: Observation = _require("act", world.act(episode.state, made, key), Observation)
    return said if instead is None else replace(said, text=f"{instead.words}\n{said.text}")


def _check_call(call: ToolCall, tools: Sequence[Mapping[str, Any]]) -> ToolCall:
    names = _name_tools(tools)
    if call.fault or call.name in names:
        return call
    return replace(call, fault=f"there is no tool {call.name!r:.100}: there are {', '.join(names)}")


def _hash_state(world: World, episode: Episode) -> str:
    return str(_require("hash_state", world.hash_state(episode.state), str))[:64]


def _require(what: str, found: Any, wanted: Any) -> Any:
    """What a method of a world gave, of the type that it gives."""
    if not isinstance(found, wanted):
        words = getattr(wanted, "__name__", str(wanted))
        raise _LostEpisodeError(f"{what}: wanted {words}, found {type(found).__name__} {found!r:.80}")
    return found


def _show(said: Observation, most: int) -> Seen:
    text, details = make_storable(said.text), make_storable(dict(said.details))
    try:
        canonical_json(details)
    except (TypeError, ValueError) as error:
        raise _LostEpisodeError(f"act: wanted details as JSON, found {details!r:.80} ({error})") from None
    screenshot = _require("screenshot", said.screenshot, bytes)
    if screenshot and read_png_size(screenshot) is None:
        raise _LostEpisodeError(f"act: wanted a screenshot as PNG, found {screenshot[:20]!r}")
    seen = Seen(text=text, ends=said.ends, details=details, screenshot=screenshot)
    if len(text) <= most:
        return seen
    return replace(seen, text=f"{text[:most]}\n[{len(text) - most} more characters]", whole=text)


def _finish(world: World, episode: Episode) -> None:
    """Verify what there is and give the state back; of what was taken over nothing is said."""
    if episode.taken_over and not episode.lost:
        episode.verification = Verification(outcome=None, infrastructure=TAKEN_OVER, grader="player")
    elif not episode.lost:
        episode.verification = _verify(world, episode)
    _close(world, episode)
    episode.is_over = True


def _verify(world: World, episode: Episode) -> Verification | None:
    draft = episode.join()
    found = verify_answer(
        environment=world.name,
        prompt=episode.prompt,
        reference=episode.reference,
        checks=episode.checks,
        draft=draft,
        graders=episode.graders,
        look=partial(_look, world, episode, draft),
    )
    return None if episode.lost else _note_facts(episode, found)


def _look(world: World, episode: Episode, draft: AttemptDraft) -> Verification | None:
    """What the world says of its end; where the state is gone that it ended in, the episode is lost.

    Of the steps it is shown those whose calls came to it: which call is which it may tell by their order.
    """
    instead = [one for turn in episode.turns for one in turn.done_instead]
    steps = [
        step if one is None else replace(step, tool_result=step.tool_result.removeprefix(f"{one.words}\n"))
        for step, one in zip(draft.steps, instead, strict=True)
        if one is None or one.call is not None
    ]
    try:
        found = world.verify_state(episode.prompt, episode.reference, episode.state, replace(draft, steps=steps))
    except (StateLostError, SandboxError) as error:
        episode.lost = f"{type(error).__name__}: {error}"[:MOST_WORDS]
        raise
    if isinstance(found, Verification) and found.step_scores and any(instead):
        return _keep_own(found, instead)
    return found


def _keep_own(found: Verification, instead: Sequence[Instead | None]) -> Verification:
    """A world's word with a place for every step; of one whose call was not its model's own, nothing is said."""
    said, kept = zip_longest(found.step_scores, found.step_reasons), list[tuple[float | None, str]]()
    for one in instead:
        if one is not None and one.call is None:
            kept.append((None, NOT_MADE))
        else:
            score, why = next(said, (None, ""))
            kept.append((score, why or "") if one is None else (None, CHANGED))
    return replace(found, step_scores=[score for score, _ in kept], step_reasons=[why for _, why in kept])


def _note_facts(episode: Episode, found: Verification | None) -> Verification | None:
    """With what the player measured: how many of its calls could be read, and which limit ended it."""
    calls = [call for turn in episode.turns for call in turn.calls]
    facts: dict[str, Any] = {"turns": len(episode.turns)}
    if calls:
        facts |= {"actions": len(calls), "valid_actions": sum(not call.fault for call in calls)}
    if episode.ended_by:
        facts["ended_by"] = episode.ended_by
    if found is None:
        return Verification(outcome=None, details=facts) if episode.ended_by else None
    return replace(found, details={**facts, **found.details})


def _close(world: World, episode: Episode) -> None:
    if episode.is_open:
        episode.is_open = False
        try:
            world.close(episode.state)
        except Exception:
            logger.warning("%s could not close a state", world.name, exc_info=True)


@contextmanager
def _losing(episode: Episode) -> Iterator[None]:
    """What is raised within ends the episode as lost, with the reason."""
    try:
        yield
    except _LostEpisodeError as error:
        episode.lost = str(error)
    except Exception as error:
        logger.warning("an episode is lost", exc_info=True)
        episode.lost = f"{type(error).__name__}: {error}"[:MOST_WORDS]
