"""How much there is in a JSON text, told before or after it is read, cheaper than reading it."""

from typing import Any

_OTHERS = bytes(sorted(set(range(256)) - set(b"[]{},")))


MARKS_QUICKLY = 20_000


def read_marks(raw: bytes) -> bytes:
    """Only its brackets and commas, those inside texts too: at least as many as it has values, but for the first."""
    return raw.translate(None, _OTHERS)


def is_surely_flat(marks: bytes, most_levels: int) -> bool:
    """Whether the brackets alone show that nothing lies deeper; False: there are many, or some in texts blur it."""
    left = marks.replace(b",", b"") if len(marks) <= MARKS_QUICKLY else b"["
    for _ in range(most_levels):
        if not left:
            return True
        left = left.replace(b"[]", b"\0").replace(b"{}", b"\0").replace(b"\0", b"")  # one level a time, of either kind
    return not left


def is_deeper(value: Any, most_levels: int) -> bool:
    """Whether lists and objects lie within each other more than `most_levels` deep. Looks at each value once."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most_levels):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
    return bool(level)
