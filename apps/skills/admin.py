"""What workers can look up."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.skills.models import Skill


@admin.register(Skill)
class SkillAdmin(ReadOnlyAdmin):
    list_display = ["name", "version", "project", "is_active", "created_at"]
    list_filter = ["project", "is_active"]
    search_fields = ["name"]
    list_select_related = ["project"]
