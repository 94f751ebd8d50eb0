"""Rows of a Parquet file or an archive of ours as JSON lines: `python -m apps.base.unpacking`, the file on its input.

A process of its own: such a file may unfold into more than any memory holds, and what reads it is not written to be
attacked.
"""

import base64
import hashlib
import io
import json
import resource
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

from tentalis.limits import LIMITS

AT_ONCE = 64
PARQUET, ZIP = b"PAR1", b"PK\x03\x04"
KINDS_KEY = b"tentalis.columns"
"""Where a Parquet file of ours says which of its columns hold JSON."""
DATA_ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".txt", ".parquet")
ABOUT = ("manifest.json", "dataset_infos.json", "dataset_info.json", "state.json")


class UnpackingError(Exception):
    """What was wanted of the file, and what was found."""


def is_packed(data: bytes) -> bool:
    """Whether it begins as a Parquet file or a zip does."""
    return data.startswith((PARQUET, ZIP))


def unpack(data: bytes) -> tuple[str, str]:
    """(name, text) of the data in a packed file: JSON lines of Parquet, else as the archive has it.

    Raises:
        UnpackingError: it holds no such data, more than is taken, or not what its manifest says.
    """
    if data.startswith(PARQUET):
        return "data.jsonl", "".join(_read_parquet(data))
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise UnpackingError(f"wanted a zip: {error!s:.200}") from None
    with archive:
        return _read_archive(archive)


def _read_archive(archive: zipfile.ZipFile) -> tuple[str, str]:
    names = [one.filename for one in archive.infolist() if not one.is_dir()]
    if len(names) > LIMITS.import_members:
        raise UnpackingError(f"wanted at most {LIMITS.import_members} files in the archive, found {len(names)}")
    holding = [name for name in names if name.lower().endswith(DATA_ENDINGS) and _stem(name) not in ABOUT]
    if len(holding) != 1:
        found = ", ".join(holding)[:200] or "none"
        raise UnpackingError(f"wanted one file of rows (JSON lines, Parquet, CSV) in the archive, found {found}")
    content = _read_member(archive, holding[0])
    if manifest := next((name for name in names if _stem(name) == "manifest.json"), None):
        _check_manifest(_read_member(archive, manifest), content)
    if content.startswith(ZIP):
        raise UnpackingError("wanted rows in the archive, found another archive")
    if content.startswith(PARQUET):
        return "data.jsonl", "".join(_read_parquet(content))
    try:
        return _stem(holding[0]), content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnpackingError(f"wanted text in UTF-8, found a byte that is none at place {error.start:,}") from None


def _stem(name: str) -> str:
    return name.rpartition("/")[2]


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """One file of the archive, of which no more is unfolded than is taken."""
    try:
        with archive.open(name) as file:
            content = file.read(LIMITS.import_unpacked_bytes + 1)
    except MemoryError:
        raise
    except Exception as error:  # whatever a decompressor makes of bytes that somebody sent
        raise UnpackingError(f"{name[:100]}: {type(error).__name__}: {error!s:.200}") from error
    if len(content) > LIMITS.import_unpacked_bytes:
        raise UnpackingError(
            f"{name[:100]}: wanted at most {LIMITS.import_unpacked_bytes:,} bytes unpacked, found more"
        )
    return content


def _check_manifest(text: bytes, content: bytes) -> None:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise UnpackingError("manifest.json: wanted JSON") from None
    wanted = told.get("sha256") if isinstance(told, dict) else None
    if isinstance(wanted, str) and (found := hashlib.sha256(content).hexdigest()) != wanted:
        raise UnpackingError(f"the manifest says sha256 {wanted[:64]}, the data has {found}: it was changed or cut")


def _read_parquet(data: bytes) -> Iterator[str]:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(
            pyarrow.BufferReader(data), thrift_string_size_limit=2**20, thrift_container_size_limit=100_000
        )
        if file.metadata.num_columns > LIMITS.import_columns:
            raise UnpackingError(f"wanted at most {LIMITS.import_columns} columns, found {file.metadata.num_columns}")
        if file.metadata.num_rows > LIMITS.import_rows:
            raise UnpackingError(f"wanted at most {LIMITS.import_rows:,} rows, found {file.metadata.num_rows:,}")
        told = json.loads((file.schema_arrow.metadata or {}).get(KINDS_KEY, b"{}"))
        nested = {name for name, kind in told.items() if kind == "json"}
        size = 0
        for batch in file.iter_batches(batch_size=AT_ONCE, use_threads=False):
            for row in batch.to_pylist():
                line = json.dumps(_plain(row, nested), ensure_ascii=False, default=_say) + "\n"
                size += len(line.encode("utf-8", "replace"))
                if size > LIMITS.import_unpacked_bytes:
                    raise UnpackingError(f"wanted at most {LIMITS.import_unpacked_bytes:,} bytes unpacked, found more")
                yield line
    except (UnpackingError, MemoryError):
        raise
    except Exception as error:  # whatever the library makes of bytes that somebody sent
        raise UnpackingError(f"wanted a Parquet file: {type(error).__name__}: {error!s:.200}") from error


def _plain(row: dict[str, Any], nested: set[str]) -> dict[str, Any]:
    return {name: json.loads(value) if name in nested and value is not None else value for name, value in row.items()}


def _say(value: Any) -> str:
    if isinstance(value, bytes):
        return f"data:;base64,{base64.b64encode(value).decode()}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def main() -> int:
    """Unpack the standard input; 1 and the reason where that cannot be done."""
    for kind, most in ((resource.RLIMIT_DATA, LIMITS.import_memory_bytes), (resource.RLIMIT_CPU, LIMITS.import_work_s)):
        resource.setrlimit(kind, (most, most))
    try:
        found = unpack(sys.stdin.buffer.read())
    except UnpackingError as error:
        sys.stderr.write(str(error))
        return 1
    except MemoryError:
        sys.stderr.write("it takes too much memory to unpack")
        return 1
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
