"""What can go wrong with a review."""

from typing import TYPE_CHECKING

from apps.base.errors import ConflictError, NotAllowedError

if TYPE_CHECKING:
    from apps.feedback.models import ReviewDraft


class ReviewTakenError(ConflictError):
    """Somebody else has the review open."""

    code = "review_taken"


class NotYourReviewError(NotAllowedError):
    """This user may review in the project, and not this task."""

    code = "not_your_review"


class StaleDraftError(ConflictError):
    """A newer draft stands in the way; `newer` is that one, None where it was removed."""

    code = "stale_draft"

    def __init__(self, message: str, *, newer: "ReviewDraft | None") -> None:
        super().__init__(message)
        self.newer = newer
        self.members = {"newer": {"version": newer.version, "data": newer.data} if newer else None}


class DraftClosedError(ConflictError):
    """The judgement was given; there is nothing left to draft."""

    code = "draft_closed"


class CannotUndoError(ConflictError):
    """It is too late to take the judgement back as if it had not been: it can still be retracted."""

    code = "cannot_undo"


class AskedMeanwhileError(ConflictError):
    """A review that was not there at the first look stands in the way; a second look knows of it."""

    code = "asked_meanwhile"


class CountChangedError(ConflictError):
    """The reviews that match are not those that were confirmed; `found` is how many match now."""

    code = "count_changed"

    def __init__(self, message: str, *, found: int) -> None:
        super().__init__(message)
        self.found = found
        self.members = {"found": found}
