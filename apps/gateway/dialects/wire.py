"""Server-sent events and JSON, as bytes."""

from collections.abc import Mapping
from typing import Any

import orjson

PING = b": ping\n\n"
"""A comment: every reader of server-sent events skips it."""
DONE = b"data: [DONE]\n\n"


def dump_data(data: Mapping[str, Any]) -> bytes:
    """An event without a name, as OpenAI's chat streams."""
    return b"data: " + orjson.dumps(data) + b"\n\n"


def dump_event(data: Mapping[str, Any]) -> bytes:
    """An event named for its `type`."""
    return b"event: " + str(data["type"]).encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"
