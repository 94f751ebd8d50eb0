"""Bytes from the network as JSON that Postgres can hold."""

import json
from typing import Any

import orjson

from apps.base.texts import make_storable
from tentalis.outbound.events import part_joined, split_plain

_DATA = b"data:"


def read_json(data: bytes) -> Any:
    """What `data` says; NUL characters and half surrogate pairs, which Postgres refuses, become U+FFFD.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        found = _read_loosely(data)
    if b"\\" not in data:  # one search where there are many to be read
        return found
    return make_storable(found) if b"\\u0000" in data or b"\\ud" in data or b"\\uD" in data else found


def read_events(data: bytes) -> tuple[list[Any], bool]:
    """The events of a stream, and whether one of them could not be read.

    `data:` may come with a space or without, lines end in any way, comments are passed over; [DONE] is None.
    """
    payloads, is_broken = _split_events(data), False
    try:
        # one call for all of them: half the time of one call each
        return read_json(b"[" + b",".join(b"null" if one == b"[DONE]" else one for one in payloads) + b"]"), False
    except ValueError:
        events: list[Any] = []
    for payload in payloads:
        try:
            events.append(None if payload == b"[DONE]" else read_json(payload))
        except ValueError:
            is_broken = True
    return events, is_broken


def _split_events(data: bytes) -> list[bytes]:
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if (plain := split_plain(data.removesuffix(b"\n\n"))) is not None:
        return [payload.strip() for payload in plain]
    payloads = []
    for event in data.split(b"\n\n"):
        if event.startswith(_DATA) and b"\n" not in event:
            payloads.append(event[5:].strip())
        elif lines := [line[5:] for line in event.split(b"\n") if line.startswith(_DATA)]:
            payloads += part_joined(lines)
    return payloads


def _read_loosely(data: bytes) -> Any:
    """What Python's own reader also takes: NaN, half surrogate pairs, a few wrong bytes."""
    try:
        return json.loads(data.decode("utf-8", "replace"), parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
