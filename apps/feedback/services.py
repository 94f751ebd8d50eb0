"""Reviews, feedback and hints: what other apps may call."""

from apps.feedback.claims import claim, claim_review, release_review, renew_claim
from apps.feedback.expiry import expire_reviews, expire_reviews_of
from apps.feedback.giving import give_feedback, give_task_feedback, skip_review
from apps.feedback.hints import extract_hint
from apps.feedback.opening import open_review
from apps.feedback.rules import validate_review_policy
from apps.feedback.words import StepWord

__all__ = [
    "StepWord",
    "claim",
    "claim_review",
    "expire_reviews",
    "expire_reviews_of",
    "extract_hint",
    "give_feedback",
    "give_task_feedback",
    "open_review",
    "release_review",
    "renew_claim",
    "skip_review",
    "validate_review_policy",
]
