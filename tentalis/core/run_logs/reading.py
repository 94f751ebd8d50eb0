"""Files of runs as runs, by what they look like or what somebody says they are."""

import io
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import Any, Final

from tentalis.core.run_logs.condensed import NAME, read_condensed
from tentalis.core.run_logs.conversations import read_conversations
from tentalis.core.run_logs.inspect_logs import read_inspect
from tentalis.core.run_logs.lm_eval_logs import read_lm_eval
from tentalis.core.run_logs.logged import LoggedRun, RunLogError
from tentalis.core.run_logs.openai_evals import read_openai_evals

FORMS: Final = ("inspect", "lm-eval", "openai-evals", "sharegpt", "messages")
HEADER: Final = "header.json"
ZIP: Final = b"PK\x03\x04"
ZSTD: Final = 93
"""Method of a zip's member that is packed so, as newer logs of inspect_ai are."""
Unpack = Callable[[bytes, int], bytes]
_WRITTEN_AT: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d.:-]+\Z")


def read_run(
    data: bytes,
    *,
    name: str = "",
    form: str = "",
    score: str = "",
    results: bytes | None = None,
    most_bytes: int,
    unzstd: Unpack,
) -> LoggedRun:
    """The run that a file holds.

    Args:
        name: of the file: lm-eval's says the task. form: one of FORMS; "": as it looks.
        score: which grade counts, where there are several.
        results: lm-eval's file of the whole run, where there is one.
        most_bytes: unpacked. unzstd: (packed, most bytes) -> unpacked; raises ValueError.
    Raises:
        RunLogError: it is none, or not what is wanted of one.
    """
    if form and form not in FORMS:
        raise RunLogError(f"wanted one of {', '.join(FORMS)}, found {form!r:.40}")
    if data.startswith(ZIP):
        if form not in ("", "inspect"):
            raise RunLogError(f"wanted a text for {form}, found a zip, as inspect_ai writes it")
        members = _open_archive(data, most_bytes, unzstd)
        if NAME in members:
            return read_condensed(members[NAME])
        return read_inspect(members.pop(HEADER), sorted(members.values(), key=_order), score=score)
    if len(data) > most_bytes:
        raise RunLogError(f"wanted at most {most_bytes:,} bytes, found more")
    found = _read_values(_decode(data, "file"))
    form = form or _guess(found)
    if form == "inspect":
        if not isinstance(found, dict):
            raise RunLogError("wanted one JSON object, found several")
        samples = found.get("samples")
        if not isinstance(samples, list):
            raise RunLogError("samples: wanted those of the log, found none: it was written without them")
        return read_inspect(found, samples, score=score)
    rows = found if isinstance(found, list) else [found]
    if form == "lm-eval":
        told = None if results is None else _read_values(_decode(results, "results"))
        if told is not None and not isinstance(told, dict):
            raise RunLogError("results: wanted one JSON object, found several")
        return read_lm_eval(rows, told, task=_find_task(name), score=score)
    if form == "openai-evals":
        return read_openai_evals(rows, score=score)
    return read_conversations(rows, form=form)


def _find_task(name: str) -> str:
    """The task that lm-eval names a file of samples by, `samples_TASK_TIME.jsonl`; "" where it is named otherwise."""
    stem = name.replace("\\", "/").rpartition("/")[2]
    task, _, at = stem.removesuffix(".jsonl").rpartition("_")
    is_named = stem.endswith(".jsonl") and task.startswith("samples_") and _WRITTEN_AT.match(at)
    return task.removeprefix("samples_") if is_named else ""


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RunLogError(f"{name}: wanted text in UTF-8, found a byte that is none at place {error.start:,}") from None


def _read_values(text: str) -> Any:
    """The object or list of a JSON text, or the list of one value a line."""
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        raise RunLogError(f"wanted JSON or JSON lines, found {start!r}")
    try:
        return json.loads(text)
    except RecursionError:
        raise RunLogError("wanted JSON, found levels within levels without an end") from None
    except ValueError as error:
        lines = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
        if start == "[" or len(lines) < 2:
            raise RunLogError(f"wanted JSON: {error!s:.200}") from None
    rows, faults = [], {}
    for number, line in lines:
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            faults[f"line {number}"] = f"wanted JSON: {error!s:.200}"
    if faults:
        told = dict(list(faults.items())[:20])
        raise RunLogError("; ".join(f"{place}: {words}" for place, words in told.items()), told)
    return rows


def _guess(found: Any) -> str:
    if isinstance(found, dict) and isinstance(found.get("eval"), dict):
        return "inspect"
    rows: Sequence[Any] = found if isinstance(found, list) else [found]
    first = next((one for one in rows if isinstance(one, dict)), {})
    if "spec" in first or {"sample_id", "type", "data"} <= first.keys():
        return "openai-evals"
    if "doc_id" in first and "resps" in first:
        return "lm-eval"
    if "conversations" in first:
        return "sharegpt"
    if "messages" in first:
        return "messages"
    raise RunLogError(
        f"wanted a file of {', '.join(FORMS)}, found an object with {', '.join(map(str, first)) or 'nothing'!s:.100}"
    )


def _open_archive(data: bytes, most_bytes: int, unzstd: Unpack) -> dict[str, Any]:
    """Name -> value of those members that hold a run."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise RunLogError(f"wanted a zip: {error!s:.200}") from None
    with archive:
        members = {one.filename: one for one in archive.infolist()}  # of a name that stands twice the last one counts
        if not {HEADER, NAME} & members.keys():
            raise RunLogError(
                f"wanted {HEADER} in the archive, found none: no log of inspect_ai, or its run had not ended"
            )
        left = most_bytes
        found: dict[str, Any] = {}
        for name, member in members.items():
            if name not in (HEADER, NAME) and not (name.startswith("samples/") and name.endswith(".json")):
                continue
            text = _read_member(data, archive, member, left, unzstd)
            left -= len(text)
            found[name] = _read_values(_decode(text, name))
            if isinstance(found[name], dict):
                found[name].pop("events", None)
    if not isinstance(found.get(HEADER, {}), dict):
        raise RunLogError(f"{HEADER}: wanted an object")
    return found


def _order(sample: Any) -> tuple[Any, ...]:
    """As they are sorted where the whole log is one file: by epoch, then by id, numbers as such."""
    if not isinstance(sample, dict):
        return (0, "")
    epoch, told = sample.get("epoch"), sample.get("id")
    return (
        epoch if isinstance(epoch, int) else 0,
        f"{told:020d}" if isinstance(told, int) and told >= 0 else str(told),
    )


def _read_member(
    data: bytes, archive: zipfile.ZipFile, member: zipfile.ZipInfo, most_bytes: int, unzstd: Unpack
) -> bytes:
    too_much = RunLogError(f"{member.filename[:100]}: wanted at most {most_bytes:,} bytes more unpacked, found more")
    if member.file_size > most_bytes:
        raise too_much
    try:
        if member.compress_type == ZSTD:
            text = unzstd(_take_packed(data, member), most_bytes + 1)
        else:
            with archive.open(member) as opened:
                text = opened.read(most_bytes + 1)
    except MemoryError:
        raise
    except Exception as error:  # whatever a decompressor makes of bytes that somebody sent
        raise RunLogError(f"{member.filename[:100]}: {type(error).__name__}: {error!s:.200}") from error
    if len(text) > most_bytes:
        raise too_much
    return text


def _take_packed(data: bytes, member: zipfile.ZipInfo) -> bytes:
    """A member's bytes as they lie in the archive, behind its local header.

    Source:
        APPNOTE.TXT 4.3.7: 30 bytes, then a name and an extra field, of the lengths at 26 and 28.
    """
    start = member.header_offset
    if data[start : start + 4] != ZIP:
        raise ValueError("wanted a local header where the directory says it is")
    lengths = int.from_bytes(data[start + 26 : start + 28], "little") + int.from_bytes(
        data[start + 28 : start + 30], "little"
    )
    return data[start + 30 + lengths : start + 30 + lengths + member.compress_size]
