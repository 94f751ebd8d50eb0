"""Calls of functions, as a text or as a chat model makes them, by the rules of the Berkeley leaderboard."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tentalis.core.graders.calls import (
    KINDS,
    LANGUAGES,
    PYTHON,
    CalledFunction,
    UnreadableCallError,
    match_calls,
    match_told,
    match_turns,
    read_calls,
    read_native_call,
    strip_marks,
)
from tentalis.core.graders.programs import take_code
from tentalis.core.graders.reading import read_word
from tentalis.core.grading import Grade, GradedTask, Grader, UngradedError, decide_grade
from tentalis.core.scoring.protocol import AttemptContext

MOST_CALLS: Final = 256
TURNS: Final = "turns"
"""The fact that holds them: of each, `results` of its calls and the `state` behind it."""
_FORMS: Final = {
    "calls": {"functions", "calls"},
    "relevant": {"relevant"},
    TURNS: {TURNS},
    "told": {"told"},
}
"""What a reference may be told by -> what it then holds."""


def check_calls(reference: Any, options: Mapping[str, Any]) -> None:
    """Raises ValueError."""
    language = read_word(options, "language", LANGUAGES)
    forms = [form for form in _FORMS if isinstance(reference, Mapping) and form in reference]
    if len(forms) != 1 or reference.keys() != _FORMS[forms[0]]:
        wanted = "functions and calls, relevant, turns or told"
        raise ValueError(f"reference: wanted an object of {wanted}, found {reference!r:.120}")
    told = reference[forms[0]]
    if forms[0] == "relevant":
        if not isinstance(told, bool):
            raise ValueError(f"relevant: wanted whether anything is to be called, true or false, found {told!r:.80}")
        return
    if not isinstance(told, list) or not 1 <= len(told) <= MOST_CALLS:
        raise ValueError(f"{forms[0]}: wanted a list of 1 to {MOST_CALLS}, found {told!r:.120}")
    if forms[0] == "told" and not all(isinstance(one, str) and strip_marks(one).strip() for one in told):
        raise ValueError(f"told: wanted texts of more than marks, found {told!r:.120}")
    if forms[0] == TURNS:
        _check_turns(told)
    if forms[0] == "calls":
        _check_wanted(told, reference["functions"], language)


def _check_turns(turns: Sequence[Any]) -> None:
    for one in turns:
        if not isinstance(one, Mapping) or one.keys() != {"results", "state"} or not isinstance(one["results"], list):
            raise ValueError(f"turns: wanted objects of results, a list, and state, found {one!r:.120}")
    if not any(one["results"] for one in turns):
        raise ValueError("turns: wanted one at least in which something is called, found none")


def _check_wanted(calls: Sequence[Any], functions: Any, language: str) -> None:
    if not isinstance(functions, list) or not all(isinstance(one, Mapping) and "name" in one for one in functions):
        raise ValueError(f"functions: wanted a list of functions with names, found {functions!r:.120}")
    known = {str(one["name"]): one for one in functions}
    for call in calls:
        if not isinstance(call, Mapping) or len(call) != 1 or not isinstance(next(iter(call.values())), Mapping):
            raise ValueError(f"calls: wanted objects of one function and its parameters, found {call!r:.120}")
        ((name, values),) = call.items()
        if name not in known:
            raise ValueError(f"calls: wanted one of {', '.join(known)[:200]}, found {name!r:.80}")
        properties = (known[name].get("parameters") or {}).get("properties") or {}
        for parameter, may_be in values.items():
            kind = (properties.get(parameter) or {}).get("type", next(iter(KINDS[language])))
            if kind not in KINDS[language]:
                raise ValueError(f"{name}: {parameter}: wanted one of {', '.join(KINDS[language])}, found {kind!r:.80}")
            if not isinstance(may_be, list):
                raise ValueError(f"{name}: {parameter}: wanted the values it may have, a list, found {may_be!r:.80}")


def grade_calls(task: GradedTask, episode: AttemptContext) -> Grade:
    """Right where each wanted call is made, and no other; where nothing is wanted, no call at all."""
    reference = task.reference
    if TURNS in reference:
        played = _read_turns(episode.facts.get(TURNS))
        why = match_turns(played, reference[TURNS])
        return decide_grade(correct=not why, **({"why": why} if why else {}))
    if "told" in reference:
        return decide_grade(correct=match_told(episode.answer or "", reference["told"]))
    language = read_word(task.options, "language", LANGUAGES)
    try:
        calls = find_calls(episode, language)
    except UnreadableCallError as error:
        is_none_wanted = reference.get("relevant") is False and not _makes_calls(episode)
        return decide_grade(correct=is_none_wanted, calls=0, why=str(error))
    names = [call.name for call in calls][:MOST_CALLS]
    if "relevant" in reference:
        return decide_grade(correct=bool(calls) is reference["relevant"], calls=names)
    renamed = [call._replace(name=_find_name(call.name, reference["functions"], episode)) for call in calls]
    why = match_calls(renamed, reference["functions"], reference["calls"], language)
    return decide_grade(correct=not why, calls=names, **({"why": why} if why else {}))


def _makes_calls(episode: AttemptContext) -> bool:
    return any(step.kind == "call" for step in episode.steps)


def find_calls(episode: AttemptContext, language: str) -> list[CalledFunction]:
    """Those that it made, or, where it made none, those that its answer is.

    Raises:
        UnreadableCallError: one of them, or the answer, cannot be read.
    """
    if _makes_calls(episode):
        return [read_native_call(step.tool_name, step.arguments) for step in episode.steps if step.kind == "call"]
    answer = (episode.answer or "").strip()
    return read_calls(take_code(answer).strip(), language) if answer else []


def _find_name(name: str, functions: Sequence[Mapping[str, Any]], episode: AttemptContext) -> str:
    """Names of tools hold no dots: one that only lacks these is that function's."""
    if not _makes_calls(episode):
        return name
    found = [str(one["name"]) for one in functions if str(one["name"]).replace(".", "_") == name.replace(".", "_")]
    return found[0] if len(found) == 1 else name


def _read_turns(told: Any) -> list[Mapping[str, Any]]:
    if not isinstance(told, list) or not all(
        isinstance(one, Mapping) and isinstance(one.get("results"), list) and "state" in one for one in told
    ):
        raise UngradedError("no turns are known: wanted results and state of each, as its world tells them")
    return told


GRADERS: Final = (
    Grader(
        name="bfcl",
        version="2",
        about="Calls of functions: the right ones, and no others.",
        grade=grade_calls,
        options={"language": f"what calls are written in: {', '.join(LANGUAGES)}; {PYTHON} where nothing is said"},
        check=check_calls,
    ),
)
