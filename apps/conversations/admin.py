"""Conversations cut into turns, what each showed, and that somebody was forgotten."""

from django.contrib import admin

from apps.base.admin import ReadOnlyAdmin
from apps.conversations.models import Conversation, Forgetting, Turn, TurnExchange, TurnSignal


@admin.register(Conversation)
class ConversationAdmin(ReadOnlyAdmin):
    list_display = ["session", "seen_at", "created_at"]
    search_fields = ["=session__id"]
    list_select_related = ["session"]


@admin.register(Turn)
class TurnAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "session", "number", "state", "closed_by", "task", "reason"]
    list_filter = ["state", "closed_by", "project"]
    search_fields = ["=id", "=session__id", "=task__id"]
    list_select_related = ["project", "session", "task"]


@admin.register(TurnExchange)
class TurnExchangeAdmin(ReadOnlyAdmin):
    list_display = ["exchange", "turn", "is_part"]
    search_fields = ["=exchange__id", "=turn__id"]
    list_select_related = ["exchange", "turn"]


@admin.register(TurnSignal)
class TurnSignalAdmin(ReadOnlyAdmin):
    list_display = ["id", "turn", "kind", "source", "score", "trust", "step", "feedback"]
    list_filter = ["kind", "source"]
    search_fields = ["=id", "=turn__id"]
    list_select_related = ["turn", "feedback"]


@admin.register(Forgetting)
class ForgettingAdmin(ReadOnlyAdmin):
    list_display = ["id", "project", "what", "by", "files", "created_at"]
    list_filter = ["what", "project"]
    list_select_related = ["project"]
