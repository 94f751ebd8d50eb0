"""What is asked beside an agent's own work (judges, AI managers, drawing hints) is paid for too, and so is kept.

`with charge(project=…, task_id=…, turn="judge"):` counts every call of the clients that are opened inside, in whatever
thread they are used, and stores the calls when it ends: one exchange each, of figures alone.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from django.utils import timezone

from apps.accounts.models import Project
from apps.base.inserting import insert
from apps.inference.models import Exchange
from apps.inference.prices import load_prices
from tentalis.core.token_use import TokenUse


class CallUse(NamedTuple):
    """One answered call. `provider_id` None: the installation's own model server."""

    provider_id: int | None
    kind: str
    model: str
    served_by: str
    use: TokenUse
    elapsed_s: float


@dataclass
class Meter:
    """Counts calls; many threads may."""

    calls: list[CallUse] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, call: CallUse) -> None:
        with self._lock:
            self.calls.append(call)


_running: ContextVar[Meter | None] = ContextVar("tentalis_meter", default=None)


def find_meter() -> Meter | None:
    """The meter of the `charge` that runs in this thread."""
    return _running.get()


@contextmanager
def charge(*, project: Project, turn: str, task_id: int | None = None, adapter_name: str = "") -> Iterator[Meter]:
    """Keep what the calls made inside cost, also where they end in an error.

    Args:
        turn: judge, manager, hint or shadow: what they were made for.
        adapter_name: for which adapter; "" for none in particular.
    """
    meter = Meter()
    token = _running.set(meter)
    try:
        yield meter
    finally:
        _running.reset(token)
        _store(meter.calls, project=project, turn=turn, task_id=task_id, adapter_name=adapter_name)


def _store(calls: list[CallUse], *, project: Project, turn: str, task_id: int | None, adapter_name: str) -> None:
    if not calls:
        return
    prices, now = load_prices(), timezone.now()
    rows = []
    for call in calls:
        rates = prices.find(provider_id=call.provider_id, kind=call.kind, model=call.model, at=now)
        rows.append(
            Exchange(
                project=project,
                provider_id=call.provider_id,
                turn=turn,
                api="chat",
                task_id=task_id,
                adapter_name=adapter_name,
                model=call.model,
                prompt_tokens=call.use.prompt,
                completion_tokens=call.use.completion,
                cached_tokens=call.use.cached,
                cost_usd=rates and rates.cost(**call.use._asdict()),
                latency_ms=call.elapsed_s * 1000,
            )
        )
    insert(rows)
