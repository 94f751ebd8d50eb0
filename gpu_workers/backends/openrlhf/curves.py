"""TensorBoard's event files, read without TensorBoard: the scalars of a run, by step."""

import math
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpu_workers.artifacts import ArtifactError

_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_STEP, _SUMMARY, _VALUE, _TAG, _SCALAR = 2, 5, 1, 1, 2
_HEADER_BYTES, _CHECK_BYTES = 12, 4


def read_curves(directory: Path) -> list[dict[str, float]]:
    """One mapping per step, oldest first: `step`, and each scalar's last value under its tag. What is being written at
    the end of a file is left for the next time.

    Raises:
        ArtifactError: a file cannot be read, or is no event file.
    """
    by_step: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for path in sorted(directory.rglob("events.out.tfevents.*")) if directory.is_dir() else ():
        try:
            for step, tag, value in _read_events(path.read_bytes()):
                if math.isfinite(value):
                    by_step[step][tag] = value
        except OSError as error:
            raise ArtifactError(f"cannot read {path}: {error.strerror}") from error
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise ArtifactError(f"{path} is no event file: {error}") from error
    return [{"step": float(step), **by_step[step]} for step in sorted(by_step)]


def _read_events(data: bytes) -> Iterator[tuple[int, str, float]]:
    """(step, tag, value) of each scalar. A record is its length (8 bytes), a check of it (4), itself, a check (4)."""
    place = 0
    while place + _HEADER_BYTES <= len(data):
        (size,) = struct.unpack_from("<Q", data, place)
        begin = place + _HEADER_BYTES
        place = begin + size + _CHECK_BYTES
        if place > len(data):
            return
        event = _fields(data[begin : begin + size])
        step = next((value for number, value in event if number == _STEP and isinstance(value, int)), 0)
        for number, summary in event:
            if number == _SUMMARY and isinstance(summary, bytes):
                yield from ((step, *scalar) for scalar in _scalars(summary))


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    for number, held in _fields(summary):
        if number != _VALUE or not isinstance(held, bytes):
            continue
        value: Mapping[int, int | float | bytes] = dict(_fields(held))
        tag, scalar = value.get(_TAG), value.get(_SCALAR)
        if isinstance(tag, bytes) and isinstance(scalar, float):
            yield tag.decode(), scalar


def _fields(message: bytes) -> list[tuple[int, int | float | bytes]]:
    """Fields of a protobuf message on the wire: (number, value)."""
    found: list[tuple[int, int | float | bytes]] = []
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, place = _varint(message, place)
            found.append((number, value))
        elif kind == _SIZED:
            size, place = _varint(message, place)
            found.append((number, message[place : place + size]))
            place += size
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            form = "<d" if kind == _EIGHT_BYTES else "<f"
            found.append((number, struct.unpack_from(form, message, place)[0]))
            place += struct.calcsize(form)
        else:
            raise struct.error(f"wire type {kind}")
    return found


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
