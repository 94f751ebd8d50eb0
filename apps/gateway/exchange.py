"""One request from its arrival to its record: read, routed, asked, relayed, kept."""

import asyncio
import logging
import time

from multidict import istr

from apps.gateway.access import find_caller, require_asking
from apps.gateway.answers import answer_json
from apps.gateway.asking import guess_usage, read_model, read_object
from apps.gateway.bodies import Body
from apps.gateway.dialects import DIALECTS, BadRequestError, ErrorWords
from apps.gateway.dialects.content import Usage
from apps.gateway.dialects.responses.items import UnknownItemsError
from apps.gateway.edge import Edge
from apps.gateway.errors import RefusalError
from apps.gateway.fetching import Fetch
from apps.gateway.limits import Reservation
from apps.gateway.origins import ANTHROPICS_ID, REQUEST_ID, make_base
from apps.gateway.pins import KnownTask, Pin
from apps.gateway.record import RECORD_VERSION, Header, SpoolError
from apps.gateway.relaying import MALFORMED, NOTHING_USED, Relay, UnboundedAnswerError, UnreadableAnswerError
from apps.gateway.request_plan import BETA_HEADER, IncomingRequest
from apps.gateway.routing import Route, find_route, name_served
from apps.gateway.sessions import ATTEMPT, MOST_STEPS, STEP, TASK, find_place, read_session_headers
from apps.gateway.tables import Caller, Served
from apps.gateway.traces import find_items
from apps.gateway.upstreams import AnswerTooLongError
from apps.inference.models import MEASURED_TURN
from tentalis.inbound.http1 import Request, Response, Stream
from tentalis.limits import LIMITS
from tentalis.outbound.http1 import BrokenError

logger = logging.getLogger(__name__)

ADAPTER_HEADER = "X-Tentalis-Adapter"
EXCHANGE_HEADER = "X-Tentalis-Exchange"
FALLBACK_HEADER = "X-Tentalis-Fallback"
UNRECORDED = "the answer cannot be recorded at the moment, so it is not given"
MOST_NAME_CHARS = 300
_BETA = istr(BETA_HEADER)


class CallerRequest:
    """One request of one caller, from which one record comes.

    Args:
        api: dialect of the path it came to. in_path: session of `/sessions/{id}/v1/…`.

    Attributes:
        last_heard_at: when its caller was last sent something, by the monotonic clock.
    """

    def __init__(self, edge: Edge, request: Request, api: str, in_path: str = "") -> None:
        self._edge = edge
        self._request = request
        self._dialect = DIALECTS[api]
        self._in_path = in_path
        self._id = next(edge.ids)
        self._at = time.time()
        self._started = time.perf_counter()
        self._caller: Caller | None = None
        self._incoming: IncomingRequest | None = None
        self._fetch: Fetch | None = None
        self._stream: Stream | None = None
        self._first_s: float | None = None
        self._body: Body | None = None
        self._reservation: Reservation | None = None
        self._is_counted = False
        self._is_admitted = False
        self._is_kept = False
        self._is_charged = False
        self._is_told = False
        self.last_heard_at = time.monotonic()

    async def answer(self) -> Response | Stream:
        """The answer, whatever happens."""
        try:
            return await self._answer()
        except RefusalError as error:
            return await self._refuse(error)
        except BadRequestError as error:
            return await self._refuse(
                RefusalError(
                    str(error),
                    status=error.status,
                    code=error.code,
                    param=error.param,
                    is_recorded=error.is_recorded,
                )
            )
        except (asyncio.CancelledError, ConnectionError):
            self._keep_failure("the caller went away", is_truncated=True)
            raise
        except Exception:
            logger.exception("exchange %s failed", self._id)
            return await self._refuse(RefusalError("internal error", status=500, code="internal"))
        finally:
            if self._fetch is not None:
                self._fetch.close()
                self._fetch = None  # it knows this request: the two would keep each other, and all that was said
            if self._reservation is not None:
                self._reservation.release()
            if self._body is not None:
                self._body.let_go()
            self._edge.in_flight -= self._is_admitted
            self._edge.metrics.latency.note(time.perf_counter() - self._started)

    async def ping(self) -> None:
        """Send a comment: the caller has heard nothing for a while."""
        if self._fetch is not None:
            stream = self._begin_stream(self._fetch)
            await stream.write(self._fetch.plan.relay.ping())

    async def _answer(self) -> Response | Stream:
        edge, request = self._edge, self._request
        caller = self._caller = await find_caller(request, edge.config)
        require_asking(caller)
        self._body = Body(edge, caller)
        raw = self._body.take(request) or await self._body.read(request)
        edge.admit()
        self._is_admitted = True
        body = read_object(raw)
        place = find_place(body, request.recall(read_session_headers), caller, in_path=self._in_path)
        beta = request.headers.get(_BETA, "")
        incoming = IncomingRequest(self._id, self._at, caller, place, self._dialect, read_model(body), raw, body, beta)
        self._incoming = incoming
        if place.task is not None or place.attempt is not None or place.step is not None:
            await self._check_task(incoming)
        if (previous := self._dialect.previous_id(body)) is not None:
            await self._go_on_from(incoming, previous)
        try:
            fetch = self._fetch = Fetch(edge, incoming, self._admit)
        except UnknownItemsError as error:
            await self._find_items(incoming, error)
            fetch = self._fetch = Fetch(edge, incoming, self._admit)
        if fetch.plan.question.is_stream:
            return await self._answer_stream(fetch)
        return await self._answer_whole(fetch)

    def _admit(self, route: Route) -> None:
        """Hold room for the request at a route's server; of its caller it is counted once, whoever is asked.

        Raises:
            RefusalError: a budget is used up.
        """
        incoming = self._incoming
        assert incoming is not None, "a request is read before it is given to a server"
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

    async def _check_task(self, incoming: IncomingRequest) -> None:
        """Raises RefusalError where a request is said to be work on a task that the project does not have, on no try at
        it, or on no step."""
        said = incoming.place
        task, attempt, step = said.task, said.attempt, said.step
        incoming.place = said._replace(task=None, attempt=None, step=None)
        if task == -1:
            raise self._refuse_number(TASK, "a task's number")
        if step is not None and not 0 <= step < MOST_STEPS:
            raise self._refuse_number(STEP, f"a whole number from 0 to {MOST_STEPS - 1}")
        if attempt == -1 or (attempt is not None and task is None):
            raise self._refuse_number(ATTEMPT, f"a whole number from 0, beside {TASK}")
        known = None
        if task is not None and (known := await self._edge.config.find_task(incoming.caller.project, task)) is None:
            message = f"{TASK}: project {incoming.caller.project_slug} has no task {task}"
            raise RefusalError(message, status=404, code="task_not_found", param=TASK)
        if known is not None and attempt is not None and attempt >= known.group_size:
            wanted = f"a whole number from 0 to {known.group_size - 1}, of the tries of task {task}"
            raise self._refuse_number(ATTEMPT, wanted)
        incoming.place = said
        if known is not None and known.worker:
            await self._pin(incoming, known)

    def _refuse_number(self, name: str, wanted: str) -> RefusalError:
        """What a header of a call's place says, and cannot be."""
        message = f"{name}: wanted {wanted}; found {self._request.headers.get(name, '')[:80]!r}"
        code = f"invalid_{name.rpartition('-')[2].lower()}"
        return RefusalError(message, status=400, code=code, param=name)

    async def _pin(self, incoming: IncomingRequest, task: KnownTask) -> None:
        """Have a try answered by one version from its first call on, whatever serves by then."""
        place, tables = incoming.place, self._edge.config.tables
        attempt = str(place.attempt or 0)
        if task.by_session and place.attempt is None:
            attempt = f"session {place.session}"
        if task.is_measured:
            place = place if place.turn == "side" else place._replace(turn=MEASURED_TURN)
        elif incoming.model != task.worker:
            return
        else:
            route = find_route(incoming.model, place, project=incoming.caller.project, tables=tables)
            await self._edge.config.pin(task, attempt, route.served.adapter)
        adapter = task.pins.get(attempt, task.pins.get("0", ""))
        pin = Pin(task.worker, adapter, task.sampling, task.seed, task.is_measured)
        incoming.place = place._replace(pin=pin)

    async def _go_on_from(self, incoming: IncomingRequest, previous: str) -> None:
        """Find the answer that a request goes on from; one that names no session belongs to that answer's."""
        earlier = await self._edge.find_earlier(incoming.caller, previous)
        if earlier is None:
            return
        incoming.earlier = earlier.messages
        if incoming.place.is_guessed and earlier.session:
            incoming.place = incoming.place._replace(session=earlier.session, is_guessed=False)

    async def _find_items(self, incoming: IncomingRequest, error: UnknownItemsError) -> None:
        """Put items of earlier answers where a request names them. Raises the error where one is not known."""
        known = await self._edge.config.ask(lambda: find_items(incoming.caller, error.ids))
        if unknown := [id for id in error.ids if id not in known]:
            raise UnknownItemsError(unknown, param=error.param)
        given = [
            known[item["id"]] if isinstance(item, dict) and item.get("type") == "item_reference" else item
            for item in incoming.body["input"]
        ]
        incoming.body = {**incoming.body, "input": given}

    async def _answer_whole(self, fetch: Fetch) -> Response | Stream:
        raw = await fetch.start()
        relay, backend = fetch.plan.relay, fetch.plan.route.backend
        self._note_first_byte()
        try:
            out = relay.carry(raw)
        except (UnreadableAnswerError, *MALFORMED) as error:
            relay.kept[:] = [] if isinstance(error, UnboundedAnswerError) else [raw[: LIMITS.error_answer_bytes]]
            message = f"{backend.name} gave no answer that can be read: {error}"
            raise RefusalError(message[:2000], status=502, code="upstream_unreadable") from error
        try:
            self._keep()
        except SpoolError as error:
            logger.error("exchange %s is not recorded: %s", self._id, error)
            raise RefusalError(UNRECORDED, status=503, code="unavailable", retry_after_s=5) from error
        return answer_json(out, self._make_headers(fetch))

    async def _answer_stream(self, fetch: Fetch) -> Response | Stream:
        edge = self._edge
        edge.quiet.add(self)
        try:
            data, error = await fetch.start(), ""
            relay = fetch.plan.relay
            self._note_first_byte()
            while True:
                out = self._feed(relay, data)
                stream = self._begin_stream(fetch)
                if relay.is_done or relay.failure is not None:
                    break
                await stream.write(out)
                if out:
                    self.last_heard_at = time.monotonic()
                try:
                    data = await fetch.read_on()
                except TimeoutError:
                    data, error = b"", "the server was silent for too long"
                except BrokenError:
                    data, error = b"", "the server went away"
                except AnswerTooLongError as too_long:
                    data, error = b"", str(too_long)
                if not data:
                    out = b""
                    break
            await stream.end(out + self._end_stream(fetch, relay, error))
            return stream
        finally:
            edge.quiet.discard(self)

    def _feed(self, relay: Relay, data: bytes) -> bytes:
        try:
            return relay.feed(data)
        except (UnboundedAnswerError, *MALFORMED) as error:
            relay.failure = ErrorWords(f"its stream cannot be read: {error}", "", "")
            return b""

    def _end_stream(self, fetch: Fetch, relay: Relay, error: str) -> bytes:
        """Its last events. The record is kept before the caller hears that the answer is complete."""
        if relay.is_whole and not error:
            try:
                self._keep()
            except SpoolError as spool_error:
                logger.error("exchange %s is not recorded: %s", self._id, spool_error)
                self._count_answer()
                return relay.fail(status=503, message=UNRECORDED, code="unavailable")
            return relay.finish()
        words = relay.failure.message if relay.failure is not None else error or "the stream broke off"
        message = f"{fetch.plan.route.backend.name}: {words}"
        self._keep_failure(message, is_truncated=True)
        return relay.fail(status=502, message=message, code="upstream_broke_off")

    def _begin_stream(self, fetch: Fetch) -> Stream:
        if self._stream is None:
            headers = self._make_headers(fetch)
            headers["Content-Type"] = "text/event-stream; charset=utf-8"
            headers["Cache-Control"] = "no-cache"
            headers["X-Accel-Buffering"] = "no"
            self._stream = self._request.begin_stream(headers)
        return self._stream

    def _make_headers(self, fetch: Fetch) -> dict[str, str]:
        served = fetch.plan.relay.served or fetch.plan.route.served.name
        if not served.isprintable() or len(served) > MOST_NAME_CHARS:
            message = f"{fetch.plan.route.backend.name} names a model that no header can hold: {served[:80]!r}"
            raise RefusalError(message, status=502, code="upstream_unreadable")
        headers = {**self._make_base(), ADAPTER_HEADER: served, EXCHANGE_HEADER: self._id}
        if fetch.fallback:
            headers[FALLBACK_HEADER] = fetch.fallback
        return headers

    def _make_base(self) -> dict[str, str]:
        base = make_base(self._request, self._id, self._edge.origins)
        if self._dialect.name == "messages":
            base[ANTHROPICS_ID] = base[REQUEST_ID]
        return base

    async def _refuse(self, error: RefusalError) -> Response | Stream:
        """An error in the words of the API that is spoken; in the stream, where that has begun."""
        message, code = str(error), error.code
        if error.is_recorded:
            self._keep_failure(message, status=error.status)
        else:
            self._note_refusal(error)
        if self._stream is not None and self._fetch is not None:
            await self._stream.end(self._fetch.plan.relay.fail(status=error.status, message=message, code=code))
            return self._stream
        headers = self._make_base()
        if self._is_kept:
            headers[EXCHANGE_HEADER] = self._id
        if error.retry_after_s is not None:
            headers["Retry-After"] = f"{error.retry_after_s:g}"
        if error.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="tentalis"'
        body = self._dialect.error(status=error.status, message=message, code=code, param=error.param)
        return answer_json(body, headers, status=error.status)

    def _note_refusal(self, error: RefusalError) -> None:
        """Count it; and keep a record of one that says something of its caller's project."""
        self._edge.metrics.refusals[error.code] += 1
        if self._caller is None or error.status not in {403, 429}:
            return
        incoming = self._incoming
        if incoming is None:  # refused before its body was read
            place = find_place({}, self._request.recall(read_session_headers), self._caller, in_path=self._in_path)
            place = place._replace(task=None, attempt=None, step=None)  # nobody looked at them
            incoming = IncomingRequest(self._id, self._at, self._caller, place, self._dialect, "", b"", {})
        header = self._make_header(incoming, None, error=str(error), status=error.status, is_truncated=False)
        self._is_kept = self._edge.refusals.take(header, error.code, time.monotonic())

    def _note_first_byte(self) -> None:
        self._first_s = time.perf_counter() - self._started
        self._edge.metrics.first_byte.note(self._first_s)

    def _keep_failure(self, error: str, *, status: int = 200, is_truncated: bool = False) -> None:
        """Keep the record of a request that failed; where even that fails, the log has it."""
        try:
            self._keep(error, status=status, is_truncated=is_truncated)
        except SpoolError as spool_error:
            logger.error("exchange %s is not recorded: %s", self._id, spool_error)
            self._count_answer(status=status, is_truncated=is_truncated)

    def _count_answer(self, *, status: int = 200, is_truncated: bool = False) -> None:
        """Once, as what the caller got."""
        if not self._is_told:
            self._is_told = True
            self._edge.metrics.answers[self._dialect.name, status] += 1
            self._edge.metrics.truncated += is_truncated

    def _charge(self, fetch: Fetch, caller: Caller) -> None:
        """Count what was used, once, whether the record of it can be kept or not."""
        plan = fetch.plan
        tokens = plan.relay.usage.prompt + plan.relay.usage.completion
        if self._is_charged or not tokens:
            return
        self._is_charged = True
        self._edge.metrics.tokens += tokens
        self._edge.budgets.charge(
            caller,
            plan.route.backend,
            tokens=tokens,
            count_usd=lambda: self._count_usd(plan.route, plan.relay.usage),
            now=time.time(),
            allowance=plan.route.allowance,
        )

    def _keep(self, error: str = "", *, status: int = 200, is_truncated: bool = False) -> None:
        """Hand the record over, once. Raises SpoolError."""
        incoming, fetch = self._incoming, self._fetch
        if self._is_kept:
            return
        if incoming is None:
            self._count_answer(status=status, is_truncated=is_truncated)
            return
        kept, answer, is_merged = incoming.raw, b"", False
        if fetch is not None:
            relay = fetch.plan.relay
            kept = fetch.plan.kept
            answer, is_merged = (b"".join(relay.kept), False) if status >= 400 else relay.record()
            if is_truncated and relay.usage == NOTHING_USED and relay.merger is not None:
                prompt, completion = relay.merger.count_told()  # who leaves early has used it all the same
                relay.usage = NOTHING_USED._replace(prompt=prompt, completion=completion)
            self._charge(fetch, incoming.caller)
        header = self._make_header(incoming, fetch, error=error, status=status, is_truncated=is_truncated)
        if is_merged:
            header["is_merged"] = True
        self._edge.spool.append(header, kept, answer)
        self._is_kept = True
        self._count_answer(status=status, is_truncated=is_truncated)

    def _make_header(
        self, incoming: IncomingRequest, fetch: Fetch | None, *, error: str, status: int, is_truncated: bool
    ) -> Header:
        caller, place, model = incoming.caller, incoming.place, incoming.model[:200]
        route = fetch.plan.route if fetch is not None else None
        name = fetch.plan.relay.served if fetch is not None else ""
        served = self._find_served(incoming, fetch, name) if fetch is not None and name else Served("")
        header: Header = {
            "v": RECORD_VERSION,
            "id": self._id,
            "at": self._at,
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
            "api": self._dialect.name,
            "form": fetch.plan.question.form if fetch is not None else "chat",
            "is_stream": fetch is not None and fetch.plan.question.is_stream,
            "status": status,
            "is_truncated": is_truncated,
            "error": error,
            "sampling": dict(fetch.plan.question.sampling) if fetch is not None else {},
            "latency_ms": round(1000 * (time.perf_counter() - self._started), 3),
            "first_ms": None if self._first_s is None else round(1000 * self._first_s, 3),
        }
        if fetch is not None and fetch.fallback_reason:
            header["fallback"] = fetch.fallback_reason
        return header

    def _count_usd(self, route: Route, usage: Usage) -> float:
        """What so many tokens cost there; 0 where no price is known."""
        rates = self._edge.config.tables.prices.find(
            provider_id=route.backend.key, kind=route.backend.kind.kind, model=route.served.name
        )
        if rates is None:
            return 0.0
        return float(rates.cost(prompt=usage.prompt, completion=usage.completion, cached=usage.cached))

    def _find_served(self, incoming: IncomingRequest, fetch: Fetch, name: str) -> Served:
        route = fetch.plan.route
        if name == route.served.name:
            return route.served
        return name_served(name, project=incoming.caller.project, tables=self._edge.config.tables)
