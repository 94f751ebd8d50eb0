"""Server-sent events out of whatever pieces the network brings them in.

Bytes are cut, not text: what separates lines for Python (U+2028, U+0085 and others) may stand in the JSON of an event.
"""

from collections.abc import Iterable, Iterator
from itertools import chain


def iterate_events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event as it comes, one that is not ended included."""
    splitter = EventSplitter()
    for piece in chain(pieces, [b"\n\n"]):
        for payload in splitter.feed(piece):
            yield from part_joined(payload.split(b"\n"))


def part_joined(lines: list[bytes]) -> list[bytes]:
    """The data of an event of so many lines; servers that put no empty line between events are forgiven."""
    lines = [line.strip() for line in lines]
    if len(lines) > 1 and all(line.startswith(b"{") or line == b"[DONE]" for line in lines):
        return lines
    return [b"\n".join(lines)]


class EventSplitter:
    """Cuts a stream of bytes into the data of its events.

    `data:` may be followed by a space or not, lines may end in any of the three ways; comments, names and ids of
    events are passed over, and so is an unfinished event at the end.
    """

    def __init__(self) -> None:
        self._rest = b""

    @property
    def has_rest(self) -> bool:
        """Whether an event was begun that is not complete."""
        return bool(self._rest.strip())

    def feed(self, data: bytes) -> list[bytes]:
        """The data of the events that are complete now, often none, in order."""
        if self._rest:
            data = self._rest + data
        if b"\r" in data:
            held = data.endswith(b"\r")  # its \n may be the next piece's first byte
            data = (data[:-1] if held else data).replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\r" * held
        whole, end, rest = data.rpartition(b"\n\n")
        if end and (plain := split_plain(whole)) is not None:
            self._rest = rest
            return plain
        *events, self._rest = data.split(b"\n\n")
        payloads = []
        for event in events:
            if event.startswith(b"data: ") and b"\n" not in event:
                payloads.append(event[6:])
            elif (payload := _read_lines(event)) is not None:
                payloads.append(payload)
        return payloads


def split_plain(events: bytes) -> list[bytes] | None:
    """The data of events of one line each, `data: ` before it, as most servers write them; None where one is not.

    In a few calls for all events, where looking at each is as dear as reading it.
    """
    if not events.startswith(b"data: "):
        return None
    payloads = events[6:].split(b"\n\ndata: ")
    return None if b"\n" in b"".join(payloads) else payloads


def _read_lines(event: bytes) -> bytes | None:
    """The data lines of an event, joined; None where it has none."""
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines) if lines else None
