"""Number lists as bytes: little-endian int32, float32, and bits."""

import struct
import sys
from array import array
from collections.abc import Sequence
from typing import TypeVar

Number = TypeVar("Number", int, float)


def pack_int32(values: Sequence[int]) -> bytes:
    """(N,) whole numbers in [-2^31, 2^31) -> 4 N bytes. Raises OverflowError outside."""
    return _pack("i", values)


def unpack_int32(data: bytes | memoryview) -> list[int]:
    """4 N bytes -> (N,). Raises ValueError where the length is no multiple of 4."""
    return _from_bytes(array("i"), data).tolist()


def pack_float32(values: Sequence[float]) -> bytes:
    """(N,) -> 4 N bytes; keeps 24 bits of mantissa."""
    return _pack("f", values)


def unpack_float32(data: bytes | memoryview) -> list[float]:
    """4 N bytes -> (N,). Raises ValueError where the length is no multiple of 4."""
    return _from_bytes(array("f"), data).tolist()


def pack_bools(values: Sequence[bool]) -> bytes:
    """(N,) -> ceil(N / 8) bytes, first value in the lowest bit."""
    packed = bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        if value:
            packed[index >> 3] |= 1 << (index & 7)
    return bytes(packed)


def unpack_bools(data: bytes | memoryview, size: int) -> list[bool]:
    """The first `size` bits. Raises ValueError where there are fewer."""
    packed = bytes(data)
    if len(packed) * 8 < size:
        raise ValueError(f"wanted {size} bits, found {len(packed) * 8}")
    return [bool(packed[index >> 3] >> (index & 7) & 1) for index in range(size)]


NOBODY = -1
"""Id in the place of an alternative that there is not."""


def pack_top(tops: Sequence[Sequence[tuple[int, float]]]) -> tuple[bytes, bytes]:
    """(T,) of up to K alternatives (id, log-prob in nats) -> 4 T K bytes of ids and 4 T K bytes of log-probs.

    K is the most any place has; shorter ones are filled with `NOBODY`.
    """
    width = max(map(len, tops), default=0)
    filled = [[*top, *[(NOBODY, 0.0)] * (width - len(top))] for top in tops]
    return (
        pack_int32([token for top in filled for token, _ in top]),
        pack_float32([value for top in filled for _, value in top]),
    )


def unpack_top(
    token_ids: bytes | memoryview, logprobs: bytes | memoryview, *, size: int
) -> list[list[tuple[int, float]]]:
    """What `pack_top` packed for `size` places; [] of nothing.

    Raises:
        ValueError: the bytes are not those of as many places.
    """
    ids, values = unpack_int32(token_ids), unpack_float32(logprobs)
    if not ids and not values:
        return []
    if len(ids) != len(values) or size == 0 or len(ids) % size:
        raise ValueError(
            f"wanted as many ids as log-probs, the same for each of {size} tokens, found {len(ids)} and {len(values)}"
        )
    width = len(ids) // size
    entries = list(zip(ids, values, strict=True))
    rows = [entries[start : start + width] for start in range(0, len(entries), width)]
    return [[entry for entry in row if entry[0] != NOBODY] for row in rows]


def _pack(form: str, values: Sequence[float]) -> bytes:
    try:
        return struct.pack(f"<{len(values)}{form}", *values)  # in half an array's time
    except (struct.error, OverflowError):  # which has the words for it, and takes what is too large a float
        packed = array(form, values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _from_bytes(values: "array[Number]", data: bytes | memoryview) -> "array[Number]":
    values.frombytes(bytes(data))
    if sys.byteorder == "big":
        values.byteswap()
    return values
