"""Which of several answers to one request is given: the one that the others agree with most."""

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple

from tentalis.core.canon import canonical_json
from tentalis.core.near_duplicates import split_into_words
from tentalis.core.steps import parse_steps

MOST_CHARS: Final = 10_000
"""Of an answer's text that are compared, from its end: of eight in 15 ms."""


class GivenAnswer(NamedTuple):
    """One of the answers.

    Args:
        calls: of tools, (name, arguments as they were written) each.
        is_whole: it came to its own end: it was neither cut off nor held back.
    """

    text: str
    calls: Sequence[tuple[str, str]] = ()
    is_whole: bool = True


def choose_answer(answers: Sequence[GivenAnswer]) -> int:
    """Place of the answer that most say; where no two say the same, of the one that is nearest to all others.

    Answers that say something and are whole stand before those that do not. Two answers say the same where they call
    the same tools with the same arguments, or where their words are the same whatever their case, blanks and
    punctuation: those of their final answer, where they mark one. How near two are is the share of their words, or
    calls, that they have in common (Jaccard). What is left equal is decided by the order of `answers`.

    Raises:
        ValueError: there is none.
    Source:
        Votes: self-consistency, arXiv:2203.11171. Nearness where answers are free text: sampling and voting,
        arXiv:2402.05120, sec. 3, which has BLEU where this has the share of words. Both vote over samples of one
        model; here each voter is another.
    """
    if not answers:
        raise ValueError("wanted at least one answer, found none")
    said = [_read_said(one) for one in answers]
    whole = [place for place, one in enumerate(answers) if one.is_whole and said[place]]
    places = whole or range(len(answers))
    votes = Counter(said[place] for place in places)
    parts = {place: frozenset(said[place]) for place in places}

    def rank(place: int) -> tuple[int, float, int]:
        near = sum(_share(parts[place], parts[other]) for other in places if other != place)
        return votes[said[place]], near, -place

    return max(places, key=rank)


def _read_said(answer: GivenAnswer) -> tuple[Hashable, ...]:
    """What an answer says: its calls, else the words of its final answer."""
    if answer.calls:
        return tuple(sorted((name, _spell(arguments)) for name, arguments in answer.calls))
    text = answer.text[-MOST_CHARS:]
    return tuple(split_into_words(parse_steps(text).answer or text))


def _spell(arguments: str) -> str:
    try:
        value: Any = json.loads(arguments)
        return canonical_json(value).decode()
    except ValueError:
        return arguments.strip()


def _share(one: frozenset[Hashable], other: frozenset[Hashable]) -> float:
    """Jaccard's index, in [0, 1]; 1 of two that are empty."""
    return len(one & other) / len(one | other) if one or other else 1.0
