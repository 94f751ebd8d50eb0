"""How much of a fix stands in the words that ask for it."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tentalis.core.swe.patches import FilePatch

SIZE: Final = 4
LEAKS_FROM: Final = 0.4
"""A share from which the words tell the fix."""
_TOKEN: Final = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?|[^\w\s]")


def measure_leak(issue: str, fix: Sequence[FilePatch], *, size: int = SIZE) -> float:
    """Share of the n-grams of a fix's added lines that stand in the issue, in [0, 1]; of the line that has most, if
    that is a long one: a fix of many lines is told by the one that matters.

    An n-gram is `size` tokens of code in a row; a shorter line is one by itself.
    """
    told = set(_find_grams(_split(issue), size))
    tokens = _split(issue)
    shares, found, total = [], 0, 0
    for line in (line for one in fix for line in one.added):
        parts = _split(line)
        if len(parts) < 2:
            continue
        if len(parts) < size:
            count, hits = 1, int(_holds(tokens, parts))
        else:
            grams = list(_find_grams(parts, size))
            count, hits = len(grams), sum(gram in told for gram in grams)
        found, total = found + hits, total + count
        if count >= size:
            shares.append(hits / count)
    return max([found / total if total else 0.0, *shares])


def _split(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _find_grams(tokens: Sequence[str], size: int) -> Iterable[tuple[str, ...]]:
    for start in range(len(tokens) - size + 1):
        yield tuple(tokens[start : start + size])


def _holds(tokens: Sequence[str], part: Sequence[str]) -> bool:
    size = len(part)
    return any(list(tokens[start : start + size]) == list(part) for start in range(len(tokens) - size + 1))
