"""Which of several answers to one request is given: the one that the others agree with most."""

import json
from collections import Counter
from collections.abc import Hashable, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

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


class Choice(NamedTuple):
    """Which answer is given, and what decided.

    Args:
        place: among the answers.
        by: `votes`: most say it; `words`: it is nearest to all others; `lot`: several are as near, or two differ;
            `alone`: no other answer is whole.
    """

    place: int
    by: Literal["votes", "words", "lot", "alone"]


def choose_answer(answers: Sequence[GivenAnswer], *, lots: Sequence[bytes]) -> Choice:
    """Choose the answer that most say; where no two say the same, the one that is nearest to all others.

    Answers that say something and are whole stand before those that do not. Two answers say the same where they call
    the same tools with the same arguments, or where their words are the same whatever their case, blanks and
    punctuation: those of their final answer, where they mark one; the first who said it gives it. How near two are is
    the share of their words, or calls, that they have in common (Jaccard). What is left equal is decided by lot.

    Args:
        lots: one an answer, see `draw_lot`; the highest wins.
    Raises:
        ValueError: there is none, or another number of lots.
    Source:
        Votes: self-consistency, arXiv:2203.11171. Nearness where answers are free text: sampling and voting,
        arXiv:2402.05120, sec. 3, which has BLEU where this has the share of words. Both vote over samples of one
        model; here each voter is another.
    """
    if not answers or len(lots) != len(answers):
        raise ValueError(f"wanted at least one answer and a lot for each, found {len(answers)} and {len(lots)}")
    said = [_read_said(one) for one in answers]
    whole = [place for place, one in enumerate(answers) if one.is_whole and said[place]]
    places = whole or range(len(answers))
    votes = Counter(said[place] for place in places)
    parts = {one: frozenset(one) for one in votes}

    def rank(one: tuple[Hashable, ...]) -> tuple[int, float]:
        near = sum(_share(parts[one], parts[other]) * count for other, count in votes.items() if other != one)
        return votes[one], near + votes[one] - 1

    ranks = {one: rank(one) for one in votes}
    best = max(ranks.values())
    equal = [place for place in places if ranks[said[place]] == best]
    winner = said[max(equal, key=lambda place: lots[place])]
    place = next(place for place in equal if said[place] == winner)
    if len(places) == 1:
        return Choice(place, "alone")
    if len({said[one] for one in equal}) > 1:
        return Choice(place, "lot")
    return Choice(place, "votes" if list(votes.values()).count(votes[winner]) == 1 else "words")


def draw_lot(conversation: str, name: str) -> bytes:
    """The lot of one who answers in a conversation: the same at its every call, and in others another's is higher.

    Source:
        Rendezvous hashing: Thaler and Ravishankar 1998, "Using name-based mappings to increase hit rates". Who does not
        answer changes nothing between the others.
    """
    return sha256(f"{conversation}\0{name}".encode()).digest()


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
