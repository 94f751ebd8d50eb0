"""The leaderboard's conversations, probed as every benchmark is: each played by the platform's own player."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Final

from apps.worlds.bfcl import WORLD
from apps.worlds.bfcl.rows import BfclRow
from tentalis.core.graders.calls import CalledFunction
from tentalis.core.worlds import ToolCall
from tests.bench.catalogue_probes import EMPTY, GARBAGE, JUNK, ORACLE, OTHER, REFUSAL, REFUSED, Probed
from tests.bench.scripted_turns import Said, play_script

ASKED_TOO_EARLY: Final = "multi_turn_miss_func_49"
"""Its right calls hold one of a function that is held back then: nobody is right there."""


def write_calls(calls: Sequence[CalledFunction]) -> list[ToolCall]:
    return [ToolCall(id=f"c{n}", name=name, arguments=json.dumps(told)) for n, (name, told) in enumerate(calls)]


def write_script(right: Sequence[Sequence[CalledFunction]]) -> list[Said]:
    """Right calls, each turn's at once, and a word behind them."""
    turns: list[Said] = []
    for calls in right:
        turns += [write_calls(calls), "Done."] if calls else ["Which one?"]
    return turns


def grade_script(row: BfclRow, turns: Sequence[Said]) -> float | None:
    """What a conversation is worth; None: nobody can say."""
    episode, _ = play_script(WORLD, row.prompt, turns)
    return episode.verification.outcome if episode.verification and not episode.lost else None


def probe_conversations(name: str, rows: Sequence[BfclRow]) -> Probed:
    """What comes of right calls, none, garbage, another conversation's, and a refusal."""
    started = time.process_time()
    found = Probed(name, len(rows), shared=0.0)
    others = {row.id: rows[(place + 1) % len(rows)] for place, row in enumerate(rows)}

    def say(words: str) -> Callable[[BfclRow], list[Said]]:
        return lambda row: [words] * len(row.words)

    scripts: dict[str, Callable[[BfclRow], list[Said]]] = {
        ORACLE: lambda row: write_script(row.right),
        EMPTY: say(""),
        JUNK: say(GARBAGE[0]),
        OTHER: lambda row: write_script(others[row.id].right),
        REFUSED: say(REFUSAL),
    }
    for probe, write in scripts.items():
        values = [grade_script(row, write(row)) for row in rows if (probe, row.id) != (ORACLE, ASKED_TOO_EARLY)]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            found.ungraded[probe] = [f"{len(values) - len(known)} conversations"]
        found.values[probe] = sum(known) / max(1, len(known))
    found.cpu_s = time.process_time() - started
    return found
