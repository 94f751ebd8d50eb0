"""How much there is in a JSON text, told before or after it is read, cheaper than reading it."""

from typing import Any

_OTHERS = bytes(sorted(set(range(256)) - set(b"[]{}")))
MARKS_QUICKLY = 20_000


def has_more_values(raw: bytes, most: int) -> bool:
    """Whether commas and brackets, those inside texts too, leave it possible that there are more values."""
    return len(raw) > most and sum(map(raw.count, (b",", b"[", b"]", b"{", b"}"))) > most


def is_deeper(raw: bytes, value: Any, most_levels: int) -> bool:
    """Whether lists and objects lie within each other more than `most_levels` deep.

    Args:
        raw: the text that `value` was read from. Mostly its brackets tell enough; else each value is looked at once.
    """
    return not _is_surely_flat(raw, most_levels) and _goes_deeper(value, most_levels)


def _is_surely_flat(raw: bytes, most_levels: int) -> bool:
    """Whether the brackets alone show that nothing lies deeper; False: there are many, or some in texts blur it."""
    left = raw.translate(None, _OTHERS)
    if len(left) <= most_levels:
        return True
    if len(left) > MARKS_QUICKLY:
        return False
    for _ in range(most_levels // 2):
        left = left.replace(b"{}", b"").replace(b"[]", b"")  # at most two levels a time
        if not left:
            return True
    return False


def _goes_deeper(value: Any, most_levels: int) -> bool:
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
