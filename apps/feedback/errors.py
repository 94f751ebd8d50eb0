"""What can go wrong with a review."""

from apps.base.errors import ConflictError, NotAllowedError


class ReviewTakenError(ConflictError):
    """Somebody else has the review open."""

    code = "review_taken"


class NotYourReviewError(NotAllowedError):
    """This user may review in the project, and not this task."""

    code = "not_your_review"
