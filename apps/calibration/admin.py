"""How far each rater is trusted, and what that rests on."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.calibration.models import Comparison, Rater


@admin.register(Rater)
class RaterAdmin(ReadOnlyAdmin):
    list_display = [
        "handle",
        "project",
        "kind",
        "weight",
        "bad",
        "false_approvals",
        "good",
        "false_rejections",
        "drifted_at",
        "quarantined_at",
    ]
    list_filter = ["kind", "project"]
    list_select_related = ["project"]
    search_fields = ["handle"]


@admin.register(Comparison)
class ComparisonAdmin(ReadOnlyAdmin):
    list_display = ["id", "rater", "attempt", "step", "said", "truth", "source", "against", "counts", "at"]
    list_select_related = ["rater", "attempt", "step"]
    search_fields = ["=attempt__id", "=rater__handle"]
