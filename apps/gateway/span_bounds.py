"""How much a batch of spans would become, told from its bytes: an empty message takes two, and is eighty times as large
once it is made."""

from functools import cache

from google.protobuf.descriptor import Descriptor

LEAST_BYTES = 2
"""Of a message in another: a tag and a length of 0."""
_VARINT, _EIGHT, _SIZED, _GROUP, _END_GROUP, _FOUR = range(6)


def has_more_messages(raw: bytes, kind: Descriptor, most: int) -> bool:
    """Whether protobuf would make more than so many messages of a text; looks at no more of them, and makes none.

    What is no protobuf may say either: whoever reads it refuses it.
    """
    if len(raw) <= LEAST_BYTES * most:
        return False
    count, at, end, fields = 0, 0, len(raw), _find_messages(kind)
    outer: list[tuple[int, int, dict[int, Descriptor]]] = []
    try:
        while True:
            while at >= end:
                if not outer:
                    return False
                at, end, fields = outer.pop()
            tag, at = _read_number(raw, at)
            wire = tag & 7
            if wire == _SIZED:
                size, at = _read_number(raw, at)
                if (inner := fields.get(tag >> 3)) is not None:
                    count += 1
                    if count > most:
                        return True
                    outer.append((at + size, end, fields))
                    end, fields = at + size, _find_messages(inner)
                else:
                    at += size
            elif wire == _VARINT:
                _, at = _read_number(raw, at)
            elif wire in (_EIGHT, _FOUR):
                at += 8 if wire == _EIGHT else 4
            elif wire not in (_GROUP, _END_GROUP):
                return False
    except IndexError:
        return False


@cache
def _find_messages(kind: Descriptor) -> dict[int, Descriptor]:
    """The fields of a message that hold messages, by number."""
    return {field.number: field.message_type for field in kind.fields if field.message_type is not None}


def _read_number(raw: bytes, at: int) -> tuple[int, int]:
    """(a number of as many bytes as it takes, the place behind it). Raises IndexError where it does not end."""
    value, shift = 0, 0
    while (byte := raw[at]) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise IndexError
    return value | byte << shift, at + 1
