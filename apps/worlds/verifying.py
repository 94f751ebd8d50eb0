"""The one place where a world says what an answer is worth: its own word, and the checks beside it."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from apps.checks.language import read_checks
from apps.checks.results import CheckResult, decide, join_all, leave_unscored
from apps.worlds.identity import name_world
from apps.worlds.registry import get_world
from tentalis.core.worlds import AttemptDraft, Verification

logger = logging.getLogger(__name__)

MOST_WORDS = 2_000


def verify_answer(
    *,
    environment: str,
    prompt: str,
    reference: Any,
    draft: AttemptDraft,
    checks: Any = None,
    look: Callable[[], Verification | None] | None = None,
) -> Verification | None:
    """What is known of an answer without asking anybody; None where there is nothing to know it by.

    An answer is as good as the worst of what the world says and of what each check says. What could not be run leaves
    it unscored, with the cause, unless something else is wrong in full.

    Args:
        checks: of the task or item, as they are stored (`apps.checks.services.settle_checks`).
        look: what the world says of it, where that is more than `verify`: an episode has a state.
    """
    try:
        world = get_world(environment)
        found = look() if look is not None else world.verify(prompt, reference, draft)
        said = [_run(check.run, check.kind, draft) for check in read_checks(checks or ())]
    except Exception as error:
        logger.warning("environment %s could not verify an answer", environment, exc_info=True)
        return Verification(
            outcome=None,
            infrastructure=f"it could not be verified: {type(error).__name__}: {error}"[:MOST_WORDS],
            grader=environment,
        )
    if found is None and not said:
        return None
    whole = found or Verification(
        outcome=1.0,
        step_scores=[None] * len(draft.steps),
        step_reasons=["only the answer was checked"] * len(draft.steps),
    )
    whole = replace(whole, grader=name_world(world), checks=[*whole.checks, *(one.to_json() for one in said)])
    return _lower(whole, said) if said else whole


def _run(run: Any, kind: str, draft: AttemptDraft) -> CheckResult:
    found: CheckResult = decide(kind, passes=False, why="there is no answer") if draft.error else run(draft.answer)
    return found


def _lower(whole: Verification, said: Sequence[CheckResult]) -> Verification:
    """The world's outcome and the checks', joined as `all` joins its parts."""
    own = leave_unscored("world", whole.infrastructure)
    if whole.outcome is not None:
        own = replace(decide("world", passes=whole.outcome == 1.0, why=""), share=whole.outcome)
    joined = join_all("all", [own, *said])
    if joined.share is not None:
        return replace(whole, outcome=joined.share, infrastructure="")
    lost = "; ".join(f"{one.check}: {one.words}" for one in (own, *said) if one.share is None)
    return replace(whole, outcome=None, infrastructure=lost[:MOST_WORDS])
