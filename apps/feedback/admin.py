"""What managers said."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
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


@admin.register(Review)
class ReviewAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "project",
        "task",
        "audience",
        "purpose",
        "state",
        "priority",
        "claimed_by",
        "due_at",
        "closed_at",
    ]
    list_filter = ["state", "audience", "purpose", "project"]
    search_fields = ["=task__id"]
    list_select_related = ["project", "task", "claimed_by"]


@admin.register(Feedback)
class FeedbackAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "task", "source", "author", "score", "trust", "created_at"]
    list_filter = ["source", "project"]
    search_fields = ["=task__id", "=author"]
    list_select_related = ["project", "task"]


@admin.register(StepFeedback)
class StepFeedbackAdmin(ReadOnlyAdmin):
    list_display = ["id", "feedback", "attempt", "step", "score"]
    search_fields = ["=attempt__id"]
    list_select_related = ["feedback", "attempt", "step"]


@admin.register(Hint)
class HintAdmin(ReadOnlyAdmin):
    list_display = ["id", "task", "feedback", "source", "created_at"]
    search_fields = ["=task__id"]
    list_select_related = ["task", "feedback"]


@admin.register(ReviewSkip)
class ReviewSkipAdmin(ReadOnlyAdmin):
    list_display = ["id", "review", "user", "then", "reason", "created_at"]
    list_filter = ["then"]
    search_fields = ["=review__id"]
    list_select_related = ["review", "user"]


@admin.register(ReviewDraft)
class ReviewDraftAdmin(ReadOnlyAdmin):
    list_display = ["id", "review", "user", "version", "updated_at"]
    search_fields = ["=review__id"]
    list_select_related = ["review", "user"]


@admin.register(BulkJudgement)
class BulkJudgementAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "by", "state", "done", "total", "created_at"]
    list_filter = ["state", "project"]
    list_select_related = ["project", "by"]


@admin.register(RowImport)
class RowImportAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "by", "kind", "file", "state", "done", "total"]
    list_filter = ["state", "kind", "project"]
    search_fields = ["file", "sha256"]
    list_select_related = ["project", "by"]


@admin.register(GoldItem)
class GoldItemAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "task", "truth", "added_by", "created_at", "removed_at"]
    list_filter = ["truth", "project"]
    search_fields = ["=task__id"]
    list_select_related = ["project", "task", "added_by"]
