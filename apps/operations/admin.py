"""What is and was wrong with the installation."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.operations.models import Alarm


@admin.register(Alarm)
class AlarmAdmin(ReadOnlyAdmin):
    list_display = ["rule", "words", "state", "created_at", "closed_at"]
    list_filter = ["state", "rule"]
    ordering = ["-state", "-id"]
