"""Asking a model what a person's next words show and teach; it may always say that it cannot tell."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tentalis.core.conversations.signals import TRUST, Abstained, Signal, SignalKind
from tentalis.core.hints import MAX_HINT_CHARS
from tentalis.core.scoring.quoting import QUOTING_RULE, Message, cap_text, clean_text, drop_thoughts, quote_blocks

Verdict = Literal["good", "bad", "unsure"]
VERDICTS: Final[tuple[Verdict, ...]] = ("good", "bad", "unsure")
_ASKED_CHARS, _ANSWER_CHARS, _REACTION_CHARS = 6_000, 8_000, 4_000
_SYSTEM: Final = (
    "An agent answered a person, and the person wrote something next. Say what the person's words show of the answer: "
    "good (they accept it or build on it), bad (they reject it, correct it, or ask for the same again), or unsure "
    "(they change the subject, or it cannot be told). unsure is a good answer; a guess is not. Where the words teach "
    "what the agent should have done, write that as hint: one to three short imperative sentences that name the rule "
    "in the person's terms, not the final answer; else hint is empty. Answer with one JSON object and nothing else: "
    '{"verdict": "good", "hint": ""}.'
)
_OBJECT: Final = re.compile(r"\{[^{}]*\}", re.DOTALL)
_WORD: Final = re.compile(r"[\w']+")
_SHORT_WORD_CHARS: Final = 3


@dataclass(frozen=True)
class Vote:
    """One model's word: verdict None where its answer could not be read, for `fault`."""

    verdict: Verdict | None
    hint: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Heard:
    """What several votes came to."""

    found: Signal | Abstained
    hints: Sequence[str]


def build_question(*, asked: str, answer: str, reaction: str) -> list[Message]:
    """The messages for a model; the same words always give the same bytes."""
    blocks = {
        "ASKED": cap_text(asked, _ASKED_CHARS),
        "ANSWER": cap_text(answer or "(no answer was given)", _ANSWER_CHARS),
        "NEXT WORDS": cap_text(reaction, _REACTION_CHARS),
    }
    return [
        Message(role="system", content=f"{_SYSTEM}\n\n{QUOTING_RULE}"),
        Message(role="user", content=f"{quote_blocks(blocks)}\n\nGive your verdict now, as JSON."),
    ]


def parse_vote(text: str) -> Vote:
    """Read one answer; never raises. Two verdicts that differ are none."""
    found: list[dict[str, Any]] = []
    for match in _OBJECT.finditer(drop_thoughts(text)[:64_000]):
        try:
            data = json.loads(match[0])
        except ValueError:
            continue
        if "verdict" in data:
            found.append(data)
    if not found:
        return Vote(None, fault='no JSON object with "verdict"')
    if any(data["verdict"] != found[0]["verdict"] for data in found):
        return Vote(None, fault="verdicts that differ in one answer")
    verdict, hint = found[-1]["verdict"], found[-1].get("hint", "")
    if verdict not in VERDICTS:
        return Vote(None, fault=f"verdict: wanted one of {', '.join(VERDICTS)}, found {verdict!r:.40}")
    words = clean_text(hint.strip()) if isinstance(hint, str) else ""
    return Vote(verdict, words if len(words) <= MAX_HINT_CHARS else "")


def count_votes(votes: Sequence[Vote]) -> Heard:
    """More than half of all votes cast must agree on good or bad; else nothing is said, with the count as its reason.

    The signal is trusted by the share that agreed.
    """
    counts = Counter[str](vote.verdict or "unreadable" for vote in votes)
    hints = [vote.hint for vote in votes if vote.verdict == "bad" and vote.hint]
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    for verdict, score in (("good", 1.0), ("bad", 0.0)):
        if 2 * counts[verdict] > len(votes):
            trust = TRUST[SignalKind.JUDGED] * counts[verdict] / len(votes)
            return Heard(
                Signal(kind=SignalKind.JUDGED, score=score, trust=trust, reason=f"votes: {told}"),
                hints if verdict == "bad" else [],
            )
    return Heard(Abstained(f"the votes agree on nothing: {told or 'none was cast'}", may_ask=False), [])


def choose_hint(candidates: Sequence[str], *, statement: str) -> str:
    """The candidate that the others say too, among those that speak of what the person said; "" where none does.

    A candidate must share a word of more than three letters with the person's own: a hint made up of other things is
    no reading of them. The one with the most in common with all candidates wins (mean Jaccard index of their words),
    the shorter of equals.
    """
    spoken = _content_words(statement)
    sets = {hint: _content_words(hint) for hint in dict.fromkeys(candidates)}
    grounded = [hint for hint, words in sets.items() if words & spoken]
    return min(grounded, key=lambda hint: (-_agreement(sets[hint], candidates), len(hint), hint), default="")


def _agreement(words: frozenset[str], candidates: Sequence[str]) -> float:
    others = [_content_words(other) for other in candidates]
    return sum(len(words & other) / max(len(words | other), 1) for other in others) / len(others)


def _content_words(text: str) -> frozenset[str]:
    return frozenset(word for word in _WORD.findall(text.lower()) if len(word) > _SHORT_WORD_CHARS)
