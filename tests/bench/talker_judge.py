"""A small reader that stands for a judge: it learnt from other people's words what they mean, and writes hints.

A naive Bayes classifier of sentences by their words, pairs of words and what the answer has to do with them (whether
they name a number that the answer does not have). It is asked as a model is, in the product's own question, and
answers in JSON. It is no language model: what it makes of words it never saw shows how little it takes.
"""

import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tentalis.core.conversations.asking import (
    Heard,
    Vote,
    build_question,
    choose_hint,
    count_votes,
    parse_vote,
)
from tentalis.core.conversations.signals import Abstained, Signal
from tentalis.core.desk import SUM_HINT, UNIT_HINT
from tests.bench.talker_user import TAUGHT, Wording

VOTES: Final = 3
SURE_FROM: Final = 0.6
"""Of a kind's probability; below that the judge is unsure."""
COPIES: Final = 12
NEVER: Final = 0.002
"""Share of a feature that a kind never had."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:'\w+)?|\d+|[^\w\s.,!;:]")
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+")
_BLOCK: Final = re.compile(r"<<<(?P<name>[A-Z ]+) (?P<fence>\S+)\n(?P<text>.*?)\n(?P=fence) (?P=name)>>>", re.DOTALL)
_HINTS: Final[Mapping[str, str]] = {"unit": UNIT_HINT, "sum": SUM_HINT}


class Judge:
    """Three of them, each of which learnt from other examples of the same words."""

    def __init__(self, wording: Wording = TAUGHT) -> None:
        self._readers = [_Reader(wording, random.Random(seed)) for seed in range(VOTES)]

    def hear(self, *, asked: str, answer: str, reaction: str, found: Signal | Abstained) -> Heard:
        """What the product makes of these words with such a judge: a verdict where rules have none, and a hint."""
        wants_hint = isinstance(found, Signal) and found.score < 0.5 and bool(reaction.strip())
        if not wants_hint and not (isinstance(found, Abstained) and found.may_ask):
            return Heard(found, [])
        question = str(build_question(asked=asked, answer=answer, reaction=reaction)[-1]["content"])
        votes: list[Vote] = [parse_vote(reader.answer(question)) for reader in self._readers]
        heard = count_votes(votes)
        hints = [vote.hint for vote in votes if vote.verdict == "bad" and vote.hint]
        hint = choose_hint(hints, statement=reaction)
        return Heard(found if isinstance(found, Signal) else heard.found, [hint] if hint else [])


class _Reader:
    def __init__(self, wording: Wording, rng: random.Random) -> None:
        examples = list(_list_examples(wording, rng))
        self._known = {word for _, words in examples for word in words if not word.startswith("<")}
        counts: dict[str, Counter[str]] = {}
        for kind, words in rng.choices(examples, k=COPIES * len(examples)):
            counts.setdefault(kind, Counter()).update(self._list_features(words))
        self._shares = {
            kind: {one: number / count.total() for one, number in count.items()} for kind, count in counts.items()
        }
        self._features = {feature for count in counts.values() for feature in count}

    def answer(self, question: str) -> str:
        blocks = {found["name"]: found["text"] for found in _BLOCK.finditer(question)}
        told = set(re.findall(r"\d+", blocks.get("ANSWER", "")))
        kinds, hints = [], []
        for sentence in _SENTENCE.split(blocks.get("NEXT WORDS", "")):
            words = _read(sentence, told)
            kind = self._choose(words)
            kinds.append(kind)
            if kind == "option":
                hints += [f"use {word}" for word in words if word not in self._known and word.isalpha()]
            elif kind in _HINTS:
                hints.append(_HINTS[kind])
        verdict = "bad" if set(kinds) & {"option", "unit", "sum", "bad"} else "good" if "good" in kinds else "unsure"
        return json.dumps({"verdict": verdict, "hint": ", ".join(dict.fromkeys(hints))})

    def _choose(self, words: Sequence[str]) -> str:
        features = [one for one in self._list_features(words) if one in self._features]
        if not any(word in self._features for word in words):  # of where new words stand alone nothing is known
            return "unsure"
        scores = {
            kind: sum(math.log(share.get(one, 0.0) + NEVER) for one in features) for kind, share in self._shares.items()
        }
        best = max(scores, key=lambda kind: scores[kind])
        total = sum(math.exp(score - scores[best]) for score in scores.values())
        return best if 1 / total >= SURE_FROM else "unsure"

    def _list_features(self, words: Sequence[str]) -> Iterator[str]:
        plain = [word if word.startswith("<") or word in self._known else "<new>" for word in words]
        yield from (word for word in plain if word != "<new>")
        yield from (f"{one} {other}" for one, other in zip(["<begin>", *plain], [*plain, "<end>"], strict=True))


def _list_examples(wording: Wording, rng: random.Random) -> Iterator[tuple[str, Sequence[str]]]:
    """(kind, words) of everything that is said in a wording; an option's word is one never seen."""
    said = {
        "good": wording.thanks, "bad": wording.bare, "option": wording.options, "unit": wording.units,
        "sum": wording.sums, "unsure": wording.changes,
    }  # fmt: skip
    for kind, texts in said.items():
        yield from ((kind, _read(text.format(option="<new>"), set())) for text in texts)
    for text in wording.tells:
        yield "bad", _read(text.format(answer=f"{rng.randrange(10, 99)} EUR"), set())


def _read(text: str, told: set[str]) -> list[str]:
    """Its words; a number as whether the answer has it."""
    pieces = re.split(r"(<new>)", text.lower())
    found = [word for piece in pieces for word in ([piece] if piece == "<new>" else _WORD.findall(piece))]
    return [("<same number>" if word in told else "<other number>") if word.isdigit() else word for word in found]
