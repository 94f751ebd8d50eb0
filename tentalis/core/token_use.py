"""How many tokens a call used, as its server counts them."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class TokenUse(NamedTuple):
    """Counts of one call; each 0 where the server does not tell.

    Attributes:
        prompt: all tokens of the prompt, those out of the server's cache included.
        completion: reasoning included.
        cached: of the prompt's, those the server had in its cache.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0

    def __add__(self, other: object) -> "TokenUse":
        if not isinstance(other, TokenUse):
            return NotImplemented
        return TokenUse(*(mine + its for mine, its in zip(self, other, strict=True)))


NOTHING_USED = TokenUse()
_BYTES_A_TOKEN = 4


def guess_prompt_tokens(size: int) -> int:
    """Near enough how many tokens a request of so many bytes asks with: holds a budget's room until its answer says."""
    return 1 + size // _BYTES_A_TOKEN


def read_token_use(usage: Any) -> TokenUse:
    """From the `usage` of an answer in OpenAI's or Anthropic's form; anything else counts nothing.

    Anthropic's `input_tokens` leaves out what came from the cache or was written to it; here all of it is prompt.
    """
    if not isinstance(usage, Mapping):
        return TokenUse()
    if "input_tokens" in usage and "prompt_tokens" not in usage:
        cached = _count(usage.get("cache_read_input_tokens"))
        prompt = _count(usage.get("input_tokens")) + _count(usage.get("cache_creation_input_tokens")) + cached
        return TokenUse(prompt, _count(usage.get("output_tokens")), cached)
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, Mapping) else 0
    cached = cached or _count(usage.get("prompt_cache_hit_tokens"))  # DeepSeek
    return TokenUse(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), cached)


def share_token_use(use: TokenUse, parts: int) -> list[TokenUse]:
    """One call's tokens over its answers: the prompt, which is paid once, on the first; the rest evenly."""
    each, left = divmod(use.completion, parts)
    shares = [TokenUse(0, each + (index < left)) for index in range(parts)]
    return [shares[0] + TokenUse(use.prompt, 0, use.cached), *shares[1:]]


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
