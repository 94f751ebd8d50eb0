"""A sentence in words, by the conventions of the Penn Treebank, and words that stand somewhere in a text."""

import re
from typing import Final

_OPENING: Final = (
    (re.compile(r"([«“‘„]|`+)"), r" \1 "),
    (re.compile(r'^"'), "``"),
    (re.compile(r"(``)"), r" \1 "),
    (re.compile(r"([ (\[{<])(?:\"|'')"), r"\1 `` "),
    (re.compile(r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)"), "' "),
)
_BETWEEN: Final = (
    (re.compile(r"([:,])([^\d])"), r" \1 \2"),
    (re.compile(r"([:,])$"), r" \1 "),
    (re.compile(r"(\.{2,})"), r" \1 "),
    (re.compile(r"([;@#$%&\u2012-\u2015])"), r" \1 "),
)
_BEHIND: Final = (
    (re.compile(r"([?!])"), r" \1 "),
    (re.compile(r"([^'])' "), r"\1 ' "),
    (re.compile(r"([*\]\[(){}<>])"), r" \1 "),
    (re.compile(r"--"), " -- "),
)
_CLOSING: Final = (
    (re.compile(r"([»”’])"), r" \1 "),
    (re.compile(r"''|\""), " '' "),
    (re.compile(r"\s+"), " "),
    (re.compile(r"([^' ])('[sSmMdD]|') "), r"\1 \2 "),
    (re.compile(r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) "), r"\1 \2 "),
    (re.compile(r"(?i)\b(can)(not)\b"), r" \1 \2 "),
    (re.compile(r"(?i)\b(d)('ye)\b"), r" \1 \2 "),
    (re.compile(r"(?i)\b(gim|lem)(me)\b"), r" \1 \2 "),
    (re.compile(r"(?i)\b(gon)(na)\b"), r" \1 \2 "),
    (re.compile(r"(?i)\b(got)(ta)\b"), r" \1 \2 "),
    (re.compile(r"(?i)\b(more)('n)\b"), r" \1 \2 "),
    (re.compile(r"(?i)\b(wan)(na)(?=\s)"), r" \1 \2 "),
    (re.compile(r"(?i) ('t)(is|was)\b"), r" \1 \2 "),
)
_CLOSERS: Final = "])}>\"'»”’ "


def split_words(sentence: str) -> list[str]:
    """The words and marks of a sentence: clitics, quotes and most marks stand alone, a period only at its end.

    Source:
        The tokenisation of the Penn Treebank, with the quotes and dashes of Unicode that NLTK's word_tokenize adds.
    """
    text = _spread(sentence, _OPENING)
    text = _part_period(text, _CLOSERS)
    text = _spread(text, _BETWEEN)
    text = _part_period(text, _CLOSERS[:6])
    text = _spread(text, _BEHIND)
    return _spread(f" {text} ", _CLOSING).split()


def _spread(text: str, rules: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, apart in rules:
        text = pattern.sub(apart, text)
    return text


def _part_period(text: str, closers: str) -> str:
    """Set the last period apart, if nothing but closing marks is behind it, and no other period in front."""
    end = len(text.rstrip())
    start = len(text[:end].rstrip(closers))
    if start >= 2 and text[start - 1] == "." and text[start - 2] != ".":
        return f"{text[: start - 1]} . {text[start:end]} "
    return text


def is_word_sign(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


def find_all(text: str, part: str) -> list[int]:
    """Where it stands, overlapping too."""
    places, place = [], text.find(part)
    while place >= 0:
        places.append(place)
        place = text.find(part, place + 1)
    return places


def has_word(text: str, word: str) -> bool:
    """Whether it stands there with a border of a word at both of its ends."""
    edged = f"\n{text}\n"
    for place in find_all(text, word):
        ends = (edged[place : place + 2], edged[place + len(word) : place + len(word) + 2])
        if all(is_word_sign(pair[0]) != is_word_sign(pair[1]) for pair in ends):
            return True
    return False
