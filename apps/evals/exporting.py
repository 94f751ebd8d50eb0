"""A run as a file: inspect_ai's log, CSV, Parquet, Markdown, and a page that opens by itself."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any, Final, NamedTuple

from django.template.loader import render_to_string
from django.utils import timezone

from apps.base.errors import ConflictError
from apps.base.streaming import iterate_pages
from apps.base.writers import write_csv, write_parquet
from apps.evals.asking import reopen_items
from apps.evals.figures import EvaluationFigures, find_figures
from apps.evals.models import Evaluation, ItemTry, TryRecord

PAGE: Final = 200
COLUMNS: Final = {
    "place": "int", "number": "int", "category": "text", "outcome": "float", "cause": "text", "reason": "text",
    "grader": "text", "answer": "text", "error": "text", "prompt_tokens": "int", "completion_tokens": "int",
    "turns": "int", "seconds": "float", "cost_usd": "float", "finish_reason": "text", "messages": "json",
    "steps": "json", "reference": "json",
}  # fmt: skip
"""Of a try; `reference` only for who may know what is right."""
STOP_REASONS: Final = {"stop": "stop", "length": "max_tokens", "max_tokens": "max_tokens", "tool_calls": "tool_calls",
                       "content_filter": "content_filter", "model_length": "model_length"}  # fmt: skip
"""Ours, or a server's -> inspect_ai's."""
STATUS: Final[Mapping[str, str]] = {
    Evaluation.State.DONE: "success",
    Evaluation.State.FAILED: "error",
    Evaluation.State.CANCELLED: "cancelled",
}
"""State -> inspect_ai's; any other is under way."""


class Exporter(NamedTuple):
    """Args: write: (evaluation, whether what is right is told) -> the file in parts."""

    write: Callable[[Evaluation, bool], Iterator[bytes]]
    media_type: str
    ending: str


def export_run(evaluation: Evaluation, form: str, *, knows: bool) -> Iterator[bytes]:
    """The file in parts, none of it held in memory whole.

    Args:
        form: one of FORMS. knows: whether the reader may know what is right.
    """
    return FORMS[form].write(evaluation, knows)


def _list_tries(evaluation: Evaluation) -> Iterator[ItemTry]:
    """In the order in which they were made."""
    rows = ItemTry.objects.filter(evaluation=evaluation).select_related("record")
    for page in iterate_pages(rows, PAGE):
        yield from page


def _find_record(row: ItemTry) -> TryRecord:
    """What came of it; of one that nobody kept, an empty one."""
    return getattr(row, "record", None) or TryRecord(answer=row.answer, prompt_hash="")


def _list_references(evaluation: Evaluation, knows: bool) -> Sequence[Any]:
    """What is right, by place; nothing where the reader may not know, or the items are not what they were."""
    if not knows:
        return ()
    try:
        return [item.reference for item in reopen_items(evaluation).items]
    except ConflictError:
        return ()


def _at(values: Sequence[Any], place: int) -> Any:
    return values[place] if place < len(values) else None


def _list_rows(evaluation: Evaluation, knows: bool) -> Iterator[Mapping[str, Any]]:
    references = _list_references(evaluation, knows)
    for row in _list_tries(evaluation):
        kept = _find_record(row)
        yield {
            **{name: getattr(row, name) for name in COLUMNS if hasattr(row, name) and name != "answer"},
            "cost_usd": None if row.cost_usd is None else float(row.cost_usd),
            **{name: getattr(kept, name) for name in ("answer", "error", "finish_reason", "messages", "steps")},
            "reference": _at(references, row.place),
        }


def _choose_columns(knows: bool) -> Mapping[str, str]:
    return {name: kind for name, kind in COLUMNS.items() if knows or name != "reference"}


def write_run_csv(evaluation: Evaluation, knows: bool) -> Iterator[bytes]:
    """A row a try."""
    return write_csv(_list_rows(evaluation, knows), _choose_columns(knows))


def write_run_parquet(evaluation: Evaluation, knows: bool) -> Iterator[bytes]:
    """A row a try."""
    return write_parquet(_list_rows(evaluation, knows), _choose_columns(knows))


# --- inspect_ai ------------------------------------------------------------------------------------------------------


def write_inspect(evaluation: Evaluation, knows: bool) -> Iterator[bytes]:
    """A log as inspect_ai's `read_eval_log` and its viewer take it. What it grades by is one score, `outcome`; tries
    without one have no score.

    Source:
        inspect_ai 0.3.285, `inspect_ai.log.EvalLog`, version 2.
    """
    head = json.dumps(_describe_log(evaluation), ensure_ascii=False)
    yield head.removesuffix("}").encode() + b', "samples": ['
    references, model = _list_references(evaluation, knows), _name_model(evaluation)
    for number, row in enumerate(_list_tries(evaluation)):
        sample = _write_sample(row, _find_record(row), _at(references, row.place), model)
        yield (b",\n" if number else b"\n") + json.dumps(sample, ensure_ascii=False).encode()
    yield b"\n]}\n"


def _describe_log(evaluation: Evaluation) -> dict[str, Any]:
    figures = find_figures(evaluation)
    created = evaluation.created_at.isoformat()
    metrics = {}
    if figures.mean is not None:
        metrics["mean"] = {"name": "mean", "value": figures.mean}
    if figures.std_error is not None:
        metrics["stderr"] = {"name": "stderr", "value": figures.std_error}
    score = {"name": "outcome", "scorer": "tentalis", "metrics": metrics}
    tries, items = evaluation.item_tries.count(), evaluation.item_tries.values("place").distinct().count()
    taken, model = figures.taken, _name_model(evaluation)
    usage = {} if taken.prompt_tokens is None else {model: _count_usage(taken.prompt_tokens, taken.completion_tokens)}
    return {
        "version": 2,
        "status": STATUS.get(evaluation.state, "started"),
        "eval": {
            "eval_id": f"tentalis-{evaluation.pk}",
            "run_id": f"tentalis-{evaluation.pk}",
            "created": created,
            "task": evaluation.item_set,
            "task_id": evaluation.item_set_hash or evaluation.item_set,
            "dataset": {"name": evaluation.item_set, "samples": items},
            "model": model,
            "config": {"epochs": evaluation.tries},
            "packages": {"tentalis": version("tentalis")},
            "metadata": {"evaluation": evaluation.pk, "made_with": evaluation.made_with},
        },
        "plan": {},
        "results": {
            "total_samples": tries,
            "completed_samples": figures.tries,
            "scores": [score] if metrics else [],
        },
        "stats": {
            "started_at": created,
            "completed_at": evaluation.finished_at.isoformat() if evaluation.finished_at else "",
            "model_usage": usage,
        },
    }


def _name_model(evaluation: Evaluation) -> str:
    if evaluation.adapter is not None:
        return evaluation.adapter.name
    return evaluation.asked_with.get("base_model") or evaluation.worker.base_model or evaluation.worker.name


def _count_usage(prompt: int | None, completion: int | None) -> dict[str, int]:
    inputs, outputs = prompt or 0, completion or 0
    return {"input_tokens": inputs, "output_tokens": outputs, "total_tokens": inputs + outputs}


def _write_sample(row: ItemTry, kept: TryRecord, reference: Any, model: str) -> dict[str, Any]:
    messages = [_write_message(one) for one in kept.messages]
    first = next((n for n, one in enumerate(messages) if one["role"] == "assistant"), len(messages))
    usage = None if row.prompt_tokens is None else _count_usage(row.prompt_tokens, row.completion_tokens)
    choice = {
        "message": {"role": "assistant", "content": kept.answer, "source": "generate"},
        "stop_reason": STOP_REASONS.get(kept.finish_reason, "unknown"),
    }
    sample: dict[str, Any] = {
        "id": row.place + 1,
        "epoch": row.number + 1,
        "input": messages[:first],
        "target": _write_target(reference),
        "messages": messages,
        "output": {"model": model, "choices": [choice], "completion": kept.answer, "usage": usage},
        "scores": {},
        "metadata": {"category": row.category, "cause": row.cause, "reason": row.reason, "try": row.pk},
        "model_usage": {model: usage} if usage else {},
        "total_time": row.seconds,
    }
    if row.outcome is not None:
        sample["scores"] = {
            "outcome": {"value": row.outcome, "answer": kept.answer, "metadata": {"grader": row.grader}}
        }
    elif row.cause == ItemTry.Cause.INFRASTRUCTURE:
        sample["error"] = {"message": row.reason, "traceback": "", "traceback_ansi": ""}
    return sample


def _write_target(reference: Any) -> str | list[str]:
    if reference is None:
        return ""
    if isinstance(reference, str):
        return reference
    if isinstance(reference, list) and all(isinstance(one, str) for one in reference):
        return reference
    return json.dumps(reference, ensure_ascii=False)


def _write_message(message: Mapping[str, Any]) -> dict[str, Any]:
    role, content = message.get("role", "user"), message.get("content")
    text = content if isinstance(content, str) else "" if content is None else json.dumps(content, ensure_ascii=False)
    made: dict[str, Any] = {"role": "system" if role == "developer" else role, "content": text}
    if role == "assistant" and message.get("tool_calls"):
        made["tool_calls"] = [_write_call(one) for one in message["tool_calls"]]
    if role == "tool":
        made["tool_call_id"] = message.get("tool_call_id", "")
    return made


def _write_call(call: Mapping[str, Any]) -> dict[str, Any]:
    called = call.get("function", {})
    made = {"id": call.get("id", ""), "function": called.get("name", ""), "arguments": {}, "type": "function"}
    try:
        told = json.loads(called.get("arguments") or "{}")
    except (ValueError, RecursionError) as error:
        return made | {"parse_error": f"{error!s:.200}"}
    return made | ({"arguments": told} if isinstance(told, dict) else {"parse_error": "wanted an object"})


# --- for people ------------------------------------------------------------------------------------------------------


def write_markdown(evaluation: Evaluation, knows: bool) -> Iterator[bytes]:
    """Its figures, and a table of its tries."""
    figures = find_figures(evaluation)
    lines = [f"# {_cell(str(evaluation))}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in _list_facts(evaluation, figures)]
    if figures.categories:
        lines += ["", "| category | items | accuracy | 95 % |", "|---|---|---|---|"]
        lines += [
            f"| {_cell(one.category or '-')} | {one.accuracy.items} | {one.accuracy.value:.3f} | "
            f"{one.accuracy.low:.3f} to {one.accuracy.high:.3f} |"
            for one in figures.categories
            if one.accuracy
        ]
    lines += ["", "| item | try | outcome | answer |", "|---|---|---|---|", ""]
    yield "\n".join(lines).encode()
    for row in _list_tries(evaluation):
        found = f"{row.outcome:g}" if row.outcome is not None else f"{row.cause}: {row.reason}"
        answer = _find_record(row).answer
        shown = answer if len(answer) <= SHOWN else f"{answer[:SHOWN]}…"
        yield f"| {row.place + 1} | {row.number + 1} | {_cell(found)} | {_cell(shown)} |\n".encode()


SHOWN: Final = 200
"""Characters of an answer in a table."""


def _cell(text: str) -> str:
    """A text as a cell of a table: nothing in it is markup."""
    escaped = "".join(f"\\{sign}" if sign in "\\|`*_[]<>#!" else sign for sign in text)
    return " ".join(escaped.split())


def write_html(evaluation: Evaluation, knows: bool) -> Iterator[bytes]:
    """One page with all of it; it asks no server for anything and runs nothing."""
    figures = find_figures(evaluation)
    facts = {"evaluation": evaluation, "facts": _list_facts(evaluation, figures), "categories": figures.categories}
    page = render_to_string("evals/run.html", facts | {"made_at": timezone.now()})
    head, _, foot = page.partition(MARK)
    yield head.encode()
    references = _list_references(evaluation, knows)
    for row in _list_tries(evaluation):
        kept = _find_record(row)
        told = {"row": row, "kept": kept, "messages": kept.messages, "reference": _at(references, row.place)}
        yield render_to_string("evals/_run_try.html", told).encode()
    yield foot.encode()


MARK: Final = "<!-- tries -->"


def _list_facts(evaluation: Evaluation, figures: EvaluationFigures) -> list[tuple[str, str]]:
    """What is said of a run, in words."""
    taken, accuracy = figures.taken, figures.accuracy
    facts: Iterable[tuple[str, str | None]] = (
        ("model", _name_model(evaluation)),
        ("worker", evaluation.worker.name),
        ("items", f"{evaluation.item_set}, {evaluation.items} with an outcome"),
        ("tries", f"{evaluation.played}, {evaluation.unscored} without an outcome"),
        ("mean outcome", _say_interval(figures.mean, figures.low, figures.high)),
        ("accuracy", accuracy and _say_interval(accuracy.value, accuracy.low, accuracy.high)),
        (
            "if all unscored were wrong or right",
            f"{_say(figures.lowest)} or {_say(figures.highest)}" if figures.causes else None,
        ),
        ("alignment", figures.alignment.whole.words if figures.alignment is not None else None),
        *((f"pass@{one.k}, pass^{one.k}", f"{one.any:.4f}, {one.all:.4f}") for one in figures.passes if one.k > 1),
        *((f"without an outcome: {cause}", str(count)) for cause, count in figures.causes.items()),
        (
            "tokens",
            None
            if taken.prompt_tokens is None
            else f"{taken.prompt_tokens:,} asked, {taken.completion_tokens:,} written",
        ),
        ("cost", None if taken.cost_usd is None else f"{taken.cost_usd:.4f} USD, of {taken.priced} tries"),
        ("finished", _say_time(evaluation.finished_at)),
        ("", evaluation.made_with.get("learning")),
    )
    return [(name, value) for name, value in facts if value]


def _say_interval(value: float | None, low: float | None, high: float | None) -> str | None:
    return None if value is None else f"{value:.4f}, 95 % {_say(low)} to {_say(high)}"


def _say(value: float | None) -> str:
    return "?" if value is None else f"{value:.4f}"


def _say_time(value: datetime | None) -> str:
    return "" if value is None else value.strftime("%Y-%m-%d %H:%M UTC")


FORMS: Final[Mapping[str, Exporter]] = {
    "inspect": Exporter(write_inspect, "application/json", "json"),
    "csv": Exporter(write_run_csv, "text/csv; charset=utf-8", "csv"),
    "parquet": Exporter(write_run_parquet, "application/vnd.apache.parquet", "parquet"),
    "markdown": Exporter(write_markdown, "text/markdown; charset=utf-8", "md"),
    "html": Exporter(write_html, "text/html; charset=utf-8", "html"),
}
