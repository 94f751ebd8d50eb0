"""What the edge hands over for capture: one record a request, cheap to make; its parsing is the writer's work."""

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict

import orjson

_LENGTHS = struct.Struct("<III")
RECORD_VERSION = 1


class Header(TypedDict):
    """What the edge knows about a request besides its bytes.

    Attributes:
        v: RECORD_VERSION.
        id: the exchange's public id, a UUID's 32 hexadecimal digits.
        choice: which answer to the request the record's first is, where several models were asked; absent where it is
            the first.
        at: when the request came, in seconds since the epoch.
        project: primary key.
        agent: handle of the token's user.
        token: key id of the token.
        session: its key; never empty.
        end_user: who talks to the agent, as the agent names them; "" where it does not say.
        is_guessed, is_named, retry: as `apps.gateway.sessions.Place` says; not in records of before they were kept.
        is_done: the caller said that the session ends with this request.
        turn: main or side.
        task, attempt, step: as the caller said; attempt is absent from what was spooled before it was kept.
        worker: name; "" where a provider's model was asked for.
        model: as the caller asked.
        sampling: how the answer was sampled, as it was sent (`tentalis.core.sampling`); absent from what was spooled
            before it was kept.
        asked: name the upstream was asked for.
        served: name the upstream said it answered with, at the answer's start; "" before it said anything.
        adapter, policy_version: the adapter that served, and its number; "" and 0 for a base model.
        provider: primary key; None for the installation's own engine.
        kind: of the provider.
        upstream: address that answered; "" where none did.
        api: dialect the caller spoke: chat, completions, responses or messages.
        form: dialect of the record's bytes: chat or completions (the others are translated before).
        is_stream: the answer's bytes are server-sent events, as they came; else one JSON object.
        status: what the caller got.
        is_truncated: the answer broke off: the upstream or the caller went away.
        error: in words; "" where there was none.
        latency_ms: from the request's arrival to the answer's last byte.
        first_ms: to the answer's first byte; None where there was none.
        fallback: why a fallback answered; absent where the model that was asked for did.
        is_merged: the answer's bytes are `Merger.dump`'s, whatever form and is_stream say; absent where they are as
            they came, which is where they could not be read.
    """

    v: int
    id: str
    at: float
    project: int
    agent: str
    token: str
    session: str
    end_user: str
    is_done: bool
    is_guessed: NotRequired[bool]
    is_named: NotRequired[bool]
    retry: NotRequired[int]
    turn: str
    task: int | None
    attempt: NotRequired[int | None]
    step: int | None
    worker: str
    model: str
    asked: str
    served: str
    adapter: str
    policy_version: int
    provider: int | None
    kind: str
    upstream: str
    api: str
    form: str
    is_stream: bool
    status: int
    is_truncated: bool
    error: str
    latency_ms: float
    first_ms: float | None
    sampling: NotRequired[dict[str, Any]]
    fallback: NotRequired[str]
    is_merged: NotRequired[bool]
    choice: NotRequired[int]


class Record(NamedTuple):
    """One request and its answer.

    Attributes:
        request: the request's body as JSON in the header's `form`, before anything was injected into it.
        answer: what the upstream said, with token ids and log-probs where it told them; b"" where nothing came.
    """

    header: Header
    request: bytes
    answer: bytes


class Spool(Protocol):
    """Where records survive the process. One event loop calls it; no call may wait for the network."""

    @property
    def is_full(self) -> bool:
        """Whether new requests are to be refused (429) until the writer has caught up."""

    def append(self, header: Header, request: bytes, answer: bytes, *others: Record) -> None:
        """Keep a record: when this returns, a killed process loses it no more.

        Args:
            others: what else was answered to the same request; all are kept and stored together, or none.

        Raises:
            SpoolError: it could not be kept; the caller must not be told that all went well.
        """


class SpoolError(OSError):
    """A record could not be kept: the disk is full or away."""


def pack_records(records: Iterable[Record]) -> list[bytes]:
    """The parts of records in the order in which they are written: of each three lengths, header, request, answer."""
    parts: list[bytes] = []
    for header, request, answer in records:
        head = orjson.dumps(header)
        parts += _LENGTHS.pack(len(head), len(request), len(answer)), head, request, answer
    return parts


def unpack_records(data: bytes | memoryview) -> list[Record]:
    """The records of one request from their joined parts, at least one: first the one whose answer its caller got.

    Raises:
        ValueError: that is not a whole number of records.
    """
    view, start = memoryview(data), 0
    found: list[Record] = []
    while start < len(view) or not found:
        if len(view) - start < _LENGTHS.size:
            raise ValueError(f"a record begins with {_LENGTHS.size} bytes of lengths, found {len(view) - start}")
        head, request, answer = _LENGTHS.unpack_from(view, start)
        start += _LENGTHS.size
        ends = start + head, start + head + request, start + head + request + answer
        if len(view) < ends[2]:
            raise ValueError(f"wanted a record of {ends[2]} bytes, found {len(view)}")
        header: Header = orjson.loads(view[start : ends[0]])
        found.append(Record(header, bytes(view[ends[0] : ends[1]]), bytes(view[ends[1] : ends[2]])))
        start = ends[2]
    return found
