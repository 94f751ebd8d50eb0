"""One model asked on behalf of one caller: pointed at a server, counted, read, and told for the record."""

import time
from typing import NamedTuple

from apps.gateway.asking import guess_usage
from apps.gateway.dialects import ErrorWords
from apps.gateway.dialects.content import Usage
from apps.gateway.edge import Edge
from apps.gateway.errors import RefusalError
from apps.gateway.fetching import Fetch
from apps.gateway.limits import Reservation
from apps.gateway.record import RECORD_VERSION, Header, Record
from apps.gateway.relaying import MALFORMED, NOTHING_USED, UnboundedAnswerError, UnreadableAnswerError
from apps.gateway.request_plan import IncomingRequest
from apps.gateway.routing import Route, name_served
from apps.gateway.tables import Served
from apps.gateway.upstreams import AnswerTooLongError
from tentalis.limits import LIMITS
from tentalis.outbound.http1 import BrokenError

MOST_NAME_CHARS = 300


class CallOutcome(NamedTuple):
    """How a call ended, as it is recorded.

    Args:
        error: in words; "" where it was answered. status: of its answer, in HTTP's numbers.
        is_truncated: the answer broke off.
    """

    error: str = ""
    status: int = 200
    is_truncated: bool = False


class ModelCall:
    """A request put to one model; from each comes one record.

    Args:
        model: the name it is asked for by: the caller's, or that of a member of the ensemble the caller named.
        started: of the request, by the performance counter.

    Attributes:
        fetch: None before it is pointed at a server, and after `close`.
        outcome: its own; None where it is the request's. refusal: why a member of an ensemble gave no answer.
    """

    def __init__(self, edge: Edge, incoming: IncomingRequest, model: str, *, started: float) -> None:
        self._edge = edge
        self._incoming = incoming
        self.model = model
        self._started = started
        self._first_s: float | None = None
        self._ended_s: float | None = None
        self._reservation: Reservation | None = None
        self._is_counted = False
        self._is_charged = False
        self.fetch: Fetch | None = None
        self.outcome: CallOutcome | None = None
        self.refusal: RefusalError | None = None

    def aim(self) -> None:
        """Point it at a server, in the form that this takes. Raises RefusalError or BadRequestError."""
        self.fetch = Fetch(self._edge, self._incoming, self.model, self._admit)

    def close(self) -> None:
        """Let its server and its budgets know that nothing more comes."""
        if self.fetch is not None:
            self.fetch.close()
            self.fetch = None  # it knows this call: the two would keep each other, and all that was said
        if self._reservation is not None:
            self._reservation.release()

    def note_first_byte(self) -> None:
        self._first_s = time.perf_counter() - self._started
        self._edge.metrics.first_byte.note(self._first_s)

    def carry(self, raw: bytes) -> bytes:
        """A whole answer for the caller. Raises RefusalError where it cannot be read."""
        fetch = self.pointed
        relay = fetch.plan.relay
        try:
            return relay.carry(raw)
        except (UnreadableAnswerError, *MALFORMED) as error:
            relay.kept[:] = [] if isinstance(error, UnboundedAnswerError) else [raw[: LIMITS.error_answer_bytes]]
            message = f"{fetch.plan.route.backend.name} gave no answer that can be read: {error}"
            raise RefusalError(message[:2000], status=502, code="upstream_unreadable") from error

    def feed(self, data: bytes) -> bytes:
        """What the caller gets of a piece of a stream; what is wrong with it is the relay's failure."""
        relay = self.pointed.plan.relay
        try:
            return relay.feed(data)
        except (UnboundedAnswerError, *MALFORMED) as error:
            relay.failure = ErrorWords(f"its stream cannot be read: {error}", "", "")
            return b""

    async def read_on(self) -> tuple[bytes, str]:
        """What has come of a stream since, b"" at its end; and why it broke off."""
        try:
            return await self.pointed.read_on(), ""
        except TimeoutError:
            return b"", "the server was silent for too long"
        except BrokenError:
            return b"", "the server went away"
        except AnswerTooLongError as too_long:
            return b"", str(too_long)

    def say_broken(self, trouble: str) -> str:
        """Why a stream is not whole, by its server's name; "" where it is."""
        relay, name = self.pointed.plan.relay, self.pointed.plan.route.backend.name
        if relay.is_whole and not trouble:
            return ""
        words = relay.failure.message if relay.failure is not None else trouble or "the stream broke off"
        return f"{name}: {words}"

    async def ask(self) -> bytes:
        """All that the caller would get of its answer, whole or as events.

        Raises:
            RefusalError: nobody answered, somebody refused, what came is no answer, or a budget is used up.
        """
        fetch = self.pointed
        data = await fetch.start()
        self.note_first_byte()
        if not fetch.plan.question.is_stream:
            out = self.carry(data)
        else:
            relay, parts, trouble = fetch.plan.relay, [], ""
            while data:
                parts.append(self.feed(data))
                if relay.is_done or relay.failure is not None:
                    break
                data, trouble = await self.read_on()
            if words := self.say_broken(trouble):
                raise RefusalError(words, status=502, code="upstream_broke_off")
            out = b"".join([*parts, relay.finish()])
        self.name_served()
        return out

    def name_served(self) -> str:
        """What answered, as a header can say it. Raises RefusalError where none can."""
        fetch = self.pointed
        served = fetch.plan.relay.served or fetch.plan.route.served.name
        if not served.isprintable() or len(served) > MOST_NAME_CHARS:
            message = f"{fetch.plan.route.backend.name} names a model that no header can hold: {served[:80]!r}"
            raise RefusalError(message, status=502, code="upstream_unreadable")
        return served

    def end(self, outcome: CallOutcome) -> None:
        """Note how it ended, and when."""
        self.outcome = outcome
        self._ended_s = time.perf_counter() - self._started

    def refuse(self, error: RefusalError) -> None:
        """Note that it gives no answer, and why."""
        self.refusal = error
        self.end(CallOutcome(str(error), error.status))

    def make_record(self, outcome: CallOutcome, *, choice: int = 0) -> Record:
        """What is kept of it; what was used is counted, whether that can be kept or not.

        Args:
            outcome: the request's. choice: which of the answers to it this gives.
        """
        outcome = self.outcome or outcome
        fetch, kept, answer, is_merged = self.fetch, self._incoming.raw, b"", False
        if fetch is not None:
            relay = fetch.plan.relay
            kept = fetch.plan.kept
            answer, is_merged = (b"".join(relay.kept), False) if outcome.status >= 400 else relay.record()
            if outcome.is_truncated and relay.usage == NOTHING_USED and relay.merger is not None:
                prompt, completion = relay.merger.count_told()  # who leaves early has used it all the same
                relay.usage = NOTHING_USED._replace(prompt=prompt, completion=completion)
            self._charge(fetch)
        header = self.make_header(outcome)
        if is_merged:
            header["is_merged"] = True
        if choice:
            header["choice"] = choice
        return Record(header, kept, answer)

    def make_header(self, outcome: CallOutcome) -> Header:
        incoming, fetch = self._incoming, self.fetch
        caller, place, model = incoming.caller, incoming.place, incoming.model[:200]
        route = fetch.plan.route if fetch is not None else None
        name = fetch.plan.relay.served if fetch is not None else ""
        served = self._find_served(fetch, name) if fetch is not None and name else Served("")
        took_s = time.perf_counter() - self._started if self._ended_s is None else self._ended_s
        header: Header = {
            "v": RECORD_VERSION,
            "id": incoming.id,
            "at": incoming.at,
            "project": caller.project,
            "agent": caller.agent,
            "token": caller.token,
            "session": place.session,
            "end_user": place.end_user,
            "is_done": place.is_done,
            "is_guessed": place.is_guessed,
            "is_named": place.is_named,
            "retry": place.retry,
            "turn": place.turn,
            "task": place.task,
            "attempt": place.attempt,
            "step": place.step,
            "worker": route.worker if route is not None else "",
            "model": model,
            "asked": route.served.name if route is not None else model,
            "served": name,
            "adapter": served.adapter,
            "policy_version": served.version,
            "provider": route.backend.key if route is not None else None,
            "kind": route.backend.kind.kind if route is not None else "",
            "upstream": fetch.endpoint.base_url if fetch is not None and fetch.endpoint is not None else "",
            "api": incoming.dialect.name,
            "form": fetch.plan.question.form if fetch is not None else "chat",
            "is_stream": fetch is not None and fetch.plan.question.is_stream,
            "status": outcome.status,
            "is_truncated": outcome.is_truncated,
            "error": outcome.error,
            "sampling": dict(fetch.plan.question.sampling) if fetch is not None else {},
            "latency_ms": round(1000 * took_s, 3),
            "first_ms": None if self._first_s is None else round(1000 * self._first_s, 3),
        }
        if fetch is not None and fetch.fallback_reason:
            header["fallback"] = fetch.fallback_reason
        return header

    @property
    def pointed(self) -> Fetch:
        """How its server is asked."""
        assert self.fetch is not None, "a call is pointed at a server before it is read"
        return self.fetch

    def _admit(self, route: Route) -> None:
        """Hold room for the call at a route's server; of its caller it is counted once, whoever is asked.

        Raises:
            RefusalError: a budget is used up.
        """
        incoming = self._incoming
        if self._reservation is not None:
            self._reservation.release()
        self._reservation = self._edge.budgets.admit(
            incoming.caller,
            route.backend,
            time.time(),
            guess=lambda: guess_usage(incoming.raw, incoming.body),
            count_usd=lambda usage: self._count_usd(route, usage),
            allowance=route.allowance,
            is_fallback=self._is_counted,
        )
        self._is_counted = True

    def _charge(self, fetch: Fetch) -> None:
        """Count what was used, once, whether the record of it can be kept or not."""
        plan = fetch.plan
        tokens = plan.relay.usage.prompt + plan.relay.usage.completion
        if self._is_charged or not tokens:
            return
        self._is_charged = True
        self._edge.metrics.tokens += tokens
        self._edge.budgets.charge(
            self._incoming.caller,
            plan.route.backend,
            tokens=tokens,
            count_usd=lambda: self._count_usd(plan.route, plan.relay.usage),
            now=time.time(),
            allowance=plan.route.allowance,
        )

    def _count_usd(self, route: Route, usage: Usage) -> float:
        """What so many tokens cost there; 0 where no price is known."""
        rates = self._edge.config.tables.prices.find(
            provider_id=route.backend.key, kind=route.backend.kind.kind, model=route.served.name
        )
        if rates is None:
            return 0.0
        return float(rates.cost(prompt=usage.prompt, completion=usage.completion, cached=usage.cached))

    def _find_served(self, fetch: Fetch, name: str) -> Served:
        route = fetch.plan.route
        if name == route.served.name:
            return route.served
        return name_served(name, project=self._incoming.caller.project, tables=self._edge.config.tables)
