"""The terminal with rewards that are drawn by lot: a control, in which nothing can be learnt."""

from hashlib import sha256
from typing import Any

from apps.worlds.terminal.world import TerminalWorld
from tentalis.core.worlds import AttemptDraft, Verification

SHARE = 0.33
"""Of the attempts that are said to be right: about as many as are so at first."""


class LotteryWorld(TerminalWorld):
    name = "lottery"
    label = "Terminal by lot"
    manager = "llm"
    profile = {"outcome": 1.0}

    def verify_state(self, prompt: str, reference: Any, state: Any, draft: AttemptDraft) -> Verification:
        drawn = int.from_bytes(sha256(state.sandbox.name.encode()).digest()[:4]) / 2**32
        return Verification(outcome=float(drawn < SHARE), step_scores=[None] * len(draft.steps))
