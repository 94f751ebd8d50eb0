"""Putting the questions of a probe to a judge. What cannot be asked, or is not understood, is kept as its cause."""

from collections.abc import Sequence
from typing import Any, Final

from apps.base.errors import TentalisError
from apps.inference.errors import raise_if_paced
from apps.inference.judges import Voter, cast_vote
from tentalis.core.scoring.judge_probes import (
    OWN,
    SCORES,
    JudgeQuestion,
    ask_own,
    ask_pair,
    ask_score,
    find_own_fault,
)
from tentalis.core.scoring.judging import parse_preference
from tentalis.core.scoring.probe_items import ProbeItem
from tentalis.core.scoring.protocol import Score, Unscored
from tentalis.core.scoring.quoting import Message, cap_text, clean_text

PAIR_TOKENS: Final = 1_024
OWN_TOKENS, OWN_CHARS = 256, 1_000
CAUSE_CHARS: Final = 200


def ask_item(voter: Voter, part: str, item: ProbeItem, own: Sequence[str] = ()) -> list[Any]:
    """What a judge says of an item: a number or a cause for each question of a part; its answer and why there is none,
    of its own answers.

    Args:
        own: what the same gave for its own answer to the item.
    Raises:
        PacedError: it is to be asked later.
    """
    if part == OWN:
        text = _reply(voter, [{"role": "user", "content": ask_own(item)}], OWN_TOKENS)
        if isinstance(text, Unscored):
            return ["", cut_cause(text.reason)]
        return [cap_text(clean_text(text.strip()), OWN_CHARS), ""]
    if part == SCORES:
        return [_keep(_rate(voter, item, answer)) for answer in (item.right, item.wrong)]
    answer, cause = own or ("", "")
    if part == "self" and (fault := cause or find_own_fault(item, answer)):
        return [fault]
    return [_keep(_prefer(voter, question)) for question in ask_pair(part, item, answer)]


def cut_cause(reason: str) -> str:
    """A cause as it is kept: causes that are alike are counted together."""
    return clean_text(reason)[:CAUSE_CHARS]


def _keep(score: Score) -> float | str:
    return cut_cause(score.reason) if isinstance(score, Unscored) else float(score)


def _prefer(voter: Voter, question: JudgeQuestion) -> Score:
    text = _reply(voter, question.messages, PAIR_TOKENS)
    return text if isinstance(text, Unscored) else parse_preference(text)


def _rate(voter: Voter, item: ProbeItem, answer: str) -> Score:
    said = cast_vote(voter, ask_score(item, answer), temperature=0.0)
    return said if isinstance(said, Unscored) else said.overall


def _reply(voter: Voter, messages: Sequence[Message] | Sequence[dict[str, str]], max_tokens: int) -> str | Unscored:
    try:
        answers = voter.client.chat(messages, model=voter.model, max_tokens=max_tokens, temperature=0.0)
    except TentalisError as error:
        raise_if_paced(error)
        return Unscored(f"{type(error).__name__}: {error}")
    return str(answers[0].text)
