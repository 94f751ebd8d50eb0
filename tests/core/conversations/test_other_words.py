"""The bench's judge, which reads what the rules cannot, and the words it is measured on."""

from dataclasses import asdict

import pytest

from tentalis.core.conversations.signals import Abstained, Signal, read_reaction
from tentalis.core.conversations.turns import Began
from tests.bench.talker_judge import Judge
from tests.bench.talker_user import HELD_OUT, KNOWN, TAUGHT, Wording

ASKED = "Return: lamp for 30 EUR after 20 days. Refund?"


def list_sentences(wording: Wording) -> set[str]:
    return {text.lower() for texts in asdict(wording).values() for text in texts}


def read(words: str) -> Signal | Abstained:
    return read_reaction(asked=ASKED, reaction=words, began=Began.NEXT)


def test_what_a_user_says_in_the_measurement_nobody_learnt_from() -> None:
    assert not list_sentences(HELD_OUT) & (list_sentences(TAUGHT) | list_sentences(KNOWN))
    assert not list_sentences(TAUGHT) & list_sentences(KNOWN)


def test_the_rules_know_hardly_any_of_it_and_take_none_for_its_opposite() -> None:
    approving = [read(words) for words in HELD_OUT.thanks]
    assert not any(isinstance(found, Signal) and found.score < 0.5 for found in approving)
    assert sum(isinstance(found, Abstained) for found in approving) >= 0.8 * len(approving)
    rejecting = [read(words) for words in (*HELD_OUT.bare, *HELD_OUT.units, *HELD_OUT.sums)]
    assert not any(isinstance(found, Signal) and found.score > 0.5 for found in rejecting)


@pytest.mark.parametrize(
    ("words", "score", "hint"),
    [
        ("Sounds fine to me.", 1.0, ""),
        ("Around here it is fee.", 0.0, "use fee"),
        ("EUR is missing.", 0.0, ""),  # a hint must share a word with what was said
        ("The total does not add up.", 0.0, ""),
    ],
)
def test_a_judge_hears_what_no_rule_knows(words: str, score: float, hint: str) -> None:
    found = read(words)
    assert isinstance(found, Abstained)
    heard = Judge().hear(asked=ASKED, answer="<answer>30</answer>", reaction=words, found=found)
    assert isinstance(heard.found, Signal)
    assert heard.found.score == score
    assert hint in " ".join(heard.hints)


def test_words_the_judge_never_saw_are_no_verdict() -> None:
    heard = Judge().hear(asked=ASKED, answer="30 EUR", reaction="Zut alors!", found=read("Zut alors!"))
    assert isinstance(heard.found, Abstained)
