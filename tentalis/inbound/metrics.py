"""Who may read a process's figures: they tell how much everybody asks, and when."""

import hmac
from collections.abc import Mapping
from ipaddress import ip_address

METRICS_READERS = "who has the token of the setting METRICS_TOKEN or, where that is not set, asks from this machine"
FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-IP")


def may_read_metrics(*, address: str, headers: Mapping[str, str], token: str) -> bool:
    """Whether a request may.

    Args:
        address: it came from. headers: its own, names in any case.
        token: that gives the right; "" leaves it to this machine, and not to whom a proxy on it asks for.
    """
    if token:
        given = headers.get("Authorization") or ""
        return hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {token}".encode())
    try:
        is_here = ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
    return is_here and not any(headers.get(name) for name in FORWARDED)
