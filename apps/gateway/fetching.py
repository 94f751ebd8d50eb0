"""Getting an answer to one request from whichever address of its server gives one."""

import asyncio
import time
from collections.abc import Callable

from apps.gateway.dialects import BadRequestError, ErrorWords, read_error
from apps.gateway.edge import Edge
from apps.gateway.errors import RefusalError
from apps.gateway.fallbacks import Fallbacks
from apps.gateway.request_plan import IncomingRequest, RequestPlan, plan_request
from apps.gateway.retelling import NotAnAnswerError, is_whole, tell_as_events
from apps.gateway.routing import Route, find_route
from apps.gateway.upstreams import (
    FAR_STATUSES,
    AnswerTooLongError,
    DownError,
    Endpoint,
    check_head,
    read_beginning,
    read_whole,
)
from tentalis.limits import LIMITS
from tentalis.outbound.answers import Measure, read_retry_after
from tentalis.outbound.http1 import Answer, BrokenError

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 1.0
DOWN_RETRY_S = 2.0


class Fetch:
    """One request under way. Until it has a first byte to pass on, it may try another address or another route.

    Args:
        model: the name it is asked for by.
        admit: holds room for the request at a route's server; raises RefusalError where a budget is used up.

    Attributes:
        plan: where it is pointed at present.
        endpoint: that was asked last; None before any was.
        fallback: who answered in the place of the model that was asked for, and `fallback_reason` why; "".
    """

    def __init__(self, edge: Edge, incoming: IncomingRequest, model: str, admit: Callable[[Route], None]) -> None:
        self._edge = edge
        self._incoming = incoming
        self._model = model
        self._admit = admit
        self._answer: Answer | None = None
        self._measure = Measure(LIMITS.gateway_answer_bytes)
        self.endpoint: Endpoint | None = None
        self.fallback = self.fallback_reason = ""
        self._fallbacks: Fallbacks | None = None
        self.plan = self._take_aim()
        if self.plan.route.fallbacks:
            self._fallbacks = Fallbacks(edge.breaker, incoming.caller.project, self.plan.route)

    async def start(self) -> bytes:
        """The whole answer, or the first piece of a stream.

        Raises:
            RefusalError: nobody answered, or somebody did and refused; or a budget is used up.
        """
        if self._fallbacks is not None:
            return await self._ask_in_turn(self._fallbacks)
        self._admit(self.plan.route)
        return await self._ask()

    async def _ask_in_turn(self, fallbacks: Fallbacks) -> bytes:
        """The answer of the first that gives one. Raises RefusalError: nobody did, or the request itself is wrong."""
        while fallbacks.turn():
            self.endpoint = None
            try:
                self.plan = self._take_aim()
                if not fallbacks.begin(self.plan.route):
                    continue
                self._admit(self.plan.route)
            except (RefusalError, BadRequestError) as error:
                fallbacks.pass_over(error)
                continue
            try:
                found = await self._ask(has_others=fallbacks.has_more)
            except RefusalError as error:
                fallbacks.note_refusal(error)
                self._hang_up()
                continue
            fallbacks.note_answer()
            if reason := fallbacks.reason:
                self.fallback, self.fallback_reason = fallbacks.name, reason
                self._edge.metrics.fallbacks[self.plan.route.backend.key or 0] += 1
            return found
        raise fallbacks.refusal

    async def _ask(self, *, has_others: bool = False) -> bytes:
        """The answer of the server that `plan` points at, from whichever of its addresses gives one.

        Args:
            has_others: somebody else can answer, so that a server which is down is not waited for.
        """
        until = time.monotonic() + self._edge.patience.down_s
        wait_s = FIRST_WAIT_S
        while True:
            refusal: RefusalError | None = None
            is_worth_it = True
            for endpoint in self._edge.upstreams.order(self.plan.route.backend, self._incoming.place.session):
                try:
                    return await self._try(endpoint)
                except DownError as error:
                    self._edge.metrics.failovers[self.plan.route.backend.key or 0] += 1
                    refusal = refusal or self._refuse_down(error)
                    is_worth_it &= not self._costs_again(error) and (error.wait_s or 0) <= until - time.monotonic()
                except _ElsewhereError as error:
                    refusal = error.refusal
            assert refusal is not None, "every backend has an address"
            if refusal.code not in {"upstream_down", "model_loading"}:
                raise refusal
            if not is_worth_it or time.monotonic() >= until or (has_others and refusal.code == "upstream_down"):
                raise refusal
            await asyncio.sleep(wait_s)
            wait_s = min(LONGEST_WAIT_S, wait_s * 2)
            await self._aim_again()

    async def read_on(self) -> bytes:
        """What has come of a stream since; b"" at its end. Raises BrokenError, TimeoutError or AnswerTooLongError."""
        assert self._answer is not None, "the first piece is read before the next"
        found = await self._answer.read()
        if words := self._measure.find_excess(len(found)):
            raise AnswerTooLongError(words)
        return found

    def close(self) -> None:
        """Let the server know that nobody listens any more, where it is still answering."""
        self._hang_up()
        if self._fallbacks is not None:
            self._fallbacks.close()

    def _hang_up(self) -> None:
        if self._answer is not None:
            self._answer.close()

    def _take_aim(self) -> RequestPlan:
        incoming, model = self._incoming, self._model
        if self._fallbacks is not None:
            model = self._fallbacks.name
        tables = self._edge.config.tables
        route = find_route(model, incoming.place, project=incoming.caller.project, tables=tables)
        return plan_request(incoming, route if model == self._model else route._replace(worker=self._model))

    async def _aim_again(self) -> None:
        """The tables may know better by now: an adapter was swapped, a server has moved."""
        await self._edge.config.refresh()
        self.plan = self._take_aim()

    async def _try(self, endpoint: Endpoint) -> bytes:
        """Raises DownError or _ElsewhereError: ask another; RefusalError: that is the answer."""
        backend, question = self.plan.route.backend, self.plan.question
        self.endpoint = endpoint
        url = endpoint.completions if question.form == "completions" else endpoint.chat
        try:
            self._answer = answer = await self._edge.upstreams.ask(
                backend, endpoint, url, self.plan.sent, self.plan.headers
            )
            if answer.status != 200:
                raw = await read_beginning(answer)
                answer.close()
                raise self._read_refusal(answer, raw, status=answer.status)
            if question.is_stream:
                check_head(answer)
                found = await self.read_on()
                if is_whole(found):
                    found = self._tell_as_events(answer, found + await self._read_rest())
            else:
                found = await read_whole(answer)
        except TimeoutError:
            message = f"{backend.name} was silent for {backend.timeout_s:g} s"
            raise RefusalError(message, status=504, code="upstream_timeout") from None
        except AnswerTooLongError as error:
            message = f"{backend.name}: {error}"
            raise RefusalError(message, status=502, code="upstream_too_long") from None
        except BrokenError as error:
            endpoint.note_failure("its answer broke off")
            raise DownError("its answer broke off", was_asked=True) from error
        if not found:
            endpoint.note_failure("its answer is empty")
            raise DownError("its answer is empty", was_asked=True)
        return found

    async def _read_rest(self) -> bytes:
        parts: list[bytes] = []
        while part := await self.read_on():
            parts.append(part)
        return b"".join(parts)

    def _tell_as_events(self, answer: Answer, raw: bytes) -> bytes:
        """The events of an answer that came whole. Raises what `_try` does where it is an error, or nothing known."""
        try:
            if self.plan.route.backend.kind.dialect != "openai":
                raise NotAnAnswerError(f"wanted events, found {raw[:80]!r}")
            return tell_as_events(raw)
        except NotAnAnswerError as error:
            name, words = self.plan.route.backend.name, error.words
            if words is None:
                message = f"{name} gave no answer that can be read: {error}"
                raise RefusalError(message, status=502, code="upstream_unreadable") from None
            if error.status in FAR_STATUSES:  # it was asked, and has answered: nobody else is
                code = words.code or "upstream_error"
                raise RefusalError(f"{name}: {error}", status=error.status, code=code, param=words.param) from None
            raise self._read_refusal(answer, raw, status=error.status) from None

    def _read_refusal(self, answer: Answer, raw: bytes, *, status: int) -> Exception:
        """What a server means that did not say 200, or said so of an error."""
        route = self.plan.route
        name = route.backend.name
        wait_s = read_retry_after(answer.headers)
        words = read_error(raw) if raw else ErrorWords(answer.reason, "", "")
        if status in FAR_STATUSES:
            return DownError(f"status {status}: {words.message[:200]}", wait_s=wait_s)
        message = f"{name}: {words.message or status}"
        if status == 429:
            code = words.code or "rate_limit_exceeded"
            return _ElsewhereError(
                RefusalError(message, status=429, code=code, retry_after_s=1.0 if wait_s is None else wait_s)
            )
        if status == 404 and route.is_managed and route.served.name in words.message + words.param:
            message = f"{route.served.name} is being loaded"
            return _ElsewhereError(RefusalError(message, status=429, code="model_loading", retry_after_s=1))
        if status in {401, 403}:
            message = f"{name} refuses the key that is stored for it"
            return RefusalError(message, status=502, code="upstream_refused_key")
        if status < 400:
            return RefusalError(f"{name} answers {status}, a redirect", status=502, code="upstream_redirects")
        code = words.code or "upstream_error"
        return RefusalError(message, status=status, code=code, param=words.param, retry_after_s=wait_s)

    def _costs_again(self, error: DownError) -> bool:
        """A vendor is paid for an answer that broke off; a server of one's own may just be starting again."""
        return error.was_asked and not self.plan.route.backend.kind.is_local

    def _refuse_down(self, error: DownError) -> RefusalError:
        message = f"{self.plan.route.backend.name} is down: {error}"
        return RefusalError(
            message,
            status=503,
            code="upstream_down",
            retry_after_s=DOWN_RETRY_S if error.wait_s is None else error.wait_s,
        )


class _ElsewhereError(Exception):
    """This address will not do it now; another may. If none does, `refusal` is the answer."""

    def __init__(self, refusal: RefusalError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal
