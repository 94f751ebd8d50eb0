"""Exact match and F1 of short answers, by the rules of SQuAD's official script (2.0, which 1.1's agree with)."""

import re
import string
from collections import Counter
from typing import Final

_ARTICLES: Final = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, one blank between words."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def is_exact(answer: str, reference: str) -> bool:
    return normalize_answer(answer) == normalize_answer(reference)


def score_f1(answer: str, reference: str) -> float:
    """In [0, 1], over words; where one side has none, 1 if neither has."""
    own, other = normalize_answer(answer).split(), normalize_answer(reference).split()
    if not own or not other:
        return float(own == other)
    shared = (Counter(own) & Counter(other)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(own), shared / len(other)
    return 2 * precision * recall / (precision + recall)
