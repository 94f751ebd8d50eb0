"""Answers kept for keyed requests."""

from apps.api.models import IdempotencyKey
from apps.base.admin import show

show(IdempotencyKey, "id user status location created_at", filters="status")
