"""Keep what a chat template was given besides the messages, beside the tokens, to render a conversation again."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

RENDERED_WITH = (
    "tools",
    "tool_choice",
    "documents",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "reasoning_effort",
)
"""Fields of a chat request that a model's template reads, or that decide how it is read."""
SERVED_AT = "served_at"


def describe_rendering(request: Mapping[str, Any], served_at: datetime | None) -> dict[str, Any]:
    """A request's part in its rendered prompt, and when that was made: templates write tools, switches and the date.

    Args:
        served_at: aware.
    """
    told = {name: request[name] for name in RENDERED_WITH if request.get(name) is not None}
    return told if served_at is None else told | {SERVED_AT: served_at.astimezone(UTC).isoformat()}


def read_served_at(rendering: Mapping[str, Any]) -> datetime | None:
    """When it was rendered; None where nobody said, or not readably."""
    try:
        found = datetime.fromisoformat(str(rendering.get(SERVED_AT) or ""))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
