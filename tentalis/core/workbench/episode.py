"""An episode at the workbench: its state is plain JSON, each call is judged when it is made, the end by the company."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from tentalis.core.tool_calls import write_closed_tool
from tentalis.core.workbench.company import Company, make_company
from tentalis.core.workbench.solving import Plan, PlannedCall, UnsolvableError, solve
from tentalis.core.workbench.tasks import parse_task
from tentalis.core.workbench.tools import (
    MAX_TEXT_CHARS,
    NAMESPACES,
    TOOLS,
    RefusedError,
    Tool,
    list_found,
    read_decisions,
    search_tools,
)

State = dict[str, Any]
"""`prompt`; `before` and `company`: as it was when the task began, and as it is; `calls`: what was made, one entry
each; `counts`: tool -> how often it was called for this task."""

SEARCH, DESCRIBE, CALL = "tools_search", "tools_describe", "tools_call"
MAX_ARGUMENTS_CHARS: Final = 1_000
MOST_SEARCHES: Final = 6
_MOST_NAMED: Final = 3
LOOKED_UP: Final = 0.5
"""Score of a call that finds out, for the first time, about a tool that the task needs: who knows it needs none."""


_NAME: Final = {"type": "string", "maxLength": MAX_TEXT_CHARS}
FUNCTIONS: Final = (
    write_closed_tool(SEARCH, f"Find the company's tools by words. Namespaces: {', '.join(NAMESPACES)}.", query=_NAME),
    write_closed_tool(DESCRIBE, "What a tool does and takes.", tool=_NAME),
    write_closed_tool(CALL, "Call a tool.", tool=_NAME, args={"type": "object"}),
)
"""What an agent sees. The chat API allows no dots in names, so `tools.search` is `tools_search`."""


def begin(prompt: str, seed: int | None = None, *, company: Company | None = None) -> State:
    """The state before the first call, the same for the same prompt and seed.

    Args:
        company: one that lasts, as an earlier task left it; None: a new one.
    Raises:
        WorkbenchError: the prompt is no task.
    """
    task = parse_task(prompt)
    if company is None:
        clients, items = filter(None, [task.client]), filter(None, [task.item])
        company = make_company(f"{task.text}/{seed}", clients=[*clients], items=[*items])
    return {"prompt": task.text, "before": deepcopy(company), "company": company, "calls": [], "counts": {}}


def act(state: State, function: str, arguments: str) -> str:
    """Do what a call says, note how good that was, and say what came of it; what is wrong with it is said too."""
    before = deepcopy(state["company"])
    try:
        told = _read_arguments(function, arguments)
        if function == CALL:
            tool, given = _read_call(told)
            _count(state, tool.name, tool.most)
            said = tool.effect(state["company"], given)
            _judge_call(state, tool, given, before)
            return said
        _count(state, function, MOST_SEARCHES)
        return _look_up(state, function, told)
    except RefusedError as error:
        state["company"] = before
        _note(state, 0.0, f"refused: {error}")
        return f"refused: {error}"


def _read_arguments(function: str, arguments: str) -> Mapping[str, Any]:
    fields = {SEARCH: ("query", str), DESCRIBE: ("tool", str), CALL: ("tool", str)}.get(function)
    if fields is None:
        raise RefusedError(
            f"there is no function {function[:MAX_TEXT_CHARS]!r}: there are {SEARCH}, {DESCRIBE}, {CALL}"
        )
    if len(arguments) > MAX_ARGUMENTS_CHARS:
        raise RefusedError(f"wanted at most {MAX_ARGUMENTS_CHARS:,} characters, found {len(arguments):,}")
    try:
        told = json.loads(arguments)
    except (ValueError, RecursionError):
        raise RefusedError(f"wanted a JSON object, found {arguments[:MAX_TEXT_CHARS]!r}") from None
    name, kind = fields
    wanted = {name, "args"} if function == CALL else {name}
    is_object = isinstance(told, dict) and set(told) == wanted
    if not is_object or not isinstance(told[name], kind) or not isinstance(told.get("args", {}), dict):
        shape = f'{{"{name}": text{", " + chr(34) + "args" + chr(34) + ": object" if function == CALL else ""}}}'
        raise RefusedError(f"{function} wants {shape}, found {arguments[:MAX_TEXT_CHARS]}")
    return dict(told)


def _read_call(told: Mapping[str, Any]) -> tuple[Tool, Mapping[str, Any]]:
    tool = _find_tool(told["tool"])
    if fault := tool.find_fault(told["args"]):
        raise RefusedError(fault)
    return tool, told["args"]


def _find_tool(name: str) -> Tool:
    if (tool := TOOLS.get(name)) is None:
        raise RefusedError(f"there is no tool {name[:MAX_TEXT_CHARS]!r}")
    return tool


def _count(state: State, name: str, most: int | None) -> None:
    count = state["counts"][name] = state["counts"].get(name, 0) + 1
    if most is not None and count > most:
        raise RefusedError(f"{name} was called {most} times already, no more for this task")


def _look_up(state: State, function: str, told: Mapping[str, Any]) -> str:
    found = [_find_tool(told["tool"])] if function == DESCRIBE else search_tools(told["query"])
    key = [function, *(one.name for one in found)]
    plan = _plan(state)
    needed = {one.tool for one in plan.calls} if plan else set[str]()
    made = {one["tool"] for one in state["calls"] if "tool" in one}
    is_new = all(one.get("key") != key for one in state["calls"])
    is_useful = is_new and not needed.isdisjoint({one.name for one in found} - made)
    _note(state, LOOKED_UP if is_useful else 0.0, "looked up" if is_useful else "nothing new that is needed", key=key)
    if function == DESCRIBE:
        return found[0].describe()
    return list_found(found)


def _judge_call(state: State, tool: Tool, given: Mapping[str, Any], before: Company) -> None:
    """Note how far a call went the house's way, and which habits it decided on."""
    call = {"tool": tool.name, "args": dict(given)}
    plan, task = _plan(state), parse_task(state["prompt"])
    wanted = [{"tool": one.tool, "args": dict(one.arguments)} for one in plan.calls] if plan else []
    made = [{"tool": one["tool"], "args": one["args"]} for one in state["calls"] if "tool" in one]
    decided = {habit: took for habit, took in read_decisions(tool.name, given).items() if habit in task.house}
    faults = [habit for habit, took in decided.items() if took != task.house[habit]]
    score, why = 0.0, ""
    if call in made and call in wanted:
        why = "called before"
    elif call in wanted:
        score = 1.0
    elif faults:
        said = "; ".join(f"wanted {task.house[one]}, found {decided[one]}" for one in faults)
        why = f"not as this house does it: {said}"
    elif not tool.changes:
        why = "nothing that is needed"
    else:
        changed = name_differences(before, state["company"])
        why = f"not what was asked for: {changed[0] if changed else 'it changes nothing'}"
    _note(state, score, why, **call, decided=decided, faults=faults)


def _note(state: State, score: float, why: str, **more: Any) -> None:
    state["calls"].append({"score": score, "why": why, **more})


def _plan(state: State) -> Plan | None:
    try:
        return solve(parse_task(state["prompt"]), state["before"])
    except UnsolvableError:
        return None


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What an episode comes to.

    Args:
        is_done: the company is what it was but for what was asked.
        why: what is missing of that or beyond it; () where it is done.
        calls, optimum: made, and needed by who knows the company; optimum None where nothing did it any more.
        wasted: calls beyond the optimum, or that did not help.
        missing: changes that were not made.
        decided: habits that were decided on; faults: of them, otherwise than this house does.
    """

    is_done: bool
    why: Sequence[str]
    calls: int
    optimum: int | None
    wasted: int
    missing: int
    decided: int
    faults: int

    @property
    def efficiency(self) -> float:
        """Share of the calls that it needed, in [0, 1]; 0 where it is not done."""
        return min(1.0, self.optimum / max(self.calls, 1)) if self.is_done and self.optimum else 0.0


def judge(state: State) -> Judgement:
    """Compare the company with what the house's own way makes of it."""
    plan, calls = _plan(state), state["calls"]
    why: Sequence[str] = ["the company is no more as the task needs it"]
    if plan is not None:
        why = name_differences(plan.company, state["company"])
    made = [PlannedCall(one["tool"], one["args"]) for one in calls if "tool" in one]
    missing = [one for one in plan.calls if one.changes and one not in made] if plan else []
    return Judgement(
        is_done=plan is not None and not why,
        why=why,
        calls=len(calls),
        optimum=len(plan.calls) if plan else None,
        wasted=sum(one["score"] < 1.0 for one in calls),
        missing=len(missing),
        decided=sum(len(one.get("decided", ())) for one in calls),
        faults=sum(len(one.get("faults", ())) for one in calls),
    )


def name_differences(wanted: Any, actual: Any, path: str = "") -> list[str]:
    """At most three places where two companies differ, in words.

    Args:
        path: of the place that both are in.
    """
    if isinstance(wanted, dict) and isinstance(actual, dict):
        places = [(f"{path} {key}".strip(), wanted.get(key), actual.get(key)) for key in {**wanted, **actual}]
    elif isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        places = [(path, *pair) for pair in zip(wanted, actual, strict=True)]
    else:
        return [] if wanted == actual else [f"{path}: wanted {_say(wanted)}, found {_say(actual)}"]
    differing = [one for place, left, right in places if left != right for one in name_differences(left, right, place)]
    return differing[:_MOST_NAMED]


def _say(value: Any) -> str:
    return "nothing" if value in (None, [], {}) else json.dumps(value)[:120]
