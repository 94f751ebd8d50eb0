"""Whether tasks that are measured on occur in what is learnt from: in the same words, however written or wrapped."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

LEAST_WORDS = 6
"""Words from which a prompt is looked for inside longer texts; a shorter one must be all of a text to be found."""

_WORD = re.compile(r"\d+(?:[.,]\d+)+|[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]")
_SILENT = frozenset(".,;:!?…'\"`´‘’“”«»")
"""Signs that a task says the same with and without; others are words: 2 + 3 is not 2 * 3."""


def split_into_words(text: str) -> list[str]:
    """What a text says, whatever its case, blanks, punctuation and width of signs; a CJK sign is a word."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return [word for word in words if word not in _SILENT]


class KeptPrompts:
    """Prompts that are kept for measuring, to be found in what is learnt from.

    An exact or a near duplicate is found by a hash of its words: alone, or inside a longer text (a conversation that
    quotes it, an edited answer). What says the same in other words is not.
    """

    def __init__(self, prompts: Iterable[str]) -> None:
        self._whole = {tuple(split_into_words(prompt)) for prompt in prompts} - {()}
        self._by_start: defaultdict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
        for words in self._whole:
            if len(words) >= LEAST_WORDS:
                self._by_start[words[:LEAST_WORDS]].add(words)

    def __bool__(self) -> bool:
        return bool(self._whole)

    def occurs_in(self, text: str) -> bool:
        """Whether a text is one of the prompts, or holds one. Time and memory grow with the text alone."""
        words = tuple(split_into_words(text))
        if words in self._whole:
            return True
        return any(
            words[place : place + len(prompt)] == prompt
            for place in range(len(words) - LEAST_WORDS + 1)
            for prompt in self._by_start.get(words[place : place + LEAST_WORDS], ())
        )


def list_texts(value: Any) -> Iterator[str]:
    """Every text in messages of any dialect: contents, their parts, arguments of calls; names of fields are none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from list_texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from list_texts(one)
