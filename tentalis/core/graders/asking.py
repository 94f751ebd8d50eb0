"""What a judge is asked about an answer, and how its reply is read: a reply that cannot be read is no verdict."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tentalis.core.grading import UngradedError
from tentalis.core.scoring.judging import (
    ANSWER_CHARS,
    PROMPT_CHARS,
    REFERENCE_CHARS,
    RUBRIC_CHARS,
    build_pair_request,
    join_orders,
    parse_preference,
    read_verdict,
)
from tentalis.core.scoring.protocol import Unscored
from tentalis.core.scoring.quoting import QUOTING_RULE, cap_text, quote_blocks

Ask = Callable[[str], str]
"""Asks the judge and gives its reply; raises UngradedError where it cannot be asked."""
_RUBRIC: Final = (
    "Hold an agent's answer to the rubric. Neither its length nor its tone is a merit. `score` is a number from 0 to "
    "1: 1 means all that the rubric wants, 0 nothing of it."
)
_CRITERIA: Final = (
    "Say of each numbered criterion in the RUBRIC block whether an agent's answer meets it, by what the answer says "
    "and nothing else. Neither its length nor its tone is a merit."
)
_EQUALITY: Final = (
    "Say whether an agent's answer to a task says the same as the reference: the same value, name or fact, whatever "
    "the form, the wording and the work shown. An answer that names several possibilities, leaves it open or refuses "
    "is not the same."
)
_FORM: Final = "Answer with one JSON object and nothing else:"


class Comparison(NamedTuple):
    """One answer beside another, asked in both orders.

    Args:
        share: 1 where it is better in both, 0 where it is worse in both, else 0.5.
        swayed: whether the order decided.
    """

    share: float
    swayed: bool


def ask_rubric(ask: Ask, *, prompt: str, answer: str, rubric: str) -> float:
    """How much of a rubric an answer has, in [0, 1]. Raises UngradedError."""
    form = f'{_FORM} {{"score": 0.0, "reason": "..."}}.'
    verdict = _ask(ask, _RUBRIC, form, {"RUBRIC": rubric, "TASK": prompt, "ANSWER": answer}, "score")
    score = verdict["score"]
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise UngradedError(f"score: wanted a number from 0 to 1, found {score!r:.80}")
    return float(score)


def ask_criteria(ask: Ask, *, prompt: str, answer: str, criteria: Sequence[str]) -> list[bool]:
    """Which of the criteria an answer meets. Raises UngradedError."""
    form = f'{_FORM} {{"met": [true, false], "reason": "..."}}. `met` has a word for each of {len(criteria)} criteria.'
    rubric = "\n".join(f"{number}. {text}" for number, text in enumerate(criteria, 1))
    met = _ask(ask, _CRITERIA, form, {"RUBRIC": rubric, "TASK": prompt, "ANSWER": answer}, "met")["met"]
    if not isinstance(met, list) or len(met) != len(criteria) or not all(isinstance(one, bool) for one in met):
        raise UngradedError(f"met: wanted true or false of {len(criteria)} criteria, found {met!r:.120}")
    return met


def ask_equality(ask: Ask, *, prompt: str, answer: str, reference: str) -> bool:
    """Whether an answer says what the reference says. Raises UngradedError."""
    form = f'{_FORM} {{"same": true, "reason": "..."}}.'
    same = _ask(ask, _EQUALITY, form, {"TASK": prompt, "REFERENCE": reference, "ANSWER": answer}, "same")["same"]
    if not isinstance(same, bool):
        raise UngradedError(f"same: wanted true or false, found {same!r:.80}")
    return same


def compare_answers(ask: Ask, *, prompt: str, answer: str, other: str, rubric: str = "") -> Comparison:
    """Which of two answers is better, asked twice with their places swapped. Raises UngradedError."""
    first = _ask_preference(ask, prompt, answer, other, rubric)
    second = _ask_preference(ask, prompt, other, answer, rubric)
    return Comparison(join_orders(first, second), first != 1 - second)


def _ask_preference(ask: Ask, prompt: str, first: str, second: str, rubric: str) -> float:
    messages = build_pair_request(prompt=prompt, first=first, second=second, rubric=rubric)
    preference = parse_preference(ask("\n\n".join(message["content"] for message in messages)))
    if isinstance(preference, Unscored):
        raise UngradedError(preference.reason)
    return preference


_CAPS: Final[Mapping[str, int]] = {
    "TASK": PROMPT_CHARS,
    "ANSWER": ANSWER_CHARS,
    "REFERENCE": REFERENCE_CHARS,
    "RUBRIC": RUBRIC_CHARS,
}


def _ask(ask: Ask, rule: str, form: str, blocks: Mapping[str, str], key: str) -> dict[str, Any]:
    quoted = quote_blocks({name: cap_text(text, _CAPS[name]) for name, text in blocks.items()})
    verdict = read_verdict(
        ask(f"{rule}\n\n{QUOTING_RULE}\n\n{form}\n\n{quoted}\n\nGive your verdict now, as JSON."), key
    )
    if isinstance(verdict, Unscored):
        raise UngradedError(verdict.reason)
    return verdict
