"""Conversations cut into turns, what each showed, and that somebody was forgotten."""

from apps.base.admin import show
from apps.conversations.models import Conversation, Forgetting, Turn, TurnExchange, TurnSignal

show(Conversation, "session seen_at created_at", search="=session__id")
show(
    Turn,
    "id project session number state closed_by task reason",
    filters="state closed_by project",
    search="=id =session__id =task__id",
)
show(TurnExchange, "exchange turn is_part", search="=exchange__id =turn__id")
show(TurnSignal, "id turn kind source score trust step feedback", filters="kind source", search="=id =turn__id")
show(Forgetting, "id project what by files created_at", filters="what project")
