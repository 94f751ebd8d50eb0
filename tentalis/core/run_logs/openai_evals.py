"""Records of OpenAI evals: a line of `spec`, one an event, and a line of `final_report`.

Source:
    openai/evals, `evals/record.py`: an event has `sample_id`, `type` and `data`; `sampling` has `prompt` and
    `sampled`, `match` has `correct` and `expected`, `metrics` has numbers.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

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
    split_conversation,
)


def read_openai_evals(rows: Sequence[Any], *, score: str = "") -> LoggedRun:
    """The run of a record.

    Args:
        score: which number of `metrics` counts; "": `match`, else the first number there is.
    Raises:
        RunLogError: saying what was wanted of it.
    """
    spec: Mapping[str, Any] = {}
    samples: dict[str, list[Mapping[str, Any]]] = {}
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise RunLogError(f"line {number}: wanted an object, found {type(row).__name__}")
        if isinstance(row.get("spec"), dict):
            spec = row["spec"]
        elif "sample_id" in row and isinstance(row.get("data"), dict):
            samples.setdefault(str(row["sample_id"]), []).append(row)
    made = ((f"sample {name:.60}", partial(_read_sample, name, events, score)) for name, events in samples.items())
    run_config = spec.get("run_config") if isinstance(spec.get("run_config"), dict) else {}
    completion = spec.get("completion_fns")
    return LoggedRun(
        form="openai-evals",
        task=str(spec.get("eval_name") or spec.get("base_eval") or ""),
        model=str(completion[0]) if isinstance(completion, list) and completion else str(spec.get("model_name") or ""),
        tries=collect_tries(made),
        made_at=str(spec.get("created_at") or ""),
        settings={"seed": (run_config or {}).get("seed"), "split": spec.get("split")},
    )


def _read_sample(name: str, events: Sequence[Mapping[str, Any]], score: str) -> LoggedTry | None:
    asked = [one["data"] for one in events if one.get("type") == "sampling"]
    if not asked:
        raise RunLogError("wanted an event of type sampling, found none")
    last = asked[-1]
    prompt = last.get("prompt")
    opening = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else read_messages(prompt, "prompt")
    sampled = last.get("sampled")
    words = read_content(sampled[0] if isinstance(sampled, list) and sampled else sampled or "", "sampled")
    if not any(one["role"] == "user" for one in opening):  # tasks that are told as the system's words alone
        opening = [{**one, "role": "user"} for one in opening]
    opening, said = split_conversation(opening)
    said = [*said, {"role": "assistant", "content": words}] if words else said
    value, graded_by, reference = _read_grade(events, score)
    failed = next((one["data"] for one in events if one.get("type") == "error"), None)
    return LoggedTry(
        place=f"sample {name}",
        opening=opening,
        said=said,
        answer=words or find_answer(said),
        reference=reference,
        score=value,
        graded_by=graded_by,
        cause="" if value is not None else str((failed or {}).get("message") or "its log has no grade of it"),
        is_lost=value is None and failed is not None,
    )


def _read_grade(events: Sequence[Mapping[str, Any]], score: str) -> tuple[float | None, str, Any]:
    matched = next((one["data"] for one in reversed(events) if one.get("type") == "match"), None)
    reference = matched.get("expected") if matched else None
    if matched and score in ("", "match"):
        return read_score(require(matched.get("correct"), bool, "match.correct"), name="match"), "match", reference
    numbers: dict[str, Any] = {}
    for one in events:
        if one.get("type") == "metrics":
            numbers |= {name: value for name, value in one["data"].items() if isinstance(value, int | float)}
    if score and score not in numbers:
        raise RunLogError(f"wanted a metric {score}, found {', '.join(numbers) or 'none'!s:.80}")
    name = score or next(iter(numbers), "")
    return (read_score(numbers[name], name=name) if name else None), name, reference
