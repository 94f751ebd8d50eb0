"""What queue processes keep from message to message."""

import subprocess
import sys

from kombu.transport.redis import Channel

from tentalis.celery import app

SETTLED = """
import gc
from apps.base.garbage import YOUNG, settle_garbage
settle_garbage()
kept, young, *rest = gc.get_freeze_count(), *gc.get_threshold()
assert kept > 1000 and young == YOUNG and rest == [10, 10], (kept, young, rest)
"""


def test_a_channel_sends_by_one_client_until_its_connections_are_new() -> None:
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        assert isinstance(channel, Channel)
        with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
            assert first is second
            assert first.ping()
        channel._disconnect_pools()  # type: ignore[attr-defined]
        with channel.conn_or_acquire() as third:
            assert third is not first
            assert third.ping()


def test_what_is_loaded_at_the_start_is_searched_no_more() -> None:
    subprocess.run([sys.executable, "-c", SETTLED], check=True, timeout=60)
