"""Whom our httpx clients believe over TLS: the authorities of certifi.

Read once a process, for that takes 20 ms of CPU: what it makes may serve many clients and threads.
"""

import ssl
import threading
from functools import cache

import httpx

_reading = threading.Lock()


def trust_authorities() -> ssl.SSLContext:
    """Certificates are checked, and that they are of the host; no variable of the environment adds an authority."""
    with _reading:  # threads that begin together would each read them
        return _read_authorities()


@cache
def _read_authorities() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)
