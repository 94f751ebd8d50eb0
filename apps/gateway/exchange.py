"""One request from its arrival to its record: read, routed, asked, relayed, kept."""

import asyncio
import logging
import time

from multidict import istr

from apps.gateway.access import find_caller, require_asking
from apps.gateway.answers import answer_json
from apps.gateway.asking import read_model, read_object
from apps.gateway.bodies import Body
from apps.gateway.call import CallOutcome, ModelCall
from apps.gateway.dialects import DIALECTS, AnswerStream, BadRequestError
from apps.gateway.dialects.responses.items import UnknownItemsError
from apps.gateway.edge import Edge
from apps.gateway.ensembles import aim_members, ask_members, require_one_answer
from apps.gateway.errors import RefusalError
from apps.gateway.origins import ANTHROPICS_ID, REQUEST_ID, make_base
from apps.gateway.pins import KnownTask, Pin
from apps.gateway.record import SpoolError
from apps.gateway.relaying import Relay
from apps.gateway.request_plan import BETA_HEADER, IncomingRequest
from apps.gateway.routing import find_ensemble, find_route
from apps.gateway.sessions import ATTEMPT, MOST_STEPS, STEP, TASK, find_place, read_session_headers
from apps.gateway.tables import Caller, EnsembleRoute
from apps.gateway.traces import find_items
from apps.inference.models import MEASURED_TURN
from tentalis.inbound.http1 import Request, Response, Stream

logger = logging.getLogger(__name__)

ADAPTER_HEADER = "X-Tentalis-Adapter"
EXCHANGE_HEADER = "X-Tentalis-Exchange"
FALLBACK_HEADER = "X-Tentalis-Fallback"
CHOSEN_HEADER = "X-Tentalis-Chosen-By"
UNRECORDED = "the answer cannot be recorded at the moment, so it is not given"
_BETA = istr(BETA_HEADER)


class CallerRequest:
    """One request of one caller, from which one record comes; of one to an ensemble one of each member's answer.

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
        self._calls: list[ModelCall] = []
        self._answering: ModelCall | None = None
        self._chosen_by = ""
        self._stream: Stream | None = None
        self._body: Body | None = None
        self._is_admitted = False
        self._is_kept = False
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
            for call in self._calls:
                call.close()
            self._calls = []
            if self._body is not None:
                self._body.let_go()
            self._edge.in_flight -= self._is_admitted
            self._edge.metrics.latency.note(time.perf_counter() - self._started)

    async def ping(self) -> None:
        """Send a comment: the caller has heard nothing for a while."""
        if self._calls:
            await self._begin_stream().write(self._voice.ping())

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
        ensemble = find_ensemble(incoming.model, project=caller.project, tables=edge.config.tables)
        try:
            self._calls = self._aim(incoming, ensemble)
        except UnknownItemsError as error:
            await self._find_items(incoming, error)
            self._calls = self._aim(incoming, ensemble)
        if ensemble is not None:
            return await self._answer_together(incoming, ensemble)
        call = self._answering = self._calls[0]
        if call.pointed.plan.question.is_stream:
            return await self._answer_stream(call)
        return await self._answer_whole(call)

    def _aim(self, incoming: IncomingRequest, ensemble: EnsembleRoute | None) -> list[ModelCall]:
        """Who is asked, pointed at their servers. Raises RefusalError or BadRequestError."""
        if ensemble is None:
            calls = [ModelCall(self._edge, incoming, incoming.model, started=self._started)]
            calls[0].aim()
        else:
            require_one_answer(incoming.body)
            calls = [ModelCall(self._edge, incoming, member, started=self._started) for member in ensemble.members]
            aim_members(calls)
        return calls

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

    async def _answer_whole(self, call: ModelCall) -> Response | Stream:
        raw = await call.pointed.start()
        call.note_first_byte()
        out = call.carry(raw)
        self._keep_answer()
        return answer_json(out, self._make_headers())

    async def _answer_stream(self, call: ModelCall) -> Response | Stream:
        edge, fetch = self._edge, call.pointed
        edge.quiet.add(self)
        try:
            data, trouble = await fetch.start(), ""
            relay = fetch.plan.relay
            call.note_first_byte()
            while True:
                out = call.feed(data)
                stream = self._begin_stream()
                if relay.is_done or relay.failure is not None:
                    break
                await stream.write(out)
                if out:
                    self.last_heard_at = time.monotonic()
                data, trouble = await call.read_on()
                if not data:
                    out = b""
                    break
            await stream.end(out + self._end_stream(call, relay, trouble))
            return stream
        finally:
            edge.quiet.discard(self)

    def _end_stream(self, call: ModelCall, relay: Relay, trouble: str) -> bytes:
        """Its last events. The record is kept before the caller hears that the answer is complete."""
        if words := call.say_broken(trouble):
            self._keep_failure(words, is_truncated=True)
            return relay.fail(status=502, message=words, code="upstream_broke_off")
        try:
            self._keep()
        except SpoolError as spool_error:
            logger.error("exchange %s is not recorded: %s", self._id, spool_error)
            self._count_answer()
            return relay.fail(status=503, message=UNRECORDED, code="unavailable")
        return relay.finish()

    async def _answer_together(self, incoming: IncomingRequest, ensemble: EnsembleRoute) -> Response | Stream:
        """One of the members' answers; a stream begins with it, or with what keeps the caller waiting for it."""
        is_stream = bool(incoming.body.get("stream"))
        if is_stream:
            self._edge.quiet.add(self)
        try:
            given = await ask_members(self._calls, conversation=incoming.place.session, wait_s=ensemble.wait_s)
        finally:
            self._edge.quiet.discard(self)
        self._calls, self._chosen_by = given.calls, given.by
        self._answering = self._calls[0]
        self._keep_answer()
        if not is_stream:
            return answer_json(given.answer, self._make_headers())
        stream = self._begin_stream()
        await stream.end(given.answer)
        return stream

    def _keep_answer(self) -> None:
        """Raises RefusalError: what is not recorded is not given."""
        try:
            self._keep()
        except SpoolError as error:
            logger.error("exchange %s is not recorded: %s", self._id, error)
            raise RefusalError(UNRECORDED, status=503, code="unavailable", retry_after_s=5) from error

    def _begin_stream(self) -> Stream:
        if self._stream is None:
            headers = self._make_headers()
            headers["Content-Type"] = "text/event-stream; charset=utf-8"
            headers["Cache-Control"] = "no-cache"
            headers["X-Accel-Buffering"] = "no"
            self._stream = self._request.begin_stream(headers)
        return self._stream

    @property
    def _voice(self) -> Relay | AnswerStream:
        """What speaks to the caller in a stream."""
        call = self._answering
        if call is not None and call.fetch is not None:
            return call.fetch.plan.relay
        assert self._incoming is not None, "who is spoken to was read"
        return self._dialect.make_stream(self._incoming.body, id=self._id)

    def _make_headers(self) -> dict[str, str]:
        """Without who answers, where that is not known yet."""
        headers = {**self._make_base(), EXCHANGE_HEADER: self._id}
        call = self._answering
        if call is not None and call.fetch is not None:
            headers[ADAPTER_HEADER] = call.name_served()
            if call.fetch.fallback:
                headers[FALLBACK_HEADER] = call.fetch.fallback
        if self._chosen_by:
            headers[CHOSEN_HEADER] = self._chosen_by
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
        if self._stream is not None:
            await self._stream.end(self._voice.fail(status=error.status, message=message, code=code))
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
        call = ModelCall(self._edge, incoming, incoming.model, started=self._started)
        header = call.make_header(CallOutcome(str(error), error.status))
        self._is_kept = self._edge.refusals.take(header, error.code, time.monotonic())

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

    def _keep(self, error: str = "", *, status: int = 200, is_truncated: bool = False) -> None:
        """Hand the record over, once. Raises SpoolError."""
        incoming = self._incoming
        if self._is_kept:
            return
        if incoming is not None:
            calls = self._calls or [ModelCall(self._edge, incoming, incoming.model, started=self._started)]
            outcome = CallOutcome(error, status, is_truncated)
            first, *others = [call.make_record(outcome, choice=place) for place, call in enumerate(calls)]
            self._edge.spool.append(*first, *others)
            self._is_kept = True
        self._count_answer(status=status, is_truncated=is_truncated)
