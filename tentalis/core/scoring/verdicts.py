"""A judgement in one word: what a model is asked of an attempt, and the score that its two possible words make.

The score is the model's own probability of the one word against the other, not the word it would write: it has an
order, so that it can be measured, calibrated and trained by the very tokens it is read from.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tentalis.core.scoring.protocol import ScoringError
from tentalis.core.sigmoid import sigmoid

Messages = tuple[dict[str, str], ...]

ASKS = (
    "You check another agent's work. Say yes where its answer does what the task asks and holds to the rubric, and no "
    "where it does not. Answer with that one word."
)
MAX_WORK_CHARS = 24_000


@dataclass(frozen=True)
class VerdictQuestion:
    """What is asked of one attempt.

    Args:
        messages: the conversation whose next word is the verdict.
        yes, no: the two words, as the model's tokenizer best writes them there.
    """

    messages: Messages
    yes: str = "yes"
    no: str = "no"

    @property
    def words(self) -> tuple[str, str]:
        return self.yes, self.no

    def choose(self, *, is_good: bool) -> str:
        return self.yes if is_good else self.no


def ask_verdict(*, prompt: str, text: str, rubric: str = "", constitution: str = "") -> VerdictQuestion:
    """The question about one attempt; the same attempt and rubric give the same question.

    Args:
        text: the whole attempt; of a very long one the end, where its answer is.
    """
    rules = "\n\n".join(part for part in (constitution.strip(), rubric.strip()) if part)
    parts = [f"Task:\n{prompt}", f"The agent's work:\n{text[-MAX_WORK_CHARS:]}"]
    if rules:
        parts.insert(0, f"Rubric:\n{rules}")
    return ask_in_turns((("system", ASKS), ("user", "\n\n".join(parts))))


def ask_in_turns(turns: Sequence[tuple[str, str]], yes: str = "yes", no: str = "no") -> VerdictQuestion:
    """A question of (role, text) turns, whose next word is the verdict."""
    return VerdictQuestion(tuple({"role": role, "content": text} for role, text in turns), yes, no)


def score_verdict(yes_logprob: float, no_logprob: float) -> float:
    """P(yes) of the two words alone, in [0, 1].

    Args:
        yes_logprob, no_logprob: nats, summed over each word's tokens.
    Raises:
        ScoringError: one is not a finite number.
    Source:
        GenRM, arXiv:2408.15240, sec. 3.1: the probability of "Yes"; ours is taken of the two words only, so that what
        else the model might have said does not move it.
    """
    if not math.isfinite(yes_logprob) or not math.isfinite(no_logprob):
        raise ScoringError(f"log-probs: wanted finite numbers, found {yes_logprob} and {no_logprob}")
    return float(sigmoid(yes_logprob - no_logprob))
