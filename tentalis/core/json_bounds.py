"""How much there is in a JSON text, told before or after it is read, cheaper than reading it."""

from typing import Any

_OTHERS = bytes(sorted(set(range(256)) - set(b"[]{}")))


def has_more_values(raw: bytes, most: int) -> bool:
    """Whether commas and brackets, those inside texts too, leave it possible that there are more values."""
    return len(raw) > most and sum(map(raw.count, (b",", b"[", b"]", b"{", b"}"))) > most


def is_surely_flat(raw: bytes, most_levels: int) -> bool:
    """Whether brackets alone show that nothing lies deeper; False: there are many, and it has to be looked at.

    Args:
        raw: a text that could be read. What lies deepest stands in its first half, in which all its levels open, or in
            its second, in which all of them close. Brackets inside texts only make the answer more careful.
    """
    marks = raw.translate(None, _OTHERS)
    middle = len(marks) // 2
    if middle <= most_levels:
        return True
    opening = marks.count(b"[", 0, middle) + marks.count(b"{", 0, middle)
    return opening <= most_levels and marks.count(b"]", middle) + marks.count(b"}", middle) <= most_levels


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
