"""BLEU, chrF and TER of a text beside its references, to the numbers that sacrebleu 2.6 gives.

Each measure counts first (`count_*`) and is worked out of counts (`score_*`), so that a corpus is scored by the sum of
its sentences' counts, which is not the mean of their scores.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

BLEU_ORDER: Final = 4
CHARACTER_ORDER: Final = 6
MOST_REFERENCE_WORDS: Final = 400
"""Of a reference: TER of longer ones takes seconds."""
_ENTITIES: Final = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SIGNS: Final = re.compile(r"([{-~\[-` -&(-+:-@/])")
_POINT_BEHIND: Final = re.compile(r"([^0-9])([.,])")
_POINT_BEFORE: Final = re.compile(r"([.,])([^0-9])")
_DASH: Final = re.compile(r"([0-9])(-)")
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


# --- BLEU


def split_13a(text: str) -> list[str]:
    """Words and signs as mteval-v13a cuts them, the tokenizer of WMT."""
    text = text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, sign in _ENTITIES:
        text = text.replace(entity, sign)
    text = _SIGNS.sub(r" \1 ", f" {text} ")
    text = _POINT_BEHIND.sub(r"\1 \2 ", text)
    text = _POINT_BEFORE.sub(r" \1 \2", text)
    return _DASH.sub(r"\1 \2 ", text).split()


def split_blanks(text: str) -> list[str]:
    return text.split()


def split_characters(text: str) -> list[str]:
    """Every character that is no blank."""
    return [character for character in text if not character.isspace()]


TOKENIZERS: Final = MappingProxyType({"13a": split_13a, "none": split_blanks, "char": split_characters})


class BleuCounts(NamedTuple):
    """Of one sentence, or the sum of many.

    Args:
        words: in the text; reference_words: in the reference whose length is nearest.
        matched, total: (4,) n-grams that a reference has, and all, by their order.
    """

    words: int
    reference_words: int
    matched: tuple[int, ...]
    total: tuple[int, ...]

    def __add__(self, other: object) -> "BleuCounts":
        if not isinstance(other, BleuCounts):
            return NotImplemented
        return BleuCounts(
            self.words + other.words,
            self.reference_words + other.reference_words,
            tuple(map(sum, zip(self.matched, other.matched, strict=True))),
            tuple(map(sum, zip(self.total, other.total, strict=True))),
        )


def count_bleu(text: str, references: Sequence[str], *, tokenizer: str = "13a", lowercase: bool = False) -> BleuCounts:
    """What BLEU is worked out of."""
    words = TOKENIZERS[tokenizer](text.lower() if lowercase else text)
    lengths, known = _count_references(tuple(references), tokenizer, lowercase)
    nearest = min(lengths, key=lambda length: (abs(len(words) - length), length))
    matched = [0] * BLEU_ORDER
    for order in range(1, BLEU_ORDER + 1):
        for ngram, count in Counter(_find_ngrams(words, order)).items():
            if ngram in known:
                matched[order - 1] += min(count, known[ngram])
    total = tuple(max(len(words) - order + 1, 0) for order in range(1, BLEU_ORDER + 1))
    return BleuCounts(len(words), nearest, tuple(matched), total)


@lru_cache(maxsize=256)
def _count_references(
    references: tuple[str, ...], tokenizer: str, lowercase: bool
) -> tuple[list[int], Mapping[tuple[str, ...], int]]:
    """Their lengths, and how often each n-gram stands in the one that has it most often."""
    lengths: list[int] = []
    most: dict[tuple[str, ...], int] = {}
    for reference in references:
        words = TOKENIZERS[tokenizer](reference.lower() if lowercase else reference)
        lengths.append(len(words))
        counts = Counter(ngram for order in range(1, BLEU_ORDER + 1) for ngram in _find_ngrams(words, order))
        for ngram, count in counts.items():
            most[ngram] = max(most.get(ngram, 0), count)
    return lengths, most


def _find_ngrams(words: Sequence[str], order: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[place:] for place in range(order)), strict=False)


def score_bleu(counts: BleuCounts, *, is_sentence: bool = True) -> float:
    """In [0, 100].

    Args:
        is_sentence: orders that a text is too short for are left out (sacrebleu's effective_order).
    Source:
        Papineni et al., 2002; smoothed as mteval-v13a does ("exp"): 1/2, 1/4, … of an n-gram where none matches.
    """
    if not any(counts.matched):
        return 0.0
    penalty = math.exp(min(0.0, 1 - counts.reference_words / counts.words))
    logs, smoothed = [], 1.0
    for matched, total in zip(counts.matched, counts.total, strict=True):
        if total == 0:
            break
        if matched == 0:
            smoothed *= 2
        logs.append(math.log(100.0 * matched / total if matched else 100.0 / (smoothed * total)))
    if not is_sentence and len(logs) < BLEU_ORDER:
        return 0.0
    return penalty * math.exp(sum(logs) / len(logs))


# --- chrF

ChrfCounts = tuple[tuple[int, int, int], ...]
"""By order: n-grams of the text, of its reference, and of both."""


def count_chrf(text: str, references: Sequence[str], *, word_order: int = 0, lowercase: bool = False) -> ChrfCounts:
    """What chrF is worked out of, beside the reference that it is best by; `word_order`: 2 for chrF++."""
    own = _count_pieces(text.lower() if lowercase else text, word_order)
    best: ChrfCounts = ()
    best_score = -1.0
    for reference in references:
        other = _count_reference_pieces(reference.lower() if lowercase else reference, word_order)
        counts = tuple(map(_compare_pieces, own, other))
        if (score := score_chrf(counts)) > best_score:
            best, best_score = counts, score
    return best


def _count_pieces(text: str, word_order: int) -> list[Counter[str]]:
    characters = "".join(text.split())
    found = [
        Counter(characters[place : place + order] for place in range(len(characters) - order + 1))
        for order in range(1, CHARACTER_ORDER + 1)
    ]
    if word_order:
        words = [piece for word in text.split() for piece in _part_punctuation(word)]
        found += [Counter(map(" ".join, _find_ngrams(words, order))) for order in range(1, word_order + 1)]
    return found


@lru_cache(maxsize=256)
def _count_reference_pieces(text: str, word_order: int) -> list[Counter[str]]:
    return _count_pieces(text, word_order)


def _part_punctuation(word: str) -> list[str]:
    """One sign at the end, or else one at the beginning, stands for itself."""
    if len(word) > 1 and word[-1] in _PUNCTUATION:
        return [word[:-1], word[-1]]
    if len(word) > 1 and word[0] in _PUNCTUATION:
        return [word[0], word[1:]]
    return [word]


def _compare_pieces(own: Counter[str], other: Counter[str]) -> tuple[int, int, int]:
    """What a reference has nothing of counts for nothing."""
    both = sum(min(count, other[piece]) for piece, count in own.items() if piece in other)
    return own.total() if other else 0, other.total(), both


def add_chrf(counts: ChrfCounts, more: ChrfCounts) -> ChrfCounts:
    """Those of both, as of one corpus."""
    pairs = zip(counts, more, strict=True)
    return tuple((own + of, other + others, both + shared) for (own, other, both), (of, others, shared) in pairs)


def score_chrf(counts: ChrfCounts, *, beta: float = 2.0) -> float:
    """In [0, 100]: the F of mean precision and mean recall over the orders that both texts are long enough for.

    Source:
        Popović, 2015 (W15-3049) and 2017 (W17-4770), as sacrebleu works it out without epsilon smoothing.
    """
    kept = [(both / own, both / other) for own, other, both in counts if own and other]
    if not kept:
        return 0.0
    precision = sum(one for one, _ in kept) / len(kept)
    recall = sum(one for _, one in kept) / len(kept)
    if precision + recall == 0:
        return 0.0
    factor = beta**2
    return 100 * (1 + factor) * precision * recall / (factor * precision + recall)


# --- TER

_MOST_MOVED: Final = 10
"""Words that move together."""
_MOST_AWAY: Final = 50
_BEAM: Final = 25
"""Columns at each side of the diagonal that are looked at."""
_MOST_CANDIDATES: Final = 1_000
_MOST_KEPT: Final = 10_000
_FAR: Final = 10**16
_KEEP, _CHANGE, _INSERT, _DELETE = " ", "s", "i", "d"


class TerCounts(NamedTuple):
    """Edits to the reference that takes the fewest, and the mean length of the references."""

    edits: int
    reference_words: float

    def __add__(self, other: object) -> "TerCounts":
        if not isinstance(other, TerCounts):
            return NotImplemented
        return TerCounts(self.edits + other.edits, self.reference_words + other.reference_words)


def split_ter(text: str, *, lowercase: bool = True) -> list[str]:
    """Words between blanks."""
    return (text.rstrip().lower() if lowercase else text.rstrip()).split()


def count_ter(text: str, references: Sequence[str], *, lowercase: bool = True) -> TerCounts:
    """What TER is worked out of."""
    words = split_ter(text, lowercase=lowercase)
    others = [split_ter(reference, lowercase=lowercase) for reference in references]
    edits = min(_count_edits(words, other) for other in others)
    return TerCounts(edits, sum(map(len, others)) / len(others))


def score_ter(counts: TerCounts) -> float:
    """Edits a hundred words of the reference: 0 where nothing is to be done, above 100 where all is wrong and more.

    Source:
        Snover et al., 2006, with Tercom's limits and order of shifts as sacrebleu has them.
    """
    if counts.reference_words:
        return 100 * counts.edits / counts.reference_words
    return 100.0 if counts.edits else 0.0


def _count_edits(words: Sequence[str], reference: Sequence[str]) -> int:
    """Insertions, deletions and substitutions that are left after shifts of words, and the shifts."""
    if not reference:
        return len(words)
    distances, shifts, tried = _Distances(reference, len(words)), 0, 0
    current = tuple(words)
    while True:
        gain, shifted, tried = _find_shift(current, reference, distances, tried)
        if tried >= _MOST_CANDIDATES or gain <= 0:
            return shifts + distances.find(current)
        shifts, current = shifts + 1, shifted


def _find_shift(
    words: tuple[str, ...], reference: Sequence[str], distances: "_Distances", tried: int
) -> tuple[int, tuple[str, ...], int]:
    """How many edits the best shift saves, and what it makes of the words."""
    before = distances.find(words)
    places, reference_errs, errs = _align(distances.trace(words))
    best: tuple[int, int, int, int] | None = None
    best_words = words
    for start, target, length in _find_pairs(words, reference):
        if not any(errs[start : start + length]) or not any(reference_errs[target : target + length]):
            continue
        if start <= places[target] < start + length:
            continue
        last = -1
        for offset in range(-1, length):
            if target + offset != -1 and target + offset not in places:
                break
            place = 0 if target + offset == -1 else places[target + offset] + 1
            if place == last:
                continue
            last = place
            shifted = _shift(words, start, length, place)
            tried += 1
            candidate = (before - distances.find(shifted), length, -start, -place)
            if best is None or candidate > best:
                best, best_words = candidate, shifted
        if tried >= _MOST_CANDIDATES:
            break
    return (0 if best is None else best[0]), best_words, tried


def _find_pairs(words: Sequence[str], reference: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Runs of equal words: where they begin in both, and how many."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(reference):
        places.setdefault(word, []).append(place)
    for start, word in enumerate(words):
        for target in places.get(word, ()):
            if abs(target - start) > _MOST_AWAY:
                continue
            for length in range(1, _MOST_MOVED + 1):
                yield start, target, length
                ends = start + length == len(words) or target + length == len(reference)
                if ends or words[start + length] != reference[target + length]:
                    break


def _shift(words: tuple[str, ...], start: int, length: int, place: int) -> tuple[str, ...]:
    moved = words[start : start + length]
    if place < start:
        return words[:place] + moved + words[place:start] + words[start + length :]
    if place > start + length:
        return words[:start] + words[start + length : place] + moved + words[place:]
    return words[:start] + words[start + length : length + place] + moved + words[length + place :]


def _align(trace: Sequence[str]) -> tuple[Mapping[int, int], Sequence[bool], Sequence[bool]]:
    """Where each word of the reference stands in the text, and which words of both are wrong."""
    place = target = -1
    places: dict[int, int] = {}
    reference_errs: list[bool] = []
    errs: list[bool] = []
    for edit in trace:
        if edit != _INSERT:
            place += 1
            errs.append(edit != _KEEP)
        if edit != _DELETE:
            target += 1
            places[target] = place
            reference_errs.append(edit != _KEEP)
    return places, reference_errs, errs


class _Node:
    """The row of costs behind some first words, and those of one word more."""

    def __init__(self, costs: list[int]) -> None:
        self.costs = costs
        self.after: dict[str, _Node] = {}


class _Distances:
    """Edit distances of texts of one length to a reference, near the diagonal; rows of equal beginnings are kept."""

    def __init__(self, reference: Sequence[str], length: int) -> None:
        self._reference, self._length = reference, length
        self._root = _Node(list(range(len(reference) + 1)))
        self._kept = 0
        self._ratio = len(reference) / length if length else 1.0
        is_wide = self._ratio / 2 > _BEAM
        self._beam = math.ceil(self._ratio / 2 + _BEAM) if is_wide else _BEAM

    def find(self, words: tuple[str, ...]) -> int:
        return self._find_rows(words)[-1][-1]

    def trace(self, words: tuple[str, ...]) -> list[str]:
        """The edits that turn the words into the reference, from the first on; where several would do, a word is kept
        or changed rather than deleted, and deleted rather than inserted."""
        rows = self._find_rows(words)
        row, column = len(words), len(self._reference)
        if rows[row][column] >= _FAR:
            raise ValueError("wanted a way between two texts, found none near the diagonal")
        edits: list[str] = []
        while row or column:
            cost, is_same = rows[row][column], row and column and words[row - 1] == self._reference[column - 1]
            if row and column and rows[row - 1][column - 1] + (not is_same) == cost:
                edits.append(_KEEP if is_same else _CHANGE)
                row, column = row - 1, column - 1
            elif row and rows[row - 1][column] + 1 == cost:
                edits.append(_DELETE)
                row -= 1
            else:
                edits.append(_INSERT)
                column -= 1
        return edits[::-1]

    def _find_rows(self, words: tuple[str, ...]) -> list[list[int]]:
        node, rows = self._root, [self._root.costs]
        for number, word in enumerate(words, 1):
            after = node.after.get(word)
            if after is None:
                after = _Node(self._make_row(rows[-1], word, number))
                if self._kept < _MOST_KEPT:
                    node.after[word] = after
                    self._kept += 1
            node = after
            rows.append(node.costs)
        return rows

    def _make_row(self, over: list[int], word: str, number: int) -> list[int]:
        reference = self._reference
        size = len(reference) + 1
        diagonal = math.floor(number * self._ratio)
        first = max(0, diagonal - self._beam)
        last = size if number == self._length else min(size, diagonal + self._beam)
        costs = [_FAR] * size
        if first == 0:
            costs[0] = over[0] + 1
            first = 1
        above, left = over[first - 1], costs[first - 1]
        for column in range(first, last):
            cost = above if word == reference[column - 1] else above + 1
            above = over[column]
            if above + 1 < cost:
                cost = above + 1
            if left + 1 < cost:
                cost = left + 1
            costs[column] = left = cost
        return costs
