"""Small symmetric positive definite systems, solved by their Cholesky factor."""

import math
from collections.abc import Sequence


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    """Of as many places as the shorter one has."""
    return math.fsum(one * other for one, other in zip(left, right, strict=False))


def factor(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """Lower triangle L of a symmetric positive definite matrix: L L^T (Cholesky)."""
    lower: list[list[float]] = []
    for place, row in enumerate(matrix):
        line: list[float] = []
        for other in range(place):
            line.append((row[other] - _dot(line, lower[other])) / lower[other][other])
        line.append(math.sqrt(row[place] - _dot(line, line)))
        lower.append(line)
    return lower


def solve(lower: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """x of L L^T x = right."""
    halfway: list[float] = []
    for line, value in zip(lower, right, strict=True):
        halfway.append((value - _dot(line, halfway)) / line[-1])
    found = [0.0] * len(lower)
    for place in range(len(lower) - 1, -1, -1):
        rest = math.fsum(lower[below][place] * found[below] for below in range(place + 1, len(lower)))
        found[place] = (halfway[place] - rest) / lower[place][place]
    return found


def invert_diagonal(lower: Sequence[Sequence[float]]) -> list[float]:
    """Diagonal of the inverse of L L^T."""
    size = len(lower)
    return [solve(lower, [1.0 if other == place else 0.0 for other in range(size)])[place] for place in range(size)]
