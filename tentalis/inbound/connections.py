"""How many connections each address has open, in one process."""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

V6_PREFIX = 64
"""Bits of an IPv6 address that one customer has all addresses behind."""


class Connections:
    """Counts them.

    Args:
        most: from one address; an IPv6 network of 64 bits is one.
        proxies: addresses and networks that are not counted: everybody comes from there.
    """

    def __init__(self, most: int, proxies: Iterable[str] = ()) -> None:
        self._most = most
        self._proxies = [ip_network(proxy) for proxy in proxies]
        self._open: Counter[str] = Counter()
        self._name = lru_cache(maxsize=4096)(self._find_name)

    def take(self, address: str | None) -> bool:
        """Count one more; False where that would be too many, and nothing is counted. A socket without one is free."""
        name = self._name(address) if address else ""
        if not name:
            return True
        if self._open[name] >= self._most:
            return False
        self._open[name] += 1
        return True

    def give_back(self, address: str | None) -> None:
        """One that was taken has ended."""
        name = self._name(address) if address else ""
        if not name:
            return
        self._open[name] -= 1
        if self._open[name] <= 0:
            del self._open[name]

    def _find_name(self, address: str) -> str:
        """What it is counted as; "" for what is not counted."""
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return ""
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        if any(found in network for network in self._proxies):
            return ""
        if isinstance(found, IPv6Address):
            return str(ip_network((found, V6_PREFIX), strict=False))
        return str(found)
