"""Prices the product is shipped with. A person's price for a model always goes before these.

In US dollars a million tokens, read on the vendors' own pages as stored in November 2026, and for vendors whose page
could not be read: nothing, rather than a guess. Batch, priority and long-prompt rates are left out, and so is what is
paid for writing a cache. Prices change: `tentalis model prices` shows what counts, `--set` says otherwise.
"""

from decimal import Decimal
from typing import NamedTuple

AS_OF = "2026-11"
_ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/pricing"
_DEEPSEEK = "https://api-docs.deepseek.com/quick_start/pricing (peak hours; half of it off peak)"


class ShippedPrice(NamedTuple):
    """Of a kind's models whose name is `model`, or begins with what stands before its *."""

    kind: str
    model: str
    input: Decimal
    cached_input: Decimal | None
    output: Decimal
    source: str


def _row(kind: str, model: str, prices: str, source: str) -> ShippedPrice:
    read, cached, made = prices.split()
    return ShippedPrice(kind, model, Decimal(read), Decimal(cached), Decimal(made), source)


SHIPPED = [
    _row("anthropic", "claude-opus-4-8*", "5 0.50 25", _ANTHROPIC),
    _row("anthropic", "claude-opus-4-7*", "5 0.50 25", _ANTHROPIC),
    _row("anthropic", "claude-opus-4-6*", "5 0.50 25", _ANTHROPIC),
    _row("anthropic", "claude-opus-4-5*", "5 0.50 25", _ANTHROPIC),
    _row("anthropic", "claude-opus-4-1*", "15 1.50 75", _ANTHROPIC),
    _row("anthropic", "claude-sonnet-4-6*", "3 0.30 15", _ANTHROPIC),
    _row("anthropic", "claude-sonnet-4-5*", "3 0.30 15", _ANTHROPIC),
    _row("anthropic", "claude-haiku-4-5*", "1 0.10 5", _ANTHROPIC),
    _row("deepseek", "deepseek-flash", "0.30 0.006 1.20", _DEEPSEEK),
    _row("deepseek", "deepseek-v4-pro", "1.32 0.044 3.96", _DEEPSEEK),
]
