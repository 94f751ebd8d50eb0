"""What is taken at the edges at most: from whoever asks us, and from whoever we ask.

This is the one place of these numbers. The web, the gateway and outbound calls read them as `tentalis.limits.LIMITS`;
an installation changes some by the setting `LIMITS`. `tests/edges/test_limits.py` hits each from outside.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from tentalis.core.checked import Checked, number

KIB, MIB = 2**10, 2**20
WEB, GATEWAY, OUTBOUND = "web", "gateway", "outbound"


def _limit(default: float, unit: str, edges: tuple[str, ...], status: int, words: str) -> Any:
    """One row of the table.

    Args:
        edges: where it holds. status: of the answer to whoever goes beyond it; 502: of the gateway's, where it was the
            model server that did; 0: the connection ends, or the rest is left out.
    """
    return number(default, 0, 2**53, above=True, below=True, unit=unit, edges=edges, status=status, words=words)


@dataclass(frozen=True, kw_only=True)
class EdgeLimits(Checked):
    """The limits in force; each row of the table is a field. Raises FieldError, naming the field."""

    NOUN: ClassVar[str] = "limits"

    # of a request's head
    header_bytes: int = _limit(32 * KIB, "bytes", (WEB, GATEWAY), 431, "all of a request's headers together")
    header_lines: int = _limit(100, "lines", (WEB, GATEWAY), 431, "headers of a request")
    address_bytes: int = _limit(8 * KIB, "bytes", (WEB, GATEWAY), 414, "a request's path and query")
    header_s: float = _limit(15.0, "seconds", (WEB, GATEWAY), 408, "from a request's first byte to the end of its head")
    idle_s: float = _limit(60.0, "seconds", (WEB, GATEWAY), 0, "a connection with no request on it")
    # of its body
    web_body_bytes: int = _limit(2 * MIB, "bytes", (WEB,), 413, "a request's body at the web")
    gateway_body_bytes: int = _limit(32 * MIB, "bytes", (GATEWAY,), 413, "a request's body at the gateway")
    spans_body_bytes: int = _limit(8 * MIB, "bytes", (GATEWAY,), 413, "a batch of spans at the gateway")
    spans_per_batch: int = _limit(10_000, "spans", (GATEWAY,), 400, "of a batch at the gateway")
    spans_values: int = _limit(
        400_000, "values", (GATEWAY,), 400, "spans, events, links, attributes and their values in a batch"
    )
    bodies_bytes: int = _limit(256 * MIB, "bytes", (GATEWAY,), 429, "bodies that one process holds at the same time")
    body_s: float = _limit(30.0, "seconds", (WEB, GATEWAY), 408, "from the end of a request's head to that of its body")
    # of its JSON
    web_json_depth: int = _limit(32, "levels", (WEB,), 400, "lists and objects within each other, at the web")
    gateway_json_depth: int = _limit(
        64, "levels", (GATEWAY,), 400, "lists and objects within each other, at the gateway"
    )
    json_values: int = _limit(1_000_000, "values", (GATEWAY,), 400, "values of a body, as its commas and brackets tell")
    number_digits: int = _limit(19, "digits", (WEB, GATEWAY), 400, "a whole number in a body or a query")
    # of a file that is imported
    import_chars: int = _limit(1_000_000, "characters", (WEB,), 400, "a file of rows, or its bytes in base64")
    import_tasks: int = _limit(1_000, "rows", (WEB,), 400, "tasks of a file")
    import_rows: int = _limit(20_000, "rows", (WEB,), 400, "rows of a packed file, and of finished work")
    import_columns: int = _limit(100, "columns", (WEB,), 400, "a packed file's columns")
    import_members: int = _limit(20, "files", (WEB,), 400, "files in an archive")
    import_unpacked_bytes: int = _limit(8 * MIB, "bytes", (WEB,), 400, "rows of a packed file, unpacked")
    import_memory_bytes: int = _limit(768 * MIB, "bytes", (WEB,), 400, "memory of the process that unpacks a file")
    import_work_s: int = _limit(10, "seconds", (WEB,), 400, "work of the process that unpacks a file")
    upload_bytes: int = _limit(512 * MIB, "bytes", (WEB,), 400, "a file that is sent in parts")
    uploads_bytes: int = _limit(8 * 1024 * MIB, "bytes", (WEB,), 409, "all files that were sent in parts and wait")
    # of who asks
    connections_per_address: int = _limit(512, "connections", (WEB, GATEWAY), 429, "open from one address, a process")
    requests_per_token: int = _limit(256, "requests", (GATEWAY,), 429, "of one token, at the same time, a process")
    socket_bytes: int = _limit(64 * KIB, "bytes", (WEB,), 0, "a message to the live socket")
    # of what others answer
    answer_bytes: int = _limit(MIB, "bytes", (OUTBOUND,), 0, "an answer to us, where nothing else is said")
    job_answer_bytes: int = _limit(256 * MIB, "bytes", (OUTBOUND,), 0, "a model server's answer to a job of ours")
    gateway_answer_bytes: int = _limit(32 * MIB, "bytes", (GATEWAY,), 502, "a model server's answer, streamed or not")
    error_answer_bytes: int = _limit(64 * KIB, "bytes", (GATEWAY,), 0, "a model server's error that is read")
    set_aside_bytes: int = _limit(
        256 * MIB, "bytes", (GATEWAY,), 0, "records that can never be stored and are kept aside"
    )
    retry_after_s: float = _limit(86_400.0, "seconds", (OUTBOUND, GATEWAY), 0, "a wait that another server asks for")
    # of what is shown
    list_rows: int = _limit(200, "rows", (WEB, GATEWAY), 400, "a page of a list")
    page_chars: int = _limit(400_000, "characters", (WEB,), 0, "other people's texts in one part of a page")
    page_markdown_chars: int = _limit(64_000, "characters", (WEB,), 0, "those of them that are shown as markdown too")


@dataclass(frozen=True)
class Row:
    """One limit of the table, with its default."""

    name: str
    value: float
    unit: str
    edges: tuple[str, ...]
    status: int
    words: str


ROW = ("unit", "edges", "status", "words")


def list_rows() -> list[Row]:
    """The table."""
    defaults = EdgeLimits()
    return [
        Row(field.name, getattr(defaults, field.name), **{key: field.metadata[key] for key in ROW})
        for field in dataclasses.fields(EdgeLimits)
    ]
