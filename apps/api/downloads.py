"""Exports: rollouts as JSONL or Parquet, adapters as a zip, the audit as JSONL; none of them held in memory whole."""

import json
import tempfile
import zipfile
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from apps.adapters.artifacts import MANIFEST, path_of, read_manifest
from apps.api.etags import is_among
from apps.rollouts.models import Rollout
from apps.rollouts.selectors import make_records
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import RolloutRecord

PAGE = 500
CHUNK_BYTES = 64 * 1024
PARTS = ("task", "adapter", "hint", "attempt__exchange")


def stream(request: Request, parts: Iterable[bytes], *, media_type: str, filename: str) -> StreamingHttpResponse:
    """Send parts as they come. Under ASGI they are drawn in the thread of the database."""
    is_async = isinstance(request._request, ASGIRequest)
    response = StreamingHttpResponse(_draw(iter(parts)) if is_async else parts, content_type=media_type)
    response["Content-Disposition"] = f'attachment; filename="{filename}"'
    response["X-Accel-Buffering"] = "no"
    return response


async def _draw(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    draw = sync_to_async(lambda: b"".join(islice(parts, 64)))
    while chunk := await draw():
        yield chunk


def iterate_rows(rows: QuerySet[Any]) -> Iterator[Any]:
    """Rows by ascending id in bounded queries, so that no transaction stays open while a slow reader reads."""
    last = 0
    while page := list(rows.filter(pk__gt=last).order_by("pk")[:PAGE]):
        yield from page
        last = page[-1].pk


def rollout_lines(rollouts: QuerySet[Rollout]) -> Iterator[bytes]:
    """One canonical JSON line a rollout, as the trainer reads them."""
    for record in _read_records(rollouts):
        yield canonical_json(record.to_json()) + b"\n"


def rollout_parquet(rollouts: QuerySet[Rollout]) -> Iterator[bytes]:
    """The same as one Parquet file; messages are JSON texts."""
    import pyarrow
    import pyarrow.parquet

    step = pyarrow.struct(
        [
            ("start", pyarrow.int64()),
            ("end", pyarrow.int64()),
            ("score", pyarrow.float64()),
            ("said", pyarrow.float64()),
        ]
    )
    schema = pyarrow.schema(
        [
            ("rollout_id", pyarrow.int64()),
            ("group_id", pyarrow.int64()),
            ("adapter", pyarrow.string()),
            ("policy_version", pyarrow.int64()),
            ("messages", pyarrow.string()),
            ("hinted_messages", pyarrow.string()),
            ("prompt_token_ids", pyarrow.list_(pyarrow.int32())),
            ("token_ids", pyarrow.list_(pyarrow.int32())),
            ("logprobs", pyarrow.list_(pyarrow.float32())),
            ("sampled", pyarrow.list_(pyarrow.bool_())),
            ("reward", pyarrow.float64()),
            ("steps", pyarrow.list_(step)),
            ("missing_steps", pyarrow.int64()),
            ("weight", pyarrow.float64()),
            ("candidate_hints", pyarrow.string()),
            ("top_token_ids", pyarrow.list_(pyarrow.list_(pyarrow.int32()))),
            ("top_logprobs", pyarrow.list_(pyarrow.list_(pyarrow.float32()))),
            ("rendering", pyarrow.string()),
            ("hint_fault", pyarrow.string()),
            ("temperature", pyarrow.float64()),
            ("is_cut", pyarrow.bool_()),
            ("schema", pyarrow.string()),
        ]
    )
    with tempfile.TemporaryFile() as file:
        with pyarrow.parquet.ParquetWriter(file, schema) as writer:
            rows = (_flatten(record.to_json()) for record in _read_records(rollouts))
            while page := list(islice(rows, PAGE)):
                writer.write_table(pyarrow.Table.from_pylist(page, schema=schema))
        yield from _read_chunks(file)


def _read_records(rollouts: QuerySet[Rollout]) -> Iterator[RolloutRecord]:
    """As the trainer reads them, in bounded queries."""
    rows = iterate_rows(rollouts.select_related(*PARTS))
    while page := list(islice(rows, PAGE)):
        yield from make_records(page)


def _flatten(record: dict[str, Any]) -> dict[str, Any]:
    hinted = record["hinted_messages"]
    return record | {
        "messages": json.dumps(record["messages"]),
        "rendering": json.dumps(record["rendering"]),
        "hinted_messages": None if hinted is None else json.dumps(hinted),
        "candidate_hints": json.dumps(record["candidate_hints"]),
        "steps": list(record["steps"]),
    }


def send_adapter(request: Request, *, name: str, uri: str, sha256: str) -> StreamingHttpResponse | Response:
    """The adapter's directory as a zip, after every file was checked against its hash; 304 where the caller has it.

    Raises:
        AdapterBrokenError: a file is missing or changed; nothing is sent.
    """
    etag = f'"{sha256}"'
    if is_among(etag, request.headers.get("If-None-Match")):
        return Response(status=304, headers={"ETag": etag})
    directory = path_of(uri)
    names = [MANIFEST, *sorted(read_manifest(directory, sha256=sha256).files)]
    response = stream(request, _zip(directory, names), media_type="application/zip", filename=f"{name}.zip")
    response["ETag"] = etag
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    return response


def _zip(directory: Path, names: list[str]) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name in names:
                archive.write(directory / name, arcname=name)
        yield from _read_chunks(file)


def _read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
