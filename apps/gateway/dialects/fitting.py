"""What a translated request says beyond plain chat, and which servers are told it. Pure."""

from apps.gateway.dialects.protocol import Body, Json
from apps.gateway.dialects.systems import INSTRUCTIONS

_EXTRAS = frozenset(
    {
        "add_generation_prompt",
        "continue_final_message",
        "dropped_items",
        "dropped_tools",
        "prompt_cache_key",
        "safety_identifier",
        "store",
        "top_k",
        "verbosity",
    }
)
_OPENAI = frozenset({"prompt_cache_key", "safety_identifier", "verbosity"})
_KEEPS = {
    "engine": frozenset({"top_k"}),
    "vllm": _EXTRAS - _OPENAI - {"dropped_items", "dropped_tools", "store"},
    "openai": _OPENAI,
    "custom": _OPENAI | {"top_k"},
    **dict.fromkeys(("anthropic", "fireworks", "openrouter", "together"), frozenset({"top_k"})),
}
"""By kind of server; a kind that is not here is told plain chat."""


def fit_server(chat: Body, *, kind: str, reasoning_field: str, keeps_signed: bool = False) -> Json:
    """A chat request as a server takes it; `chat` itself, which is what is recorded, is left alone.

    Args:
        chat: what `Dialect.to_chat` made. A caller of chat completions knows its server, and is not corrected.
        kind: of the server, as the registry names it.
        reasoning_field: what the server calls the thoughts in a message; "": it does not take any back.
        keeps_signed: the server takes back the thoughts it signed.
    """
    dropped = _EXTRAS - _KEEPS.get(kind, frozenset())
    fitted = {key: value for key, value in chat.items() if key not in dropped}
    fitted["messages"] = [_fit_message(message, reasoning_field, keeps_signed) for message in chat["messages"]]
    return fitted


def _fit_message(message: Body, reasoning_field: str, keeps_signed: bool) -> Json:
    fitted = dict(message)
    if not keeps_signed:
        fitted.pop("thinking_blocks", None)
    if fitted["role"] == "system" and str(fitted.get("name") or "").startswith(INSTRUCTIONS):
        del fitted["name"]
    thoughts = fitted.pop("reasoning_content", None)
    if thoughts and reasoning_field:
        fitted[reasoning_field] = thoughts
    return fitted
