"""What managers said."""

from apps.base.admin import show
from apps.feedback.models import (
    BulkJudgement,
    Feedback,
    GoldItem,
    Hint,
    Review,
    ReviewDraft,
    ReviewSkip,
    RowImport,
    StepFeedback,
)

show(
    Review,
    "id project task audience purpose state priority claimed_by due_at closed_at",
    filters="state audience purpose project",
    search="=task__id",
)
show(
    Feedback,
    "id project task source author score trust created_at",
    filters="source project",
    search="=task__id =author",
)
show(StepFeedback, "id feedback attempt step score", search="=attempt__id")
show(Hint, "id task feedback source created_at", search="=task__id")
show(ReviewSkip, "id review user then reason created_at", filters="then", search="=review__id")
show(ReviewDraft, "id review user version updated_at", search="=review__id")
show(BulkJudgement, "id project by state done total created_at", filters="state project")
show(RowImport, "id project by kind file state done total", filters="state kind project", search="file sha256")
show(GoldItem, "id project task truth added_by created_at removed_at", filters="truth project", search="=task__id")
