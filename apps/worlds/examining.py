"""The examination of a world before it may train: what is right is worth all, what is not worth nothing, every time.

Nobody's model is asked. The world's own solution, and agents that do nothing, guess, talk garbage and tamper, try some
of its tasks; what they find is said check by check.
"""

import logging
import math
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from random import Random
from typing import Any, Final

from apps.base.texts import make_storable
from apps.worlds.identity import hash_world, name_world
from apps.worlds.trials import (
    Agent,
    ScriptedTry,
    act_randomly,
    do_nothing,
    follow,
    takes_text,
    talk_garbage,
    tamper,
    try_task,
)
from tentalis.core.worlds import PanelItem, Solution, World

logger = logging.getLogger(__name__)

TASKS: Final = 8
"""Of what may be trained on, and half as many that are held out."""
DRAWN: Final = 200
"""Tasks that are looked through for one that is held out."""
GUESSES: Final = 3
"""Random tries a task."""
TAMPERED: Final = 3
"""Tasks that are tampered with."""
VERIFIED: Final = 5
MOST_CHANCE: Final = 0.5
Z: Final = 1.645
SHOWN: Final = re.compile(
    r"\b(reward|ground_truth|answer_key|expected_answer|is_correct)\b.?\s{0,3}[:=]", re.IGNORECASE
)
"""What an agent must not be shown: the name of what decides, with its value."""
LEAST_SECRET: Final = 12
"""Characters of a solution's words that are no coincidence."""


@dataclass(frozen=True, kw_only=True)
class WorldCheck:
    """One thing that was looked at.

    Args:
        passed: None where it could not be: `words` says why.
    """

    name: str
    passed: bool | None
    words: str


@dataclass(frozen=True, kw_only=True)
class WorldExamination:
    """What was found of a world as it is now.

    Args:
        sha256: of all that it is made of.
        figures: episodes, steps, steps_s, reset_ms and verify_ms (medians), memory_mib (by how much the process grew),
            seconds.
    """

    world: str
    full_name: str
    sha256: str
    checks: Sequence[WorldCheck]
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return all(one.passed is not False for one in self.checks)

    @property
    def faults(self) -> list[WorldCheck]:
        return [one for one in self.checks if one.passed is False]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}


def examine(world: World, *, prompts: Sequence[str] = (), tasks: int = TASKS, seed: int = 0) -> WorldExamination:
    """Look at a world from all sides; raises nothing that the world raises.

    Args:
        prompts: tasks to try, of a world that makes none up.
    """
    return _Examiner(world, prompts, tasks, seed).run()


class _Stopped(Exception):
    """Nothing further can be looked at."""


class _Examiner:
    def __init__(self, world: World, prompts: Sequence[str], tasks: int, seed: int) -> None:
        self.world, self.prompts, self.tasks, self.seed = world, prompts, tasks, seed
        self.checks: list[WorldCheck] = []
        self.items: list[PanelItem] = []
        self.solutions: list[Solution | None] = []
        self.trials: list[ScriptedTry] = []
        self.outcomes: dict[str, set[float]] = {}

    def run(self) -> WorldExamination:
        started, before = time.perf_counter(), _peak_memory_mib()
        looks = (
            self._find_tasks, self._look_at_held_out, self._look_at_beginnings, self._look_at_oracle,
            self._look_at_idleness, self._look_at_guesses, self._look_at_garbage, self._look_at_tampering,
            self._look_at_cheats, self._look_at_oracle_again, self._look_at_verifier, self._look_at_spread,
            self._look_at_what_is_shown,
        )  # fmt: skip
        for look in looks:
            name = look.__name__.removeprefix("_look_at_").removeprefix("_find_").replace("_", " ")
            try:
                look()
            except _Stopped:
                break
            except Exception as error:  # the world's own fault, whatever it is
                logger.info("%s: %s raised", self.world.name, name, exc_info=True)
                self._say(name, False, f"it raised {type(error).__name__}: {str(error)[:300]}")
                if not self.solutions:
                    break
        acts = [one for trial in self.trials for one in trial.act_s]
        figures = {
            "episodes": len(self.trials),
            "steps": len(acts),
            "steps_s": round(len(acts) / sum(acts), 1) if sum(acts) else 0.0,
            "reset_ms": _median_ms([one.reset_s for one in self.trials]),
            "verify_ms": _median_ms([one.verify_s for one in self.trials if one.verifications]),
            "memory_mib": round(_peak_memory_mib() - before, 1),
            "seconds": round(time.perf_counter() - started, 2),
        }
        return WorldExamination(
            world=self.world.name,
            full_name=name_world(self.world),
            sha256=hash_world(self.world),
            checks=self.checks,
            figures=figures,
        )

    def _say(self, name: str, passed: bool | None, words: str) -> None:
        self.checks.append(WorldCheck(name=name, passed=passed, words=make_storable(words)))

    # --- what there is to try ----------------------------------------------------------------------------------------

    def _find_tasks(self) -> None:
        rng = Random(f"examination/{self.seed}")
        drawn = [self.world.draw_prompt(rng) for _ in range(self.tasks)]
        made = [one for one in (*self.prompts, *drawn) if one is not None]
        held_out = self.world.panel(max(self.tasks // 2, 1), self.seed)
        self.items = [*(PanelItem(prompt=one, seed=rng.randrange(2**31)) for one in made), *held_out]
        self.solutions = [None for _ in self.items]
        if not self.items:
            self._say("tasks", False, "it makes up no tasks, and none were given to try")
            raise _Stopped
        for item in self.items:
            self.world.check_prompt(item.prompt)
        self._say("tasks", True, f"{len(self.items)} are tried, {len(held_out)} of them held out")

    def _look_at_held_out(self) -> None:
        rng = Random(f"held out/{self.seed}")
        drawn = [one for _ in range(DRAWN) if (one := self.world.draw_prompt(rng)) is not None]
        kept = [*self.world.panel(DRAWN, self.seed), *self.world.skills(DRAWN, self.seed)]
        if not kept:
            self._say("held out", None, "it holds nothing out: adapters are measured on a project's own items")
            return
        leaked = [one for one in drawn if self.world.is_held_out(one)]
        measured = {one.prompt for one in kept}
        twice, untold = measured.intersection(drawn), [one for one in measured if not self.world.is_held_out(one)]
        if leaked or twice:
            one = next(iter([*leaked, *twice]))
            self._say(
                "held out", False, f"{len({*leaked, *twice})} tasks to train on are held out, such as {one!r:.80}"
            )
        elif untold:
            words = f"{len(untold)} tasks that are measured on are not said to be held out, such as {untold[0]!r:.80}"
            self._say("held out", False, words)
        else:
            self._say(
                "held out", True, f"none of {len(drawn)} tasks to train on is among {len(measured)} held-out ones"
            )

    def _look_at_beginnings(self) -> None:
        if not self.world.has_turns:
            self._say("beginnings", None, "it has no state")
            return
        first, other = self.items[0], self.items[-1]
        one, again, beside = (self._open(item) for item in (first, first, other))
        try:
            begun, twice, theirs = (self.world.hash_state(state) for state in (one, again, beside))
            if begun != twice:
                words = f"the same task and seed begin in {begun:.12} and in {twice:.12}"
                self._say("beginnings", False, words)
                raise _Stopped
            if (kept := self.world.snapshot(one)) is not None:
                restored = self.world.restore(first.prompt, kept)
                found = self.world.hash_state(restored)
                self.world.close(restored)
                if found != begun:
                    self._say("beginnings", False, f"what was kept of {begun:.12} is restored as {found:.12}")
                    return
            self._act_in(one, first)
            if (self.world.hash_state(again), self.world.hash_state(beside)) != (twice, theirs):
                self._say("beginnings", False, "what is done in one episode changes another's state")
                return
        finally:
            for state in (one, again, beside):
                self.world.close(state)
        later = self._open(first)
        try:
            if (found := self.world.hash_state(later)) != begun:
                self._say("beginnings", False, f"once a task was tried it begins in {found:.12}, before in {begun:.12}")
                return
        finally:
            self.world.close(later)
        self._say("beginnings", True, "the same task and seed begin alike, and no episode changes another")

    def _open(self, item: PanelItem) -> Any:
        return self.world.reset(item.prompt, item.seed)

    def _act_in(self, state: Any, item: PanelItem) -> None:
        """The oracle's calls, and some at random."""
        solution = self.world.solve(item.prompt, item.seed)
        for place, call in enumerate(solution.calls if solution else ()):
            self.world.act(state, call, f"beginning-{place}")
        tools, rng = self.world.tools(item.prompt), Random(self.seed)
        for call in _list_calls(act_randomly(tools, item.prompt, rng)):
            self.world.act(state, call, f"beginning-random-{call.id}")

    # --- who tries ---------------------------------------------------------------------------------------------------

    def _try(self, item: PanelItem, agent: Agent, *, asked: int = 1) -> ScriptedTry:
        trial = try_task(self.world, item, agent, asked=asked)
        self.trials.append(trial)
        if trial.outcome is not None:
            self.outcomes.setdefault(item.prompt, set()).add(trial.outcome)
        return trial

    def _look_at_oracle(self) -> None:
        self.solutions = [self.world.solve(item.prompt, item.seed) for item in self.items]
        self._follow_oracle("oracle")

    def _look_at_oracle_again(self) -> None:
        """Behind all that was tampered with."""
        self._follow_oracle("oracle again")

    def _follow_oracle(self, name: str) -> None:
        known = [(item, found) for item, found in zip(self.items, self.solutions, strict=True) if found is not None]
        if not known:
            if name == "oracle":
                words = "it knows no right way (`World.solve`): nobody has shown that its tasks can be done"
                self._say(name, None, words)
            return
        trials = [self._try(item, follow(found)) for item, found in known]
        wrong = [one for one in trials if one.outcome != 1.0]
        if wrong:
            first = wrong[0]
            why = first.fault or f"it is worth {first.outcome:g}"
            words = f"{len(wrong)} of {len(trials)} right ways are not worth 1: {first.prompt!r:.80}: {why:.200}"
            self._say(name, False, words)
        else:
            self._say(name, True, f"all of {len(trials)} right ways are worth 1")

    def _look_at_idleness(self) -> None:
        self._require_floor("idleness", "doing nothing", [self._try(item, do_nothing()) for item in self.items])

    def _look_at_guesses(self) -> None:
        if self.world.chance > MOST_CHANCE:
            words = f"chance: wanted at most {MOST_CHANCE:g}, found {self.world.chance:g}: luck would be learnt"
            self._say("guesses", False, words)
            return
        trials = [
            self._try(item, act_randomly(self.world.tools(item.prompt), item.prompt, Random(f"{item.prompt}/{place}")))
            for item in self.items
            for place in range(GUESSES)
        ]
        self._require_floor("guesses", "guessing", trials, is_luck=True)

    def _look_at_garbage(self) -> None:
        trials = [
            self._try(item, talk_garbage(self.world.tools(item.prompt), Random(f"garbage/{place}")))
            for place, item in enumerate(self.items)
        ]
        self._require_floor("garbage", "garbage", trials)

    def _look_at_tampering(self) -> None:
        if not takes_text(self.world.tools(self.items[0].prompt)):
            self._say("tampering", None, "it takes no words of an agent's own, in which anything could be hidden")
            return
        trials = [
            self._try(item, tamper(self.world.tools(item.prompt), item.prompt, Random(f"tampering/{place}")))
            for place, item in enumerate(self.items[:TAMPERED])
        ]
        self._require_floor("tampering", "tampering with tests and rewards", trials)

    def _look_at_cheats(self) -> None:
        known = ((item, self.world.cheat(item.prompt, item.seed)) for item in self.items)
        tried = islice(((item, cheats) for item, cheats in known if cheats), TAMPERED)
        trials = [self._try(item, follow(one)) for item, cheats in tried for one in cheats]
        if trials:
            self._require_floor("cheats", "what the world itself knows as cheating", trials)

    def _require_floor(self, name: str, what: str, trials: Sequence[ScriptedTry], *, is_luck: bool = False) -> None:
        if lost := [one for one in trials if one.outcome is None]:
            words = f"{len(lost)} of {len(trials)} tries could not be told right from wrong: {lost[0].fault:.200}"
            self._say(name, False, words)
            return
        outcomes = [float(one.outcome or 0.0) for one in trials]
        mean, chance = statistics.fmean(outcomes), self.world.chance
        low = _lower_bound(mean, len(outcomes)) if is_luck else mean
        words = f"{what} is worth {mean:.0%} of {len(outcomes)} tries, {chance:.0%} at most is allowed"
        self._say(name, low <= chance, words)

    # --- what else ---------------------------------------------------------------------------------------------------

    def _look_at_verifier(self) -> None:
        differing = []
        for item, solution in zip(self.items[: self.tasks], self.solutions, strict=False):
            agents: list[Callable[[], Agent]] = [lambda item=item: self._guess(item)]  # type: ignore[misc]
            if solution is not None:
                agents.append(lambda solution=solution: follow(solution))  # type: ignore[misc]
            for make in agents:
                trial = self._try(item, make(), asked=VERIFIED)
                if len({repr(one) for one in trial.verifications}) > 1:
                    differing.append(trial)
        if differing:
            outcomes = [one.outcome if one else None for one in differing[0].verifications]
            words = f"of the same end it says {', '.join(map(str, outcomes))}: {differing[0].prompt!r:.80}"
            self._say("verifier", False, words)
        else:
            self._say("verifier", True, f"asked {VERIFIED} times of the same end it says the same")

    def _guess(self, item: PanelItem) -> Agent:
        return act_randomly(self.world.tools(item.prompt), item.prompt, Random(f"{item.prompt}/0"))

    def _look_at_spread(self) -> None:
        spread = sum(len(found) > 1 for found in self.outcomes.values())
        words = f"in {spread} of {len(self.outcomes)} tasks what is right is worth something else than what is not"
        if any(one is not None for one in self.solutions):
            self._say("spread", spread * 2 > len(self.outcomes), words)
        else:
            self._say("spread", True if spread else None, words)

    def _look_at_what_is_shown(self) -> None:
        for item, solution in zip(self.items, self.solutions, strict=True):
            secrets = [one for one in _list_secrets(solution) if one not in item.prompt] if solution else []
            for trial in self.trials:
                if trial.prompt != item.prompt or trial.seed != item.seed:
                    continue
                for seen in trial.seen:
                    named = [one[0] for one in SHOWN.finditer(seen)]
                    told = [one for one in (*named, *secrets) if one in seen]
                    told = [one for one in told if not any(one in text for text in trial.asked)]  # its own words
                    if told:
                        what = told[0]
                        self._say(
                            "what is shown", False, f"an agent can read what decides: {what!r:.80} in {seen!r:.160}"
                        )
                        return
        self._say("what is shown", True, "nothing that agents were shown tells what is right")


def _list_calls(agent: Agent) -> Iterator[Any]:
    """What an agent wants done that is told nothing."""
    try:
        call = next(agent)
        while True:
            yield call
            call = agent.send("")
    except StopIteration:
        return


def _list_secrets(solution: Solution) -> list[str]:
    """Whole arguments of a solution's calls: an agent that reads one has read what to do."""
    return [call.arguments for call in solution.calls if len(call.arguments) >= LEAST_SECRET]


def _lower_bound(share: float, count: int) -> float:
    """What a share of so many tries is at least, with 95 % certainty, as if each were right or wrong.

    Source:
        Wilson's score interval, one-sided.
    """
    middle = share + Z * Z / (2 * count)
    width = Z * math.sqrt((share * (1 - share) + Z * Z / (4 * count)) / count)
    return (middle - width) / (1 + Z * Z / count)


def _median_ms(seconds: Sequence[float]) -> float:
    return round(1_000 * statistics.median(seconds), 3) if seconds else 0.0


def _peak_memory_mib() -> float:
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) / (2**20 if sys.platform == "darwin" else 2**10)
