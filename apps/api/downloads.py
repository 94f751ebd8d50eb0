"""Exports: rollouts as JSONL or Parquet, adapters as a zip, the audit as JSONL; none of them held in memory whole."""

import hashlib
import json
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Project, User
from apps.adapters.artifacts import MANIFEST, path_of, read_manifest
from apps.api.etags import is_among
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.streaming import CHUNK_BYTES, stream
from apps.rollouts.models import Rollout
from apps.rollouts.training_sets import iterate_trainable
from tentalis.core.canon import canonical_json
from tentalis.core.contracts import RolloutRecord

PAGE = 500


@dataclass
class Download:
    """A download of rollouts on record: who takes what, before a byte is sent; how many and their hash, once all are.

    An entry of each project whose rollouts are in it.
    """

    rollouts: QuerySet[Rollout]
    format: str
    filters: Mapping[str, str]
    by: User
    counts: Counter[int] = field(default_factory=Counter)

    def send(self) -> Iterator[bytes]:
        projects = Project.objects.filter(pk__in=self.rollouts.order_by().values("project")).order_by("pk")
        return self._send([self._begin(project) for project in projects])

    def _begin(self, project: Project) -> tuple[Project, int]:
        payload = {"source": "rollouts", "format": self.format, "filters": dict(self.filters)}
        return project, record(Kind.EXPORT_MADE, subject=project, by=self.by.handle, payload=payload).pk

    def _send(self, entries: Sequence[tuple[Project, int]]) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for part in (rollout_parquet if self.format == "parquet" else rollout_lines)(self._read_records()):
            digest.update(part)
            yield part
        for project, entry in entries:
            payload = {"export": entry, "rows": self.counts[project.pk], "sha256": digest.hexdigest()}
            record(Kind.EXPORT_SENT, subject=project, by=self.by.handle, payload=payload)

    def _read_records(self) -> Iterator[RolloutRecord]:
        for rollout, told in iterate_trainable(self.rollouts, set()):
            self.counts[rollout.project_id] += 1
            yield told


def rollout_lines(records: Iterable[RolloutRecord]) -> Iterator[bytes]:
    """One canonical JSON line a rollout, as the trainer reads them."""
    for one in records:
        yield canonical_json(one.to_json()) + b"\n"


def rollout_parquet(records: Iterable[RolloutRecord]) -> Iterator[bytes]:
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
            rows = (_flatten(one.to_json()) for one in records)
            while page := list(islice(rows, PAGE)):
                writer.write_table(pyarrow.Table.from_pylist(page, schema=schema))
        yield from _read_chunks(file)


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
    response = stream(request._request, _zip(directory, names), media_type="application/zip", filename=f"{name}.zip")
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
