"""What an address of a webhook may be. Names are judged again, by what they resolve to, whenever something is sent."""

from ipaddress import ip_address
from typing import Any

from tentalis.outbound.addresses import MAX_URL_CHARS, check_url, is_allowed

LOCAL_NAMES = (".localhost", ".local", ".internal")


def check_address(url: Any, *, allow_private: bool) -> str:
    """What is wrong with an address; "" where nothing is that can be seen without asking the network."""
    if not isinstance(url, str) or not 1 <= len(url) <= MAX_URL_CHARS:
        return f"must be an address of at most {MAX_URL_CHARS} characters, found {str(url)[:80]!r}"
    plain, _, query = url.partition("?")
    if "@" in plain or "#" in url:
        return "must be an address without a user, password or fragment"
    if not query.isascii() or not query.isprintable() or " " in query:
        return "must be plain ASCII, its query too"
    try:
        host = check_url(plain).host
    except ValueError as error:
        return str(error)
    if not allow_private and _is_private(host):
        return f"must be a public address, found {host}; an admin of the installation may allow private ones"
    return ""


def _is_private(host: str) -> bool:
    if host == "localhost" or host.endswith(LOCAL_NAMES):
        return True
    try:
        return not is_allowed(ip_address(host), allow_private=False)
    except ValueError:
        return False
