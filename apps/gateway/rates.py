"""What requests cost, by prices that are read again now and then. For the writer's thread."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from django.db import Error, close_old_connections

from apps.gateway.record import Header
from apps.inference.prices import PriceTable, Rates, load_prices

RENEW_S = 30.0


class KnownRates:
    """Finds the price of what a request asked for, at its time; None where none is known."""

    def __init__(self, *, renew_s: float = RENEW_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._renew_s = renew_s
        self._clock = clock
        self._table = PriceTable({}, {})
        self._until_s = float("-inf")

    def __call__(self, header: Header) -> Rates | None:
        if self._clock() >= self._until_s:
            self._renew()
        at = datetime.fromtimestamp(header["at"], UTC)
        provider, kind, model = header["provider"], header["kind"], header["asked"]
        return self._table.find(provider_id=provider, kind=kind, model=model, at=at)

    def _renew(self) -> None:
        """Read them all.

        Raises:
            OSError: the database is away: the writer waits for it, rather than to store exchanges without their cost.
        """
        close_old_connections()
        try:
            self._table = load_prices()
        except Error as error:
            raise OSError(f"prices cannot be read: {error}") from error
        finally:
            close_old_connections()
        self._until_s = self._clock() + self._renew_s
