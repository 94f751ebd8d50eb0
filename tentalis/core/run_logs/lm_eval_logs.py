"""Sample logs of lm-eval: `samples_TASK_DATE.jsonl`, and the `results_DATE.json` beside it.

Source:
    lm_eval 0.4.13, `evaluator.py` and `loggers/evaluation_tracker.py`: a line has `doc_id`, `doc`, `target`,
    `arguments` ({"gen_args_0": {"arg_0": prompt, ...}}), `resps`, `filtered_resps`, `filter`, `metrics` (names) and
    each metric by its name; a document stands once a filter. Of tasks by likelihood each response is
    [log-likelihood, whether it is the likeliest], one a continuation.
"""

from collections.abc import Mapping, Sequence
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

PREFERRED: Final = ("exact_match", "acc", "pass@1", "prompt_level_strict_acc", "f1")
"""Metrics that are taken first, where nobody says which."""


def read_lm_eval(
    rows: Sequence[Any], results: Mapping[str, Any] | None, *, task: str = "", score: str = ""
) -> LoggedRun:
    """The run of a samples file.

    Args:
        results: the file of the whole run, which says the model; None: nobody has it.
        task: its name. score: `METRIC` or `METRIC,FILTER`, as lm-eval writes them; "": the first filter, and of its
            metrics the usual one.
    Raises:
        RunLogError: saying what was wanted of it.
    """
    metric, _, chosen = score.partition(",")
    filters = list(dict.fromkeys(str(one.get("filter", "")) for one in rows if isinstance(one, dict)))
    if chosen and chosen not in filters:
        raise RunLogError(f"wanted a filter {chosen}, found {', '.join(filters)!s:.80}")
    wanted = chosen or (filters[0] if filters else "")
    read = partial(_read_row, wanted=wanted, metric=metric)
    tries = collect_tries((f"line {n}", partial(read, one, place=f"line {n}")) for n, one in enumerate(rows, start=1))
    told = results or {}
    configs = told.get("configs") if isinstance(told.get("configs"), dict) else {}
    config = configs.get(task) if isinstance(configs, dict) else None
    return LoggedRun(
        form="lm-eval",
        task=task,
        model=_find_model(told),
        tries=tries,
        made_at=str(told.get("date") or ""),
        settings={
            "filter": wanted,
            "version": (told.get("versions") or {}).get(task),
            "lm_eval": told.get("lm_eval_version"),
            "few_shot": (told.get("n-shot") or {}).get(task),
            "sampling": config.get("generation_kwargs") if isinstance(config, dict) else None,
        },
    )


def _find_model(told: Mapping[str, Any]) -> str:
    if isinstance(name := told.get("model_name"), str) and name:
        return name
    config = told.get("config") if isinstance(told.get("config"), dict) else {}
    words = (config or {}).get("model_args")
    if isinstance(words, dict):
        return str(words.get("pretrained") or words.get("model") or "")
    for part in str(words or "").split(","):
        key, _, value = part.partition("=")
        if key in ("pretrained", "model"):
            return value
    return ""


def _read_row(found: Any, *, wanted: str, metric: str, place: str) -> LoggedTry | None:
    require(found, dict, "sample")
    if str(found.get("filter", "")) != wanted:
        return None
    arguments = [_list_arguments(one) for one in _list_values(found.get("arguments"), "arguments")]
    if not arguments or not arguments[0]:
        raise RunLogError("arguments: wanted what the model was asked with, found none")
    told = require(found.get("metrics"), list, "metrics")
    name = metric or next((one for one in (*PREFERRED, *told) if one in told), "")
    if name not in found:
        raise RunLogError(f"wanted a metric {name or 'of it'}, found {', '.join(map(str, told))!s:.80}")
    context = arguments[0][0]
    opening = _read_context(context)
    answer = _read_answer(found, arguments)
    score = read_score(found[name], name=name)
    return LoggedTry(
        place=place,
        opening=opening,
        said=[{"role": "assistant", "content": answer}] if answer else [],
        answer=answer,
        reference=found.get("target"),
        score=score,
        graded_by=f"{name},{wanted}" if wanted else name,
        cause="" if score is not None else "its log has no grade of it",
        category=_find_category(found.get("doc")),
    )


def _read_context(context: Any) -> list[dict[str, Any]]:
    """With a chat template that was left to the server, it is messages as JSON."""
    if isinstance(context, list):
        return read_messages(context, "arguments")
    return [{"role": "user", "content": require(context, str, "arguments")}]


def _read_answer(found: Mapping[str, Any], arguments: Sequence[Sequence[Any]]) -> str:
    responses = require(found.get("resps"), list, "resps")
    likely = [_read_likelihood(one) for one in responses]
    if likely and all(one is not None for one in likely) and len(likely) == len(arguments):
        best = max(range(len(likely)), key=lambda n: likely[n] or 0.0)
        return str(arguments[best][1]).strip() if len(arguments[best]) > 1 else ""
    first: Any = responses
    while isinstance(first, list) and first:
        first = first[0]
    return first if isinstance(first, str) else ""


def _read_likelihood(response: Any) -> float | None:
    """Of [[-1.5, False]] the number, which newer logs write as a text."""
    while isinstance(response, list) and len(response) == 1:
        response = response[0]
    if not isinstance(response, list) or len(response) != 2 or str(response[1]) not in ("True", "False"):
        return None
    try:
        return float(response[0])
    except (TypeError, ValueError):
        return None


def _list_values(found: Any, name: str) -> list[Any]:
    return list(found.values()) if isinstance(found, dict) else require(found, list, name)


def _list_arguments(found: Any) -> list[Any]:
    return _list_values(found, "arguments")


def _find_category(doc: Any) -> str:
    if not isinstance(doc, dict):
        return ""
    return next((value for name in ("subject", "category") if isinstance(value := doc.get(name), str)), "")
