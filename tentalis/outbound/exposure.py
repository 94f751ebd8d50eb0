"""Whether a server's address is one that only its own network reaches."""

import socket
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from tentalis.outbound.addresses import is_allowed

VLLM_IS_OPEN = (
    "vLLM's key guards /v1 alone: whoever reaches this address may load adapters by /adapters and read /metrics. "
    "Bind it to loopback or a private network, behind the gateway"
)
Resolve = Callable[[str, int], Iterable[Any]]


def _ask_system(host: str, port: int) -> Iterable[Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def warn_of_exposure(kind: str, url: str, *, resolve: Resolve = _ask_system) -> str:
    """What a person should know of a model server's address, in words; "" where there is nothing to say.

    Args:
        kind: of the registry. resolve: as `socket.getaddrinfo`.
    """
    if kind != "vllm":
        return ""
    parts = urlsplit(url)
    try:
        found = {str(entry[4][0]) for entry in resolve(parts.hostname or "", parts.port or 80)}
    except OSError:
        return ""  # who asks it will hear of that
    public = sorted(one for one in found if is_allowed(ip_address(one.partition("%")[0]), allow_private=False))
    return f"{parts.hostname} is a public address ({', '.join(public[:3])}). {VLLM_IS_OPEN}." if public else ""
