"""Where a gateway listens."""

import socket


def bind(host: str, port: int, *, is_shared: bool = False) -> list[socket.socket]:
    """A socket at each address of a host.

    Args:
        port: 0: any, the same for all of them. is_shared: other sockets of this user may be bound there too, and the
            kernel spreads connections over them.
    Raises:
        OSError: one cannot be bound.
    """
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            each = socket.socket(family, kind, protocol)
            bound.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if is_shared:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind((address[0], port or bound[0].getsockname()[1], *address[2:]))
    except BaseException:
        for each in bound:
            each.close()
        raise
    return bound
