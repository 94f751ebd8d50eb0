"""Number lists as bytes: little-endian int32, float32, and bits."""

import sys
from array import array
from collections.abc import Sequence
from typing import TypeVar

Number = TypeVar("Number", int, float)


def pack_int32(values: Sequence[int]) -> bytes:
    """(N,) whole numbers in [-2^31, 2^31) -> 4 N bytes. Raises OverflowError outside."""
    return _to_bytes(array("i", values))


def unpack_int32(data: bytes | memoryview) -> list[int]:
    """4 N bytes -> (N,). Raises ValueError where the length is no multiple of 4."""
    return _from_bytes(array("i"), data).tolist()


def pack_float32(values: Sequence[float]) -> bytes:
    """(N,) -> 4 N bytes; keeps 24 bits of mantissa."""
    return _to_bytes(array("f", values))


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


def _to_bytes(values: "array[int] | array[float]") -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _from_bytes(values: "array[Number]", data: bytes | memoryview) -> "array[Number]":
    values.frombytes(bytes(data))
    if sys.byteorder == "big":
        values.byteswap()
    return values
