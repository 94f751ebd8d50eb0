"""Reviews, feedback and hints: what other apps may call."""

from apps.feedback.appeals import find_contradiction, has_judge, open_appeal
from apps.feedback.bulk import Chunk, cancel_bulk, judge_chunk, start_bulk
from apps.feedback.claims import (
    assign_review,
    claim,
    claim_review,
    release_review,
    renew_claim,
    set_due,
    snooze_review,
)
from apps.feedback.create_reviews import open_reviews, reviews_ask_models
from apps.feedback.drafts import find_draft, save_draft
from apps.feedback.expiry import expire_reviews, expire_reviews_of
from apps.feedback.finalizing import find_undo_until, settle_feedback
from apps.feedback.gold import add_gold, find_expected, list_gold, remove_gold, with_gold_counts
from apps.feedback.hints import NOTHING, Drawn, extract_hints, hints_ask_models, needs_model, preview_hint
from apps.feedback.judgement import JudgementFields, JudgementInput, StepRating, read_judgement
from apps.feedback.queue import QueueFilter, count_queue
from apps.feedback.rules import validate_review_policy
from apps.feedback.skip import skip_review
from apps.feedback.submit import give_feedback, give_task_feedback, note_signal
from apps.feedback.unbulk import begin_undo as begin_undo_bulk
from apps.feedback.unbulk import end_undo as end_undo_bulk
from apps.feedback.unbulk import find_undoing, note_undone, undo_many
from apps.feedback.undo import retract_feedback, undo_feedback

__all__ = [
    "NOTHING",
    "Chunk",
    "Drawn",
    "JudgementFields",
    "JudgementInput",
    "QueueFilter",
    "StepRating",
    "add_gold",
    "assign_review",
    "begin_undo_bulk",
    "cancel_bulk",
    "claim",
    "claim_review",
    "count_queue",
    "end_undo_bulk",
    "expire_reviews",
    "expire_reviews_of",
    "extract_hints",
    "find_contradiction",
    "find_draft",
    "find_expected",
    "find_undo_until",
    "find_undoing",
    "give_feedback",
    "give_task_feedback",
    "has_judge",
    "hints_ask_models",
    "judge_chunk",
    "list_gold",
    "needs_model",
    "note_signal",
    "note_undone",
    "open_appeal",
    "open_reviews",
    "preview_hint",
    "read_judgement",
    "release_review",
    "remove_gold",
    "renew_claim",
    "retract_feedback",
    "reviews_ask_models",
    "save_draft",
    "set_due",
    "settle_feedback",
    "skip_review",
    "snooze_review",
    "start_bulk",
    "undo_feedback",
    "undo_many",
    "validate_review_policy",
    "with_gold_counts",
]
