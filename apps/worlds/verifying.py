"""The one place where a world says what an answer is worth: its own word, and the checks beside it."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from apps.base.texts import make_storable
from apps.checks.graders import Graders
from apps.checks.language import Ask, Check, read_checks, run_parts
from apps.checks.results import CheckResult, decide, join_all, leave_unscored
from apps.worlds.identity import name_world
from apps.worlds.registry import get_world
from tentalis.core.scoring.hallucination import read_text
from tentalis.core.scoring.protocol import AttemptContext, Source
from tentalis.core.steps import ParsedStep
from tentalis.core.worlds import AttemptDraft, Verification

logger = logging.getLogger(__name__)

MOST_WORDS = 2_000
MOST_MISSING: Final = 32_767
EXPECTED_STEPS: Final = 3
"""Distinct steps a whole answer has, where neither the world nor the task (`metadata.expected_steps`) says."""


def verify_answer(
    *,
    environment: str,
    prompt: str,
    reference: Any,
    draft: AttemptDraft,
    checks: Any = None,
    look: Callable[[], Verification | None] | None = None,
    graders: Graders | None = None,
) -> Verification | None:
    """What is known of an answer without asking anybody; None where there is nothing to know it by.

    An answer is as good as the worst of what the world says and of what each check says. What could not be run leaves
    it unscored, with the cause, unless something else is wrong in full.

    Args:
        checks: of the task or item, as they are stored (`apps.checks.services.settle_checks`).
        look: what the world says of it, where that is more than `verify`: an episode has a state.
        graders: of the task's or item's checks (`convene_graders`); None: nobody is asked, and what asks is unscored.
    """
    try:
        world = get_world(environment)
        found = _read_word(look() if look is not None else world.verify(prompt, reference, draft))
        read = read_checks(checks or ())
    except Exception as error:
        logger.warning("environment %s could not verify an answer", environment, exc_info=True)
        return Verification(
            outcome=None,
            infrastructure=f"it could not be verified: {type(error).__name__}: {error}"[:MOST_WORDS],
            grader=environment,
        )
    if found is None and not read:
        return None
    ask = None
    if graders is not None:
        context = open_context(
            graders, environment=environment, prompt=prompt, reference=reference, draft=draft, verification=found
        )
        ask = partial(graders.ask, context=context)
    said = _run(read, draft, ask, is_settled=found is not None and found.outcome == 0.0)
    whole = found or Verification(
        outcome=1.0,
        step_scores=[None] * len(draft.steps),
        step_reasons=["only the answer was checked"] * len(draft.steps),
    )
    whole = replace(whole, grader=name_world(world), checks=[*whole.checks, *(one.to_json() for one in said)])
    return _lower(whole, said) if said else whole


def _read_word(said: Any) -> Verification | None:
    """What a world says, as it can be stored. Raises ValueError or TypeError for what is no such word."""
    if said is None:
        return None
    if not isinstance(said, Verification):
        raise TypeError(f"wanted a Verification or None, found {type(said).__name__}")
    told: dict[str, Any] = make_storable(json.loads(json.dumps(vars(said), allow_nan=False)))
    for name, shares in (("outcome", [told["outcome"]]), ("step_scores", told["step_scores"])):
        for share in shares:
            if share is not None and not (isinstance(share, int | float) and 0 <= share <= 1):
                raise ValueError(f"{name}: wanted a number from 0 to 1, or None, found {share!r:.80}")
    if not isinstance(missing := told["missing_steps"], int) or not 0 <= missing <= MOST_MISSING:
        raise ValueError(f"missing_steps: wanted 0 to {MOST_MISSING:,}, found {missing!r:.80}")
    return Verification(**told)


def _run(checks: Sequence[Check], draft: AttemptDraft, ask: Ask | None, *, is_settled: bool) -> list[CheckResult]:
    if draft.error:
        return [
            check.run(draft.answer, ask)
            if check.reads_silence
            else decide(check.kind, passes=False, why="there is no answer")
            for check in checks
        ]
    return run_parts(checks, draft.answer, ask, settled_by=0.0, is_settled=is_settled)


def open_context(
    graders: Graders,
    *,
    environment: str,
    prompt: str,
    reference: Any,
    draft: AttemptDraft,
    verification: Verification | None = None,
) -> AttemptContext:
    """The answer as those who are asked read it, wherever it is checked; `verification`: what the world says."""
    sources = () if reference is None else (Source("the reference", read_text(reference)),)
    return AttemptContext(
        environment=environment,
        prompt=prompt,
        text=draft.text,
        steps=tuple(map(read_step, draft.steps)),
        answer=draft.answer or None,
        reference=None if reference is None else str(reference),
        rubric=graders.project.rubric,
        constitution=graders.project.constitution,
        facts=list_facts(environment, verification),
        sources=sources,
    )


def read_step(step: Any) -> ParsedStep:
    """A step, of a draft or stored, as scorers read it. Where it stood in the text is not told."""
    is_call = step.kind == "call"
    return ParsedStep(
        kind="call" if is_call else "step",
        text=step.text,
        start=0,
        end=0,
        tool_name=step.tool_name,
        result=step.tool_result if is_call else None,
    )


def list_facts(
    environment: str, verification: Verification | None, told: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What is known of an answer, by the names scorers know it by; `told`: by its task."""
    facts: dict[str, Any] = {"expected_steps": EXPECTED_STEPS, **(told or {})}
    if verification is None or verification.outcome is None:
        return facts | {"unverified": f"environment {environment} has nothing to verify this task by"}
    return {
        **facts,
        **verification.details,
        "outcome": verification.outcome,
        "step_scores": verification.step_scores,
        "step_reasons": verification.step_reasons,
        "missing_steps": verification.missing_steps,
    }


def _lower(whole: Verification, said: Sequence[CheckResult]) -> Verification:
    """The world's outcome and the checks', joined as `all` joins its parts."""
    own = leave_unscored("world", whole.infrastructure)
    if whole.outcome is not None:
        own = replace(decide("world", passes=whole.outcome == 1.0, why=""), share=whole.outcome)
    joined = join_all("all", [own, *said])
    if joined.share is not None:
        return replace(whole, outcome=joined.share, infrastructure="")
    lost = [one for one in (own, *said) if one.share is None]
    words = "; ".join(f"{one.check}: {one.words}" for one in lost)[:MOST_WORDS]
    if all(one.is_untold for one in lost):
        return replace(whole, outcome=None, untold=words)
    return replace(whole, outcome=None, infrastructure=words)
