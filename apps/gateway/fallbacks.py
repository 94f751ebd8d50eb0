"""Who is asked in a worker's place where its own model cannot be had: its fallbacks in turn, those at rest last."""

from collections import deque

from apps.gateway.dialects import BadRequestError
from apps.gateway.errors import RefusalError
from apps.gateway.routing import Route
from apps.inference.breaker import Breaker
from apps.inference.errors import ServerRestsError

BUSY_REST_S = 5.0
"""After a 429 that does not say for how long."""
_OF_THE_SERVER = frozenset({402, 408, 429})
"""Statuses that another server may not answer with, beside those from 500 on; the others are the request's fault."""


class Fallbacks:
    """One request's way through a worker's own model and its fallbacks.

    Args:
        breaker: of the edge. project: of the caller. route: to the worker's own model.

    Attributes:
        name: of the model whose turn it is: the worker's for its own, then as the fallback is written.
    """

    def __init__(self, breaker: Breaker, project: int, route: Route) -> None:
        self.name = route.worker
        self._worker = route.worker
        self._breaker = breaker
        self._project = project
        self._waiting = deque((route.worker, *route.fallbacks))
        self._resting: deque[str] = deque()
        self._refusals: list[tuple[str, RefusalError]] = []
        self._asked = ""

    @property
    def has_more(self) -> bool:
        """Whether somebody is left to ask after whose turn it is."""
        return bool(self._waiting or self._resting)

    @property
    def reason(self) -> str:
        """Why a fallback is asked, in words; "" while it is the worker's own model."""
        if self.name == self._worker:
            return ""
        return "; ".join(f"{name}: {refusal}" for name, refusal in self._refusals if name != self.name)

    @property
    def refusal(self) -> RefusalError:
        """What the caller is told where nobody answered: the first's refusal, and what the others said."""
        first = self._refusals[0][1]
        others = [f"{name}: {refusal}" for name, refusal in self._refusals[1:] if str(refusal) != str(first)]
        waits = [refusal.retry_after_s for _, refusal in self._refusals if refusal.retry_after_s is not None]
        return RefusalError(
            "; ".join([str(first), *others]),
            status=first.status,
            code=first.code,
            param=first.param,
            retry_after_s=min(waits, default=None),
            is_recorded=first.is_recorded,
        )

    def turn(self) -> bool:
        """Let the next one have its turn; False where nobody is left."""
        if not self.has_more:
            return False
        self.name = (self._waiting or self._resting).popleft()
        return True

    def begin(self, route: Route) -> bool:
        """Whether it is asked now: who is left alone for a while waits until all others were asked.

        Args:
            route: to whose turn it is.
        """
        key = route.backend.name if route.is_managed else f"{route.backend.name}/{route.served.name}"
        if not any(name == self.name for name, _ in self._refusals):
            try:
                self._breaker.require(self._project, key, timeout_s=route.backend.timeout_s)
            except ServerRestsError as error:
                self._resting.append(self.name)
                self.pass_over(RefusalError(str(error), status=503, code="upstream_down", retry_after_s=error.wait_s))
                return False
        self._asked = key
        return True

    def pass_over(self, error: RefusalError | BadRequestError) -> None:
        """It was not asked, or its answer says nothing of how it is: the next one is asked."""
        self.close()
        if isinstance(error, BadRequestError):
            error = RefusalError(str(error), status=error.status, code=error.code, param=error.param)
        self._refusals.append((self.name, error))

    def note_refusal(self, error: RefusalError) -> None:
        """It was asked and did not answer. Raises the refusal where that is the request's own fault."""
        asked, self._asked = self._asked, ""
        if error.status < 500 and error.status not in _OF_THE_SERVER:
            self._breaker.note_answer(self._project, asked)
            if self.name == self._worker:
                raise error
        elif error.status == 429:
            self._breaker.note_busy(self._project, asked, rest_s=max(BUSY_REST_S, error.retry_after_s or 0.0))
        else:
            self._breaker.note_silence(self._project, asked)
        self._refusals.append((self.name, error))

    def note_answer(self) -> None:
        self._breaker.note_answer(self._project, self._asked)
        self._asked = ""

    def close(self) -> None:
        """Nothing more is learnt of whom was asked: the caller went away."""
        if self._asked:
            self._breaker.note_unknown(self._project, self._asked)
            self._asked = ""
