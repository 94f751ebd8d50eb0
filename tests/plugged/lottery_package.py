"""Worlds with rewards that are drawn by lot: controls, in which nothing can be learnt."""

import secrets
from hashlib import sha256
from typing import Any

from apps.worlds.swe.world import SweWorld
from apps.worlds.terminal.world import TerminalWorld
from tentalis.core.worlds import AttemptDraft, Verification

SHARE = 0.33
"""Of the attempts that are said to be right: about as many as are so at first."""


def draw(lot: str, draft: AttemptDraft) -> Verification:
    drawn = int.from_bytes(sha256(lot.encode()).digest()[:4]) / 2**32
    return Verification(outcome=float(drawn < SHARE), step_scores=[None] * len(draft.steps))


class TerminalLottery(TerminalWorld):
    name = "terminal_lottery"
    label = "Terminal by lot"
    manager = "llm"
    profile = {"outcome": 1.0}

    def verify_state(self, prompt: str, reference: Any, state: Any, draft: AttemptDraft) -> Verification:
        return draw(state.sandbox.name, draft)


class SweLottery(SweWorld):
    name = "swe_lottery"
    label = "Repositories by lot"
    manager = "llm"
    profile = {"outcome": 1.0}

    def reset(self, prompt: str, seed: int | None) -> dict[str, Any]:
        return {**super().reset(prompt, seed), "lot": secrets.token_hex(8)}

    def verify_state(self, prompt: str, reference: Any, state: Any, draft: AttemptDraft) -> Verification:
        return draw(state["lot"], draft)
