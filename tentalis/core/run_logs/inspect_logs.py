"""Logs of inspect_ai, `.json` or `.eval`.

Source:
    inspect_ai 0.3.285, `inspect_ai.log.EvalLog`: `eval`, `samples` with `messages`, `output`, `scores`, `model_usage`;
    an `.eval` is a zip of `header.json` and one `samples/ID_epoch_N.json` a sample.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from tentalis.core.run_logs.logged import (
    LoggedRun,
    LoggedTry,
    RunLogError,
    collect_tries,
    find_answer,
    read_content,
    read_messages,
    read_score,
    require,
)

ATTACHMENT: Final = "attachment://"


def read_inspect(header: Mapping[str, Any], samples: Sequence[Any], *, score: str = "") -> LoggedRun:
    """The run of a log.

    Args:
        score: which of the scores counts; "": the first one.
    Raises:
        RunLogError: saying what was wanted of it.
    """
    told = require(header.get("eval"), dict, "eval")
    config = told.get("config") if isinstance(told.get("config"), dict) else {}
    packages = told.get("packages") if isinstance(told.get("packages"), dict) else {}
    generated = told.get("model_generate_config")
    tries = collect_tries((_name(n, one), partial(_read_sample, one, score)) for n, one in enumerate(samples))
    return LoggedRun(
        form="inspect",
        task=str(require(told.get("task"), str, "eval.task")).rpartition("/")[2],
        model=require(told.get("model"), str, "eval.model"),
        tries=tries,
        made_at=str(told.get("created") or ""),
        settings={
            "status": header.get("status"),
            "task_version": told.get("task_version"),
            "packages": packages,
            "epochs": config.get("epochs"),
            "sampling": {name: value for name, value in (generated or {}).items() if value is not None},
        },
    )


def _name(place: int, found: Any) -> str:
    if isinstance(found, dict) and "id" in found:
        return f"sample {found['id']!s:.60}, epoch {found.get('epoch', 1)}"
    return f"sample {place + 1}"


def _read_sample(found: Any, score: str) -> LoggedTry | None:
    require(found, dict, "sample")
    attachments = found.get("attachments") or {}
    asked, told = _restore(found.get("input"), attachments), _restore(found.get("messages") or [], attachments)
    messages = read_messages(told)
    first = _find_first(told, asked)
    opening, said = messages[:first], messages[first:]
    if not opening:
        opening = [{"role": "user", "content": asked}] if isinstance(asked, str) else read_messages(asked, "input")
    output = found.get("output") if isinstance(found.get("output"), dict) else {}
    choices = output.get("choices") or [{}]
    value, graded_by, cause = _read_scores(found.get("scores") or {}, score)
    error = found.get("error")
    is_lost = value is None and isinstance(error, dict)
    usage = [one for one in (found.get("model_usage") or {}).values() if isinstance(one, dict)]
    metadata = found.get("metadata") if isinstance(found.get("metadata"), dict) else {}
    return LoggedTry(
        place=_name(0, found),
        opening=opening,
        said=said,
        answer=read_content(_restore(output.get("completion"), attachments), "output.completion") or find_answer(said),
        reference=found.get("target"),
        score=value,
        graded_by=graded_by,
        cause=str(error.get("message", "")) if is_lost and isinstance(error, dict) else cause,
        is_lost=is_lost,
        category=str(metadata.get("category") or metadata.get("subject") or ""),
        finish_reason=str(choices[0].get("stop_reason") or "") if isinstance(choices[0], dict) else "",
        prompt_tokens=_sum(usage, "input_tokens", "input_tokens_cache_read", "input_tokens_cache_write"),
        completion_tokens=_sum(usage, "output_tokens"),
        seconds=_number(found.get("working_time")) or _number(found.get("total_time")),
        cost_usd=_cost(usage),
    )


def _find_first(messages: Sequence[Mapping[str, Any]], asked: Any) -> int:
    """Place of the model's first answer: examples that stand in what was asked are none of its answers."""
    answers = [n for n, one in enumerate(messages) if one["role"] == "assistant"]
    generated = [n for n in answers if messages[n].get("source") == "generate"]
    examples = [one for one in asked if isinstance(one, dict)] if isinstance(asked, list) else []
    shown = sum(one.get("role") == "assistant" for one in examples)
    return next(iter(generated or answers[shown:]), len(messages))


def _read_scores(scores: Any, wanted: str) -> tuple[float | None, str, str]:
    """The grade, by whom, and why there is none."""
    if not require(scores, dict, "scores"):
        return None, "", "its log has no grade of it"
    name, _, key = (wanted or next(iter(scores))).partition(".")
    if name not in scores:
        raise RunLogError(f"wanted a score {name}, found {', '.join(map(str, scores))!s:.80}")
    found = require(scores[name], dict, f"scores.{name}")
    value = found.get("value")
    if isinstance(value, dict):
        if not key and len(value) == 1:
            key = next(iter(value))
        if key not in value:
            listed = ", ".join(f"{name}.{one}" for one in value)
            raise RunLogError(f"{name} says several things: wanted one of {listed!s:.80}, found {wanted or name}")
        name, value = f"{name}.{key}", value[key]
    known = read_score(value, name=name)
    return (
        known,
        name,
        "" if known is not None else str(found.get("reason") or found.get("explanation") or "it is unscored"),
    )


def _restore(value: Any, attachments: Any) -> Any:
    """Long texts stand beside the sample, by a hash."""
    if isinstance(value, str):
        if value.startswith(ATTACHMENT) and isinstance(attachments, dict):
            return attachments.get(value.removeprefix(ATTACHMENT), value)
        return value
    if isinstance(value, list):
        return [_restore(one, attachments) for one in value]
    if isinstance(value, dict):
        return {name: _restore(one, attachments) for name, one in value.items()}
    return value


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _sum(usage: Sequence[Mapping[str, Any]], *names: str) -> int | None:
    return sum(int(_number(one.get(name)) or 0) for one in usage for name in names) if usage else None


def _cost(usage: Sequence[Mapping[str, Any]]) -> float | None:
    known = [cost for one in usage if (cost := _number(one.get("total_cost"))) is not None]
    return sum(known) if known and len(known) == len(usage) else None
