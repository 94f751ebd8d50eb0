"""A run as a small file of ours: what is kept of another tool's, which may be a hundred times as large."""

import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from tentalis.core.run_logs.logged import (
    LoggedRun,
    LoggedTry,
    RunLogError,
    collect_tries,
    read_messages,
    read_score,
    require,
)

SCHEMA: Final = "tentalis.logged_run.v1"
NAME: Final = "run.json"
_TEXTS: Final = ("place", "answer", "graded_by", "cause", "category", "finish_reason")
_NUMBERS: Final = ("prompt_tokens", "completion_tokens", "seconds", "cost_usd")
_DAY: Final = (1980, 1, 1, 0, 0, 0)
"""Of the archive's member: the same run makes the same bytes."""


def write_condensed(run: LoggedRun) -> bytes:
    """A zip with the run as JSON."""
    text = json.dumps({"schema": SCHEMA, **dataclasses.asdict(run)}, ensure_ascii=False)
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr(zipfile.ZipInfo(NAME, _DAY), text.encode(errors="replace"), zipfile.ZIP_DEFLATED)
    return sink.getvalue()


def read_condensed(value: Any) -> LoggedRun:
    """Raises RunLogError, saying what was wanted of it."""
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise RunLogError(f"{NAME}: wanted a run of {SCHEMA}")
    rows = require(value.get("tries"), list, "tries")
    return LoggedRun(
        form=require(value.get("form"), str, "form"),
        task=require(value.get("task"), str, "task"),
        model=require(value.get("model"), str, "model"),
        made_at=require(value.get("made_at"), str, "made_at"),
        settings=require(value.get("settings"), dict, "settings"),
        tries=collect_tries((f"try {n}", partial(_read_try, one)) for n, one in enumerate(rows, start=1)),
    )


def _read_try(found: Mapping[str, Any]) -> LoggedTry:
    require(found, dict, "try")
    told = {name: require(found.get(name, ""), str, name) for name in _TEXTS}
    for name in _NUMBERS:
        value = found.get(name)
        wanted = (int, float) if name in ("seconds", "cost_usd") else int
        if value is not None and (isinstance(require(value, wanted, name), bool) or not 0 <= value < 2**31):
            raise RunLogError(f"{name}: wanted a number from 0 on, found {value!r:.40}")
        told[name] = value
    return LoggedTry(
        **told,
        opening=read_messages(found.get("opening"), "opening"),
        said=read_messages(found.get("said"), "said"),
        reference=found.get("reference"),
        score=read_score(found.get("score"), name="score"),
        is_lost=require(found.get("is_lost", False), bool, "is_lost"),
    )
