"""A sign of life while something long runs: the latest metrics, sent at a steady pace from a thread."""

import logging
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

logger = logging.getLogger(__name__)

Metrics = Mapping[str, float]


class Heartbeat:
    """Call `send` with the latest metrics at once, then every `interval_s` until the block ends.

    A beat that cannot be sent is logged and forgotten: the next one says the same and more.
    """

    def __init__(self, send: Callable[[Metrics], None], *, interval_s: float = 2.0) -> None:
        self._send = send
        self._interval_s = interval_s
        self._latest: Metrics = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def note(self, metrics: Metrics) -> None:
        """What the next beat will say."""
        self._latest = dict(metrics)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(timeout=self._interval_s + 5)

    def _beat(self) -> None:
        while True:
            try:
                self._send(self._latest)
            except Exception:
                logger.warning("a heartbeat could not be sent", exc_info=True)
            if self._ended.wait(self._interval_s):
                return
