"""Sending an export: streamed, hashed on the way, with a manifest beside it, and audited at both ends."""

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from importlib.metadata import version
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.accounts.services import require_right
from apps.audit.kinds import Kind
from apps.audit.services import record
from apps.base.errors import BadInputError
from apps.base.streaming import stream
from apps.base.writers import WRITERS, Sink
from apps.console.exports.narrowing import find_fault
from apps.console.exports.sources import Exported, Row
from apps.evals.holding import HELD_OUT
from tentalis.core.judged_files import CONTENT, ContentHash

SCHEMA = "tentalis.export/1"
HF = "hf"
"""The format of Hugging Face's `datasets`: an archive of a card and of Parquet."""
HF_DATA = "data/train-00000-of-00001.parquet"


@dataclass
class Export:
    """One export under way.

    Attributes:
        is_hf: laid out as a data set of Hugging Face's `datasets`.
        row_count, size_bytes, digest: of the data so far; final once `is_complete`.
        held_out: ids of the tasks that were left out.
    """

    source: Exported
    format: str
    filters: Mapping[str, str]
    project: Project
    by: User
    at: datetime = field(default_factory=timezone.now)
    is_hf: bool = False
    row_count: int = 0
    size_bytes: int = 0
    is_complete: bool = False
    held_out: set[int] = field(default_factory=set)
    _hash: Any = field(default_factory=hashlib.sha256)
    audit_id: int = 0
    _content: ContentHash | None = None

    def __post_init__(self) -> None:
        self._content = ContentHash(self.source.name) if self.source.name in CONTENT else None

    @property
    def stem(self) -> str:
        return f"tentalis-{self.project.slug}-{self.source.name}-{self.at:%Y%m%d-%H%M%S}"

    @property
    def manifest(self) -> dict[str, Any]:
        """What one needs to know that the data is whole, and how it came about."""
        return {
            "schema": SCHEMA,
            "project": self.project.slug,
            "source": self.source.name,
            "format": self.format,
            "filters": dict(self.filters),
            "columns": dict(self.columns),
            "rows": self.row_count,
            "left_out": {"tasks": len(self.held_out), "why": HELD_OUT} if self.held_out else {},
            "size_bytes": self.size_bytes,
            "sha256": self._hash.hexdigest(),
            "content_sha256": self._content.hexdigest() if self._content is not None else "",
            "by": self.by.handle,
            "at": self.at.isoformat(),
            "code_version": version("tentalis"),
            "audit_entry": self.audit_id,
        }

    @property
    def card(self) -> str:
        """The data set's card; its first lines tell `datasets.load_dataset` where the rows are."""
        said = "".join(f"- {name}: {value}\n" for name, value in self.filters.items()) or "- everything\n"
        return (
            "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n"
            f"    path: {HF_DATA}\npretty_name: {json.dumps(str(self.source.title))}\n---\n\n"
            f"# {self.source.title}\n\n{self.source.about}\n\n{self.row_count} rows of the project "
            f"`{self.project.slug}`, exported {self.at:%Y-%m-%d}. Narrowed to:\n\n{said}\n"
            f'`manifest.json` tells the hashes. Read it with `datasets.load_dataset("<this folder>")`.\n'
        )

    @cached_property
    def columns(self) -> Mapping[str, str]:
        return self.source.columns_for(self.by, self.project)

    def write(self) -> Iterator[bytes]:
        """The data itself."""
        write, _ = WRITERS[self.format]
        for part in write(
            self._count(self.source.rows(self.project, self.filters, self.by, self.held_out)), self.columns
        ):
            self._hash.update(part)
            self.size_bytes += len(part)
            yield part
        self.is_complete = True

    def write_archive(self) -> Iterator[bytes]:
        """The data and its manifest as one zip, made while it is sent."""
        sink = Sink()
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            name = HF_DATA if self.is_hf else f"{self.source.name}.{self.format}"
            with archive.open(name, "w", force_zip64=True) as file:
                for part in self.write():
                    file.write(part)
                    yield sink.take()
            if self.is_hf:
                archive.writestr("README.md", self.card)
            archive.writestr("manifest.json", json.dumps(self.manifest, indent=2, ensure_ascii=False))
        yield sink.take()

    def _count(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            self.row_count += 1
            if self._content is not None:
                self._content.add(row)
            yield row


def begin_export(*, source: Exported, format: str, filters: Mapping[str, str], project: Project, by: User) -> Export:
    """Check what is asked for and write the audit, before a byte is sent.

    Raises:
        NotAllowedError, NotFoundError: `by` may not read it.
        BadInputError: a format or filter the source does not know.
    """
    require_right(by, project, source.right)
    is_hf = format == HF
    format = "parquet" if is_hf else format
    if format not in source.formats:
        raise BadInputError(f"format: wanted one of {', '.join((*source.formats, HF))}, found {format!r}")
    for name, value in filters.items():
        known = source.filters.get(name, frozenset())
        if known is not None and value not in known:
            raise BadInputError(f"{name}: {source.name} cannot be narrowed to {value!r} by it")
        if fault := find_fault(name, value):
            raise BadInputError(fault)
    source.check(filters, by)
    export = Export(source, format, dict(filters), project, by, is_hf=is_hf)
    payload = {"source": source.name, "format": HF if is_hf else format, "filters": dict(filters)}
    export.audit_id = record(Kind.EXPORT_MADE, subject=project, by=by.handle, payload=payload).pk
    return export


def deliver(request: HttpRequest, export: Export, *, is_archive: bool) -> StreamingHttpResponse:
    """Send it as it is made."""
    is_archive = is_archive or export.is_hf
    return stream(
        request,
        _end_with_audit(export, export.write_archive() if is_archive else export.write()),
        media_type="application/zip" if is_archive else WRITERS[export.format][1],
        filename=f"{export.stem}.{'zip' if is_archive else export.format}",
    )


def _end_with_audit(export: Export, parts: Iterator[bytes]) -> Iterator[bytes]:
    yield from parts
    payload = {"export": export.audit_id, "rows": export.row_count, "sha256": export.manifest["sha256"]}
    record(Kind.EXPORT_SENT, subject=export.project, by=export.by.handle, payload=payload)
