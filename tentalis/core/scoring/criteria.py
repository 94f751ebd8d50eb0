"""A rubric's criteria, judged one by one: what a rubric manager asks a model, and reads as items of an attempt."""

import re

from tentalis.core.canon import content_hash
from tentalis.core.scoring.judging import (
    ANSWER_CHARS,
    PROMPT_CHARS,
    REFERENCE_CHARS,
    Judgement,
    JudgeRequest,
)
from tentalis.core.scoring.protocol import AttemptContext, ScoringError
from tentalis.core.scoring.quoting import QUOTING_RULE, Message, cap_text, clean_text, quote_blocks

MAX_CRITERIA = 24
CRITERION_CHARS = 200
WORK_CHARS = 24_000

BELIEF = 3.0
"""What the criteria weigh together as they are written: with all kept a score of sigmoid(3) = .95, with none .05."""
ALWAYS = "always"
"""The item every attempt has: how good work usually is."""

_MARK = re.compile(r"\s{0,80}(?:[-*•]|[0-9]{1,2}[.)])\s{1,80}(?P<text>\S.*)")
_SYSTEM = (
    "You review an agent's work, one criterion of a rubric at a time, each by itself: 1 means the work fully keeps to "
    "it, 0 means it goes against it or leaves it out. Judge only what a criterion says, never whether you like it."
)
_FORM = (
    "Answer with one JSON object and nothing else: "
    '{"steps": [{"index": 0, "score": 0.0, "reason": "..."}], "overall": 0.0, "reason": "..."}. '
    "Scores are numbers from 0 to 1. `steps` holds each criterion of the RUBRIC exactly once, under the number before "
    "it; `overall` is how good the work is as a whole."
)


def read_criteria(rubric: str) -> tuple[str, ...]:
    """The criteria of a rubric: its list items, or where it has none its lines; the first MAX_CRITERIA, each once."""
    lines = [line for line in rubric.splitlines() if line.strip()]
    listed = [found["text"] for line in lines if (found := _MARK.fullmatch(line))]
    cleaned = (clean_text(line.strip())[:CRITERION_CHARS] for line in listed or lines)
    return tuple(dict.fromkeys(cleaned))[:MAX_CRITERIA]


def weigh_criteria(criteria: tuple[str, ...]) -> dict[str, float]:
    """The weights of a manager that takes every criterion for equally important."""
    return {criterion: BELIEF / len(criteria) for criterion in criteria} | {ALWAYS: 0.0}


def build_criteria_request(context: AttemptContext, criteria: tuple[str, ...]) -> JudgeRequest:
    """The messages that ask how far an attempt keeps to each criterion; `parse_judgement` reads the answer.

    The system message is fixed text; all that anyone wrote stands fenced and capped in the user message.

    Raises:
        ScoringError: there is no criterion.
    """
    if not criteria:
        raise ScoringError("rubric: wanted one criterion or more, found none")
    blocks = {"RUBRIC": "\n".join(f"{index}. {criterion}" for index, criterion in enumerate(criteria))}
    blocks["TASK"] = cap_text(context.prompt, PROMPT_CHARS)
    if context.reference is not None:
        blocks["REFERENCE"] = cap_text(context.reference, REFERENCE_CHARS)
    blocks["WORK"] = cap_text(context.text, WORK_CHARS)
    blocks["ANSWER"] = cap_text(context.answer if context.answer is not None else "(no answer was given)", ANSWER_CHARS)
    system = f"{_SYSTEM}\n\n{QUOTING_RULE}\n\n{_FORM}"
    user = f"{quote_blocks(blocks)}\n\nGive your verdict on {len(criteria)} criteria and the whole now, as JSON."
    return JudgeRequest(
        messages=(Message(role="system", content=system), Message(role="user", content=user)),
        step_count=len(criteria),
        prompt_version=content_hash(system)[:12],
    )


def read_items(judgement: Judgement, criteria: tuple[str, ...]) -> dict[str, float]:
    """phi of an attempt: 2 score - 1 of each criterion, in [-1, 1], and `always`."""
    found = {criteria[verdict.index]: 2.0 * verdict.score - 1.0 for verdict in judgement.steps}
    return found | {ALWAYS: 1.0}
