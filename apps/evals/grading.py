"""What an answer to an item is worth. What says nothing of the model is unscored, with its cause; it is never a 0."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from apps.checks.graders import ATTEMPTS_AT_ONCE, Graders, convene_graders
from apps.evals.models import Evaluation, ItemTry
from apps.inference.metering import charge
from apps.worlds.verifying import verify_answer
from tentalis.core.learning.collapse import (
    AnswerTraits,
    measure_repeated_words,
    measure_self_overlap,
)
from tentalis.core.scoring.quoting import clean_text
from tentalis.core.worlds import AttemptDraft, PanelItem, Verification, World
from tentalis.outbound.scopes import ScopedThreadPool

if TYPE_CHECKING:
    from apps.evals.answering import Answered
    from apps.evals.results import WantedTry

MOST_READ: Final = 5
"""Answers of a report that are kept for people to read."""


def verify_items(
    items: Sequence[PanelItem], world: World, drafts: Sequence[AttemptDraft], *, evaluation: Evaluation
) -> list[Verification | None]:
    """What is known of each answer to an item; None where nothing is, or it says nothing of the model."""
    with charging_judges(evaluation):
        graders = convene_graders(evaluation.worker.project, [item.checks for item in items])
        verify = partial(_verify_item, world, graders)
        if graders is None or len(items) == 1:
            return list(map(verify, items, drafts))
        with ScopedThreadPool(ATTEMPTS_AT_ONCE) as pool:
            return list(pool.map(verify, items, drafts))


def _verify_item(world: World, graders: Graders | None, item: PanelItem, draft: AttemptDraft) -> Verification | None:
    if draft.is_lost:
        return None
    return verify_answer(
        environment=world.name,
        prompt=item.prompt,
        reference=item.reference,
        draft=draft,
        checks=item.checks or (),
        graders=graders,
    )


def charging_judges(evaluation: Evaluation) -> AbstractContextManager[Any]:
    """Keeps what is asked of judges about a try, as the cost of the adapter that is measured."""
    name = evaluation.adapter.name if evaluation.adapter else ""
    return charge(project=evaluation.worker.project, turn="judge", adapter_name=name)


def grade_try(
    row: ItemTry, item: PanelItem, world: World, draft: AttemptDraft, verification: Verification | None
) -> ItemTry:
    """Put what an answer is worth into the row of its try, which is not saved; `verification` is of `verify_item`."""
    if draft.is_lost:
        return note_lost(row, draft.error)
    if verification is not None and verification.infrastructure:
        return note_lost(row, verification.infrastructure)
    row.traits = vars(read_traits(draft))
    if item.reference is None and item.checks is None:
        row.answer = clean_text(draft.answer or draft.text)
    if verification is not None and verification.outcome is not None:
        row.outcome, row.grader = round(float(verification.outcome), 4), verification.grader[:64]
        row.step_score = round(_mean_step_score(verification, verification.outcome), 4)
    elif verification is not None and verification.untold:
        row.cause, row.reason = ItemTry.Cause.UNTOLD, verification.untold[:300]
    elif draft.error:  # the model wrote nothing that could be right
        row.outcome = row.step_score = 0.0
    else:
        row.cause, row.reason = ItemTry.Cause.UNCHECKED, f"{world.name} has nothing to check it with"
    return row


def note_lost(row: ItemTry, reason: str) -> ItemTry:
    """Put into the row of a try, which is not saved, that it says nothing of the model."""
    row.cause, row.reason = ItemTry.Cause.INFRASTRUCTURE, reason[:300]
    return row


def _mean_step_score(found: Verification, outcome: float) -> float:
    scores = [score for score in found.step_scores if score is not None] + [0.0] * found.missing_steps
    return fmean(scores) if scores else outcome


def read_traits(draft: AttemptDraft) -> AnswerTraits:
    """What an answer looks like."""
    chosen = [token for token, sampled in zip(draft.token_ids, draft.sampled, strict=True) if sampled]
    logprobs: Sequence[float] = [value for value, sampled in zip(draft.logprobs, draft.sampled, strict=True) if sampled]
    return AnswerTraits(
        has_broken_tags=any(step.kind in {"other", "bad"} for step in draft.steps) or not draft.steps,
        has_end=draft.ended,
        entropy_nats=-fmean(logprobs) if logprobs else 0.0,
        length_tokens=len(chosen),
        self_overlap=measure_self_overlap(chosen),
        repeated_words=measure_repeated_words(draft.answer or draft.text),
    )


def _is_read(one: "WantedTry") -> bool:
    """Whether people are shown the answer."""
    evaluation = one.asked.measured.evaluation
    is_reported = evaluation.purpose == Evaluation.Purpose.REPORT and evaluation.is_greedy
    return is_reported and one.place < MOST_READ and one.number == 0


def grade_answered(wanted: "WantedTry", answered: "Answered") -> ItemTry:
    """The row of a try that was answered, which is not saved."""
    draft = answered.draft
    row = grade_try(open_row(wanted), wanted.item, wanted.asked.item_set.world, draft, answered.found)
    if answered.kept is not None:
        answered.kept.put_into(row)
    if row.traits is not None:
        row.traits |= {"base_nats": answered.base_nats}
        if _is_read(wanted):
            row.answer = clean_text(draft.answer or draft.text)
    return row


def open_row(wanted: "WantedTry") -> ItemTry:
    """The row of a try of which nothing is known yet."""
    return ItemTry(
        place=wanted.place,
        number=wanted.number,
        key=wanted.asked.item_set.keys[wanted.place],
        weight=wanted.item.weight,
        category=wanted.item.category,
    )
