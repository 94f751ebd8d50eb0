"""Exports: rollouts as JSONL or Parquet, adapters as a zip; none of them held in memory whole."""

import hashlib
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Project, User
from apps.adapters.artifacts import MANIFEST, path_of, read_manifest
from apps.api.etags import is_among
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import ConflictError
from apps.base.streaming import CHUNK_BYTES, stream
from apps.base.writers import WRITERS
from apps.rollouts.files import iterate_batch
from apps.rollouts.models import Batch, Rollout
from apps.rollouts.training_sets import iterate_trainable
from apps.workers.recipes import choose_recipe
from tentalis.core.canon import canonical_json
from tentalis.core.learning.recipes import Recipe

MEDIA_TYPES: Final = {"jsonl": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
ROLLOUT_COLUMNS = {
    "rollout_id": "int", "group_id": "int", "adapter": "text", "policy_version": "int", "messages": "json",
    "hinted_messages": "json", "prompt_token_ids": "ints", "token_ids": "ints", "logprobs": "floats",
    "sampled": "bools", "reward": "float", "steps": "steps", "missing_steps": "int", "weight": "float",
    "candidate_hints": "json", "top_token_ids": "lists of ints", "top_logprobs": "lists of floats",
    "rendering": "json", "hint_fault": "text", "temperature": "float", "is_cut": "bool", "hint_weight": "float",
    "schema": "text",
}  # fmt: skip
"""All that the trainer reads of a rollout."""


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
        write, _ = WRITERS[self.format]
        for part in write(self._read_records(), ROLLOUT_COLUMNS):
            digest.update(part)
            yield part
        for project, entry in entries:
            payload = {"export": entry, "rows": self.counts[project.pk], "sha256": digest.hexdigest()}
            record(Kind.EXPORT_SENT, subject=project, by=self.by.handle, payload=payload)

    def _read_records(self) -> Iterator[dict[str, Any]]:
        for rollout, told in iterate_trainable(self.rollouts, set()):
            self.counts[rollout.project_id] += 1
            yield told.to_json()


def send_batch(request: Request, *, batch: Batch, by: User) -> StreamingHttpResponse:
    """What a batch holds, byte for byte what its run reads; on record, as a download of rollouts is.

    Raises:
        ConflictError: something of it cannot be told to a trainer any more; nothing is sent.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115 - open until it is sent
    digest, rows = hashlib.sha256(), 0
    try:
        for told in iterate_batch(batch, most_voice_share=_read_voice_share(batch)):
            line = canonical_json(told.to_json()) + b"\n"
            digest.update(line)
            file.write(line)
            rows += 1
    except ValueError as error:
        raise ConflictError(f"{batch} cannot be told to a trainer: {error}") from None
    payload = {"source": "batch", "batch": batch.pk, "format": "jsonl"}
    entry = record(Kind.EXPORT_MADE, subject=batch.project, by=by.handle, payload=payload).pk

    def send() -> Iterator[bytes]:
        with file:
            yield from _read_chunks(file)
        sent = {"export": entry, "rows": rows, "sha256": digest.hexdigest()}
        record(Kind.EXPORT_SENT, subject=batch.project, by=by.handle, payload=sent)

    return stream(request._request, send(), media_type=MEDIA_TYPES["jsonl"], filename=f"batch-{batch.pk}.jsonl")


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


def _read_voice_share(batch: Batch) -> float:
    """As its run has it; before there is one, as a run would have it now."""
    run = getattr(batch, "run", None)
    recipe = Recipe.from_json(run.recipe) if run else choose_recipe(batch.project, batch.worker)
    return recipe.most_voice_share
