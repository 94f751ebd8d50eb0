"""How pages show tokens, and what calls were like."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django import template
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.console.rendering.tokens import BUCKETS, Bucket, render_tokens, say_probability
from apps.console.selectors.evaluation_tries import TurnTokens
from apps.console.selectors.exchange import ExchangeView
from apps.console.templatetags.operations import amount
from apps.inference.models import Exchange

register = template.Library()

SMALL_USD = Decimal("0.001")
FINISHED = {
    "stop": gettext_lazy("complete"),
    "end_turn": gettext_lazy("complete"),
    "length": gettext_lazy("length limit"),
    "max_tokens": gettext_lazy("length limit"),
    "tool_calls": gettext_lazy("tool call"),
    "tool_use": gettext_lazy("tool call"),
    "content_filter": gettext_lazy("content filter"),
    "stop_sequence": gettext_lazy("stop sequence"),
}
PURPOSES = {
    "main": gettext_lazy("the agent's answer"),
    "side": gettext_lazy("side call"),
    "judge": gettext_lazy("a judge"),
    "manager": gettext_lazy("an AI manager"),
    "hint": gettext_lazy("a hint"),
    "shadow": gettext_lazy("a shadow test"),
    "eval": gettext_lazy("a try of an evaluation"),
}
APIS = {
    "chat": "Chat Completions",
    "completions": "Completions",
    "responses": "Responses",
    "messages": "Messages (Anthropic)",
    "otlp": "OpenTelemetry",
}


@register.simple_tag
def answer_tokens(view: ExchangeView) -> SafeString:
    """The answer, token by token."""
    marks = {place: _("step %(number)s") % {"number": number} for place, number in view.steps.items()}
    return render_tokens(view.token_ids, texts=view.words, logprobs=view.logprobs, sampled=view.sampled, marks=marks)


@register.simple_tag
def turn_tokens(turn: TurnTokens) -> SafeString:
    """What the model wrote in one turn of a try, token by token."""
    return render_tokens(turn.token_ids, texts=turn.words, logprobs=turn.logprobs)


@register.simple_tag
def prompt_tokens(view: ExchangeView, part: str) -> SafeString:
    """The prompt's tokens: the `shared` ones, which stand in the call before, or the `new` ones behind."""
    cut = view.exchange.shared_tokens
    where = slice(None, cut) if part == "shared" else slice(cut, None)
    return render_tokens(view.prompt_token_ids[where], texts=view.prompt_words[where] if view.prompt_words else None)


@register.simple_tag
def token_buckets() -> Sequence[Bucket]:
    """The legend."""
    return BUCKETS


@register.filter
def probability(logprob: float) -> str:
    return say_probability(logprob)


@register.filter
def finished(reason: str) -> str:
    """Why an answer ended."""
    return str(FINISHED.get(reason, reason))


@register.filter
def dialect(api: str) -> str:
    """The API that a caller spoke."""
    return APIS.get(api, api)


@register.filter
def purpose(turn: str) -> str:
    """What a call was made for."""
    return str(PURPOSES.get(turn, turn))


@register.filter
def usd(value: Decimal | float | None) -> str:
    """US dollars with as many digits as say something; a dash where no price was known."""
    if value is None:
        return "–"
    if value == 0:
        return "$0"
    if value >= 1:
        return f"${value:,.2f}"
    return f"${value:.3g}" if value >= SMALL_USD else f"${value:.6f}".rstrip("0")


@register.filter
def say_limits(limits: Mapping[str, Any]) -> str:
    """Limits in a sentence; "" for none."""
    said = {
        "requests_per_minute": _("%(n)s requests a minute"),
        "tokens_per_minute": _("%(n)s tokens a minute"),
        "tokens_per_day": _("%(n)s tokens a day"),
    }
    parts = [words % {"n": amount(limits[name])} for name, words in said.items() if limits.get(name)]
    if most := limits.get("usd_per_day"):
        parts.append(_("%(usd)s a day") % {"usd": usd(most)})
    if most := limits.get("usd_per_month"):
        parts.append(_("%(usd)s a month") % {"usd": usd(most)})
    return ", ".join(parts)


@register.filter
def call_marks(exchange: Exchange) -> list[tuple[str, str | Promise, str]]:
    """(look, word, why) of what one should know of a call."""
    found: list[tuple[str, str | Promise, Any]] = []
    if exchange.has_failed:
        found.append(("failed", _("Error %(status)s") % {"status": exchange.status}, exchange.error[:200]))
    elif exchange.error:
        found.append(("inconclusive", _("Tokens not exact"), exchange.error[:200]))
    if exchange.is_truncated:
        found.append(("inconclusive", _("Cut off"), _("The server or the caller went away before the end.")))
    if exchange.is_mixed:
        found.append(
            (
                "inconclusive",
                _("Mixed"),
                _("Another adapter served at its end than at its start; nothing learns from it."),
            )
        )
    if exchange.fallback_reason:
        found.append(("inconclusive", _("Fallback"), exchange.fallback_reason[:500]))
    if exchange.deleted_at:
        found.append(("inconclusive", _("Deleted"), _("Its agent deleted the answer; nothing learns from it.")))
    if exchange.turn == "side":
        found.append(("queued", _("Beside"), _("The agent asked for itself, not for its user.")))
    elif exchange.turn != "main":
        found.append(("queued", purpose(exchange.turn), ""))
    if exchange.is_streamed:
        found.append(("queued", _("Streamed"), ""))
    return found
