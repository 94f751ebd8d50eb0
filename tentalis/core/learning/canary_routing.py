"""Which tasks and requests go to a canary, and which to a shadow: a share of them, told by a hash of what they are."""

import hashlib

from tentalis.core.field_limits import MAX_TRIED_PERCENT


def is_canary(key: str, *, percent: int) -> bool:
    """Whether a piece of work goes to the canary: always the same for the same key, `percent` of all keys.

    Args:
        key: names the canary and the piece of work.
        percent: in [0, 50].
    """
    if not 0 <= percent <= MAX_TRIED_PERCENT:
        raise ValueError(f"percent must lie in 0..{MAX_TRIED_PERCENT}, found {percent}")
    digest = hashlib.sha256(key.encode()).digest()
    return int.from_bytes(digest[:8]) % 10_000 < percent * 100
