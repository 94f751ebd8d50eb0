"""What a trainer sampled, read as an attempt: its steps and answer, or the tool it waits for."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from apps.base.errors import BadInputError
from apps.tasks.models import Task
from apps.workers.kinds import find_kind
from apps.worlds.registry import get_world
from tentalis.core.steps import parse_steps
from tentalis.core.worlds import AttemptDraft, DraftStep


class AnswerPart(NamedTuple):
    """A stretch of an answer; `sampled` by the policy, else a tool's result."""

    text: str
    sampled: bool


def read_parts(parts: Sequence[Mapping[str, Any]] | None, *, query: str, prompt: str) -> list[AnswerPart]:
    """An answer's parts as they were told, else what of `query` follows its `prompt`.

    Raises:
        BadInputError: the query does not begin with its prompt: where the answer begins cannot be known.
    """
    if parts is not None:
        return [AnswerPart(part["text"], part["sampled"]) for part in parts]
    if not query.startswith(prompt):
        raise BadInputError("query: wanted the prompt and then the answer, found something else before the answer")
    return [AnswerPart(query.removeprefix(prompt), True)]


def call_tool(task: Task, parts: Sequence[AnswerPart]) -> str | None:
    """What the tool says that the answer so far ends in a call of, as it is written into the answer; None: no call."""
    form = find_kind(task.worker.kind).form
    if form is None or not parts[-1].sampled or (call := form.find_call("".join(part.text for part in parts))) is None:
        return None
    return form.write_result(get_world(task.environment).call_tool(task.prompt, *call))


def read_answer(task: Task, parts: Sequence[AnswerPart], *, is_cut: bool) -> AttemptDraft:
    """The whole answer as its worker's kind reads its own."""
    text = "".join(part.text for part in parts)
    if form := find_kind(task.worker.kind).form:
        return form.read(parts, is_cut=is_cut)
    parsed = parse_steps(text)
    steps = [
        DraftStep(kind=step.kind, text=step.text, tool_name=step.tool_name, tool_result=step.result or "")
        for step in parsed.steps
    ]
    return AttemptDraft(
        text=text,
        answer=parsed.answer or "",
        steps=steps,
        ended=not is_cut,
        finish_reason="length" if is_cut else "stop",
        error="" if text.strip() else "the answer is empty",
    )
