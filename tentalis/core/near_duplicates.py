"""Which texts say the same, or nearly: MinHash finds who may, their words decide. And which are quoted in longer ones.

Tasks of one kind share most of their words, and differ where it matters: "add 12 and 7", "add 12 and 8"; a page of
instructions and one town. So a share of common words is not enough: what differs has to be a slip of the pen or words
that were added, and no number, sign or "not". Paraphrases are not found; they are other tasks to whoever learns them.
"""

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

NEAR: Final = 0.7
"""Share of four-letter pieces that two texts have in common (Jaccard) from which they are nearly the same."""
BANDS, ROWS = 20, 5
"""Of such a pair 97 of 100 have a band in common at NEAR, all but one of 2,000 at 0.8; at 0.3 five of 100 do."""
_PIECE: Final = 4
_AT_ONCE: Final = 4_096
"""Pieces that all permutations are made of together; of more, a band's at a time, which takes less memory."""
_LEAST_SLIP_LETTERS: Final = 5
_DENYING: Final = frozenset(
    {"not", "no", "never", "without", "except", "nicht", "kein", "keine", "non", "pas", "ne", "nie"}
)
_MIX: Final = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)


LEAST_WORDS = 6
"""Words from which a prompt is looked for inside longer texts; a shorter one must be all of a text to be found."""

_WORD = re.compile(r"\d+(?:[.,]\d+)+|[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]")
_SILENT = frozenset(".,;:!?…'\"`´‘’“”«»")
"""Signs that a task says the same with and without; others are words: 2 + 3 is not 2 * 3."""


def split_into_words(text: str) -> list[str]:
    """What a text says, whatever its case, blanks, punctuation and width of signs; a CJK sign is a word."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return [word for word in words if word not in _SILENT]


def hash_words(text: str) -> str:
    """SHA-256 of a text's words in hex: the same whatever their case, blanks and punctuation."""
    return hashlib.sha256("\x1f".join(split_into_words(text)).encode("utf-8", "surrogatepass")).hexdigest()


def list_bands(text: str) -> list[int]:
    """(1 + BANDS,) signed 64-bit numbers: texts that may say nearly the same have one in common.

    The first is of `hash_words`, so that equal texts are found by it alone. What is stored is compared with what is
    made later: a change here needs all of them made anew.

    Source:
        Broder 1997; Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, ch. 3. Permutations are multiply-shift
        (Dietzfelbinger 1997) of mixed four-letter pieces.
    """
    whole = int.from_bytes(bytes.fromhex(hash_words(text))[:8], "big", signed=True)
    pieces = _hash_pieces(" ".join(split_into_words(text)))  # (P,)
    least = np.concatenate(  # (BANDS*ROWS,)
        [
            (_FACTORS[part] * pieces + _ADDED[part]).min(axis=1) >> np.uint64(32)
            for part in np.split(np.arange(BANDS * ROWS), BANDS if len(pieces) > _AT_ONCE else 1)
        ]
    ).astype("<u4")
    bands = least.reshape(BANDS, ROWS)
    digests = (hashlib.blake2b(bytes([n]) + row.tobytes(), digest_size=8).digest() for n, row in enumerate(bands))
    return [whole, *(int.from_bytes(digest, "big", signed=True) for digest in digests)]


def are_nearly_same(text: str, against: str) -> bool:
    """Whether two texts are one task: the same words, or the shorter's in the longer, with slips of the pen.

    Words the longer has beyond hold no number and no sign, and deny nothing. Time grows with the words.
    """
    short, long = sorted((_split(text), _split(against)), key=len)
    if short == long:
        return True
    if not _adds_little(short, long):
        return False
    first, second = (frozenset(_cut_pieces(" ".join(words))) for words in (short, long))
    return len(first & second) >= NEAR * len(first | second)


@lru_cache(maxsize=512)
def _split(text: str) -> tuple[str, ...]:
    return tuple(split_into_words(text))


def _adds_little(short: Sequence[str], long: Sequence[str]) -> bool:
    """Whether `short` is in `long`, in order, and what is beyond it changes no task."""
    place = 0
    for word in long:
        if place < len(short) and (word == short[place] or _is_slip(word, short[place])):
            place += 1
        elif not word.isalpha() or word in _DENYING:
            return False
    return place == len(short)


def _is_slip(one: str, other: str) -> bool:
    """Whether two words of letters differ by one letter too many, missing, wrong or swapped, and begin alike."""
    if min(len(one), len(other)) < _LEAST_SLIP_LETTERS or abs(len(one) - len(other)) > 1 or one[0] != other[0]:
        return False
    if not (one.isalpha() and other.isalpha()):
        return False
    start = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    first, second = one[start:], other[start:]
    if len(first) != len(second):
        return first[1:] == second or first == second[1:]
    return first[1:] == second[1:] or (first[:2] == second[1::-1] and first[2:] == second[2:])


def _cut_pieces(text: str) -> list[str]:
    return [text[n : n + _PIECE] for n in range(max(1, len(text) - _PIECE + 1))]


def _hash_pieces(text: str) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """(P,) one mixed hash for each distinct piece; a text shorter than a piece is one."""
    signs = np.frombuffer(text.ljust(_PIECE, "\0").encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
    count = len(signs) - _PIECE + 1
    mixed = np.zeros(count, dtype=np.uint64)
    for n, factor in enumerate(_MIX):
        mixed += signs[n : n + count] * np.uint64(factor)
    mixed = np.unique(mixed)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(_MIX[1])
    mixed ^= mixed >> np.uint64(29)
    return mixed


def _draw(place: int, part: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(f"{part}{place}".encode(), digest_size=8).digest(), "big"))


_FACTORS: Final = np.array([[_draw(place, "a") | np.uint64(1)] for place in range(BANDS * ROWS)])  # (BANDS*ROWS, 1)
_ADDED: Final = np.array([[_draw(place, "b")] for place in range(BANDS * ROWS)])  # (BANDS*ROWS, 1)


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
