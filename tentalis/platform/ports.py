"""Ports on this machine: is one taken, and which is free."""

import socket

from tentalis.platform.errors import PortTakenError


def is_free(host: str, port: int) -> bool:
    """True when a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def choose_port(*, host: str, usual: int, was_asked_for: bool, variable: str) -> int:
    """The usual port, or a free one when it is taken and nobody asked for it by name.

    Raises:
        PortTakenError: the person asked for this port.
    """
    if is_free(host, usual):
        return usual
    if was_asked_for:
        raise PortTakenError(f"{variable}: port {usual} on {host} is taken; stop what listens there or choose another")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
