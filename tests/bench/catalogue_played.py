"""Benchmarks of worlds with turns whose right ways are known, probed as every other: each is played by the player."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from apps.worlds.bfcl.rows import BfclRow
from apps.worlds.bfcl.world import find_row
from apps.worlds.registry import get_world
from tentalis.core.graders.calls import CalledFunction
from tentalis.core.worlds import ToolCall, World
from tests.bench.catalogue_probes import EMPTY, GARBAGE, JUNK, ORACLE, OTHER, REFUSAL, REFUSED, Probed
from tests.bench.scripted_turns import Said, play_script

ASKED_TOO_EARLY: Final = "multi_turn_miss_func_49"
"""A conversation whose right calls hold one of a function that is held back then: nobody is right there."""
MOST_LUCK: Final = 0.1
"""Of a game, what another's moves win."""


def write_calls(calls: Sequence[CalledFunction]) -> list[ToolCall]:
    return [ToolCall(id=f"c{n}", name=name, arguments=json.dumps(told)) for n, (name, told) in enumerate(calls)]


def write_script(right: Sequence[Sequence[CalledFunction]]) -> list[Said]:
    """A conversation's right calls, each turn's at once, and a word behind them."""
    turns: list[Said] = []
    for calls in right:
        turns += [write_calls(calls), "Done."] if calls else ["Which one?"]
    return turns


def grade_script(world: World, prompt: str, script: Sequence[Said]) -> float | None:
    """What an episode is worth; None: nobody can say."""
    episode, _ = play_script(world, prompt, script)
    return episode.verification.outcome if episode.verification and not episode.lost else None


def probe_conversations(name: str, rows: Sequence[BfclRow], *, shared: float = 0.0) -> Probed:
    """What comes of right calls, none, garbage, another conversation's, and a refusal."""
    right = {row.prompt: write_script(row.right) for row in rows}
    undone = {row.prompt for row in rows if row.id == ASKED_TOO_EARLY}
    return _probe(name, get_world("bfcl"), right, shared, lambda prompt: len(find_row(prompt).words), undone)


def probe_games(name: str, prompts: Sequence[str]) -> Probed:
    """What comes of moves that win, none, garbage, those that win another game, and a refusal."""
    world = get_world("games")
    right: dict[str, Sequence[Said]] = {}
    for prompt in prompts:
        solution = world.solve(prompt, None)
        right[prompt] = [[call] for call in solution.calls] if solution else []
    return _probe(name, world, right, MOST_LUCK)


def _probe(
    name: str,
    world: World,
    right: Mapping[str, Sequence[Said]],
    shared: float,
    count_words: Callable[[str], int] = lambda prompt: 1,
    undone: frozenset[str] | set[str] = frozenset(),
) -> Probed:
    """Args:
    right: prompt -> a right way.
    count_words: how often it is asked.
    undone: prompts that no right way is known of.
    """
    started, found, prompts = time.process_time(), Probed(name, len(right), shared), list(right)
    ways: dict[str, Callable[[int], Sequence[Said]]] = {
        ORACLE: lambda place: right[prompts[place]],
        EMPTY: lambda place: [""] * count_words(prompts[place]),
        JUNK: lambda place: [GARBAGE[0]] * count_words(prompts[place]),
        OTHER: lambda place: right[prompts[(place + 1) % len(prompts)]],
        REFUSED: lambda place: [REFUSAL] * count_words(prompts[place]),
    }
    for probe, write in ways.items():
        tried = [place for place, prompt in enumerate(prompts) if probe != ORACLE or prompt not in undone]
        values = [grade_script(world, prompts[place], write(place)) for place in tried]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            found.ungraded[probe] = [f"{len(values) - len(known)} episodes"]
        found.values[probe] = sum(known) / max(1, len(known))
    found.cpu_s = time.process_time() - started
    return found
