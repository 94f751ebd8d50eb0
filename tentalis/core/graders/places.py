"""Boxes, points and masks of pictures. Pixels count from the upper left corner, x to the right, y downwards."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tentalis.core.graders.reading import is_number

MOST_PIXELS: Final = 2**28
MOST_CORNERS: Final = 10_000


class Box(NamedTuple):
    """Its corners; x1 < x2, y1 < y2."""

    x1: float
    y1: float
    x2: float
    y2: float

    @property
    def area(self) -> float:
        return (self.x2 - self.x1) * (self.y2 - self.y1)


def read_box(numbers: Sequence[float], form: str) -> Box:
    """A box of four numbers: its corners ("xyxy"), or a corner, width and height ("xywh"). Raises ValueError."""
    if len(numbers) != 4:
        raise ValueError(f"wanted four numbers, found {len(numbers)}")
    x, y, right, below = map(float, numbers)
    box = Box(x, y, x + right, y + below) if form == "xywh" else Box(x, y, right, below)
    if not (box.x1 < box.x2 and box.y1 < box.y2 and all(abs(side) < 1e9 for side in box)):
        raise ValueError(f"wanted a box of some area, found {list(numbers)}")
    return box


def find_iou(box: Box, other: Box) -> float:
    """Intersection over union, in [0, 1]."""
    width = min(box.x2, other.x2) - max(box.x1, other.x1)
    height = min(box.y2, other.y2) - max(box.y1, other.y1)
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / (box.area + other.area - shared)


class Mask:
    """Which pixels of a picture count: a box, a polygon, or runs of pixels as COCO writes them.

    A mapping with one of "box": [x1, y1, x2, y2], "polygon": [[x, y], …], or "counts" with "size": [height, width]:
    the lengths of runs of pixels outside and inside, by turns, down the columns.

    Raises:
        ValueError: it is none.
    """

    def __init__(self, given: Any) -> None:
        kinds = [name for name in ("box", "polygon", "counts") if isinstance(given, dict) and name in given]
        if len(kinds) != 1 or given.keys() - {"box", "polygon", "counts", "size"}:
            raise ValueError(f"wanted one of box, polygon or counts with size, found {given!r:.120}")
        self._kind = kinds[0]
        if self._kind == "box":
            self._box = read_box(_read_numbers(given["box"], "box"), "xyxy")
        elif self._kind == "polygon":
            corners = given["polygon"]
            if not isinstance(corners, list) or not 3 <= len(corners) <= MOST_CORNERS:
                raise ValueError(f"polygon: wanted 3 to {MOST_CORNERS:,} corners, found {corners!r:.120}")
            self._corners = [tuple(_read_numbers(corner, "polygon", 2)) for corner in corners]
        else:
            self._read_runs(given)

    def _read_runs(self, given: Any) -> None:
        height, width = (int(side) for side in _read_numbers(given.get("size"), "size", 2))
        counts = given["counts"]
        if not isinstance(counts, list) or not all(type(run) is int and run >= 0 for run in counts):
            raise ValueError(f"counts: wanted whole numbers, found {counts!r:.120}")
        if not 0 < height * width <= MOST_PIXELS or sum(counts) != height * width:
            raise ValueError(f"counts: wanted {height} times {width} pixels, found {sum(counts)}")
        if not any(counts[1::2]):
            raise ValueError("counts: wanted some pixels inside, found none")
        self._height, self._width, self._ends = height, width, [0]
        for run in counts:
            self._ends.append(self._ends[-1] + run)

    def holds(self, x: float, y: float) -> bool:
        """Whether a point lies inside; the border of a box counts."""
        if self._kind == "box":
            return self._box.x1 <= x <= self._box.x2 and self._box.y1 <= y <= self._box.y2
        if self._kind == "polygon":
            return self._is_within(x, y)
        if not (0 <= x < self._width and 0 <= y < self._height):
            return False
        place = int(x) * self._height + int(y)
        return (bisect_right(self._ends, place) - 1) % 2 == 1  # runs by turns: outside, inside, …

    def _is_within(self, x: float, y: float) -> bool:
        """Even and odd crossings of a ray to the right."""
        inside = False
        for (x1, y1), (x2, y2) in zip(self._corners, [*self._corners[1:], self._corners[0]], strict=True):
            if (y1 > y) != (y2 > y) and x < (x2 - x1) * (y - y1) / (y2 - y1) + x1:
                inside = not inside
        return inside


def _read_numbers(given: Any, name: str, count: int = 4) -> list[float]:
    is_list = isinstance(given, list) and len(given) == count
    if not is_list or not all(is_number(side) and abs(side) < 1e9 for side in given):
        raise ValueError(f"{name}: wanted {count} numbers, found {given!r:.120}")
    return [float(side) for side in given]
