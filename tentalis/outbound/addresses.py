"""Which addresses may be connected to, and which texts are addresses at all. Pure: nothing is resolved here."""

import errno
import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

MAX_URL_CHARS = 500
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_PLACE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^][:]+)(:[0-9]{1,5})?")
_ENDS_IN_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$")
_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = IPv6Network("2000::/3")
_TUNNELS = (IPv6Network("2002::/16"), IPv6Network("2001::/32"))  # 6to4, Teredo: an IPv4 address inside, long given up
METADATA = frozenset(
    map(
        ip_address,
        ("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
    )
)
"""Where clouds hand credentials to whoever asks: AWS, GCP, Azure, Alibaba, Oracle. Never allowed by anybody."""


NO_PUBLIC_ADDRESS = (
    "{host} has no public address that could be found: is it spelt right? Only an admin may allow a private address"
)
"""Of names that are unknown, and of names that lead inside: who asks is not told which."""


class BlockedAddressError(OSError):
    """The address may not be connected to. An OSError, so that HTTP clients treat it as a connection that failed."""

    def __init__(self, words: str) -> None:
        super().__init__(errno.EACCES, words)
        self.words = words

    def __str__(self) -> str:
        return self.words


class Origin(NamedTuple):
    """Where a key belongs: scheme, host in lower case, port."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def check_url(url: object) -> Origin:
    """The origin of a plain http(s) address.

    What browsers, libc and Python read differently is no plain address: hosts of numbers that are not four decimal
    ones, signs beyond ASCII, zones, users, backslashes, control characters.

    Raises:
        ValueError: what was wanted and what was found.
    """
    if not isinstance(url, str) or len(url) > MAX_URL_CHARS:
        raise ValueError(f"must be a text of at most {MAX_URL_CHARS} characters, found {str(url)[:80]!r}")
    if not url.isascii() or any(not sign.isprintable() or sign in ' \\"<>^`{|}' for sign in url):
        raise ValueError(f"must be plain ASCII (a host in other letters in its xn-- form), found {url[:80]!r}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("must be like http://host:port, found an unreadable host or port") from None
    if "@" in parts.netloc or parts.query or parts.fragment or "?" in url or "#" in url:
        raise ValueError("must be a plain address, with the key in api_key; found a user, query or fragment in it")
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or port == 0:
        raise ValueError(f"must be like http://host:port, found {url[:80]!r}")
    host = parts.hostname.removesuffix(".")
    if not _is_host(parts.hostname, is_bracketed=parts.netloc.startswith("[")) or not _PLACE.fullmatch(parts.netloc):
        raise ValueError(f"must be like http://host:port, with a name or an ordinary IP address; found {url[:80]!r}")
    if any(part in {".", ".."} for part in parts.path.replace("%2e", ".").replace("%2E", ".").split("/")):
        raise ValueError(f"must have a path without dots, found {url[:80]!r}")
    return Origin(parts.scheme, host, port or _DEFAULT_PORTS[parts.scheme])


def require_allowed(address: str, host: str, *, allow_private: bool) -> None:
    """Raises BlockedAddressError where what a host resolved to may not be connected to."""
    try:
        found = ip_address(address)
    except ValueError:
        raise BlockedAddressError(f"{host} leads to {address!r}, which is no IP address") from None
    if not is_allowed(found, allow_private=allow_private):
        if host != address and not allow_private:  # not which: a name would tell what it means inside
            raise BlockedAddressError(NO_PUBLIC_ADDRESS.format(host=host))
        shown = host if host == address else f"{host} leads to {address}, which"
        raise BlockedAddressError(
            f"{shown} is an address that nobody may use here"
            if allow_private
            else f"{shown} is a private address, and only an admin of the installation may allow those"
        )


def refuse_unknown(host: str, *, allow_private: bool) -> None:
    """Say of a name that does not exist what is said of one that leads inside.

    Raises:
        BlockedAddressError: unless private addresses are allowed.
    """
    if not allow_private:
        raise BlockedAddressError(NO_PUBLIC_ADDRESS.format(host=host)) from None


def is_allowed(address: IPv4Address | IPv6Address, *, allow_private: bool) -> bool:
    """Whether an address is public; with `allow_private`, also loopback and private networks.

    Link-local, multicast, reserved and metadata addresses are refused to everybody, and so is an IPv4 address in
    IPv6's clothes that would be refused by itself.
    """
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        if inner := _unwrap(address):
            return is_allowed(inner, allow_private=allow_private)
    if address in METADATA:
        return False
    if address.is_multicast or address.is_unspecified or address.is_link_local:
        return False
    if allow_private and (
        address.is_loopback or (address.is_private and not address.is_reserved) or _is_shared(address)
    ):
        return True
    if isinstance(address, IPv6Address) and (
        address not in _UNICAST or any(address in network for network in _TUNNELS)
    ):
        return False
    return address.is_global and not address.is_reserved


def _unwrap(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that packets to this one really go to: mapped, or through NAT64."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def _is_shared(address: IPv4Address | IPv6Address) -> bool:
    """100.64.0.0/10: carriers' and overlay networks' own space."""
    return isinstance(address, IPv4Address) and int(address) >> 22 == int(IPv4Address("100.64.0.0")) >> 22


def _is_host(host: str, *, is_bracketed: bool) -> bool:
    if is_bracketed:
        try:
            return IPv6Address(host).scope_id is None
        except ValueError:
            return False
    if _ENDS_IN_NUMBER.search(host):
        try:
            return str(IPv4Address(host)) == host
        except ValueError:
            return False
    return len(host) <= 253 and all(_LABEL.fullmatch(label) for label in host.removesuffix(".").split("."))
