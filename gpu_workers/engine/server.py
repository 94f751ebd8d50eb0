"""The engine over HTTP: vLLM's routes on aiohttp. The event loop parses and writes; the engine's thread computes."""

import asyncio
import hmac
import ipaddress
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
from aiohttp import web

from gpu_workers.engine.answers import AnswerWriter
from gpu_workers.engine.bases import Bases, cancel
from gpu_workers.engine.batch import Events
from gpu_workers.engine.errors import EngineError, InvalidRequestError, StoppingError
from gpu_workers.engine.jobs import Delta, Job
from gpu_workers.engine.metrics import EngineMetrics
from gpu_workers.engine.models import LoadedModel
from gpu_workers.engine.protocol import Fields, GenerationRequest, read_chat, read_completion
from gpu_workers.engine.reward_heads import read_score_request, write_heads, write_scores
from gpu_workers.engine.served import Served
from gpu_workers.engine.text import TextCodec

logger = logging.getLogger(__name__)

ADAPTER_HEADER = "X-Tentalis-Adapter"
MAX_BODY_BYTES = 64 * 1024 * 1024
_OPEN_PATHS = frozenset({"/health", "/metrics"})
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Reader = Callable[[object, Callable[[str], LoadedModel], TextCodec], GenerationRequest]


class EngineServer:
    """Routes, and the bridge between the engine's thread and the event loop."""

    def __init__(
        self,
        engine: Served | Bases,
        *,
        host: str,
        key: str = "",
        root: Path | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """
        Args:
            engine: who generates; several base models, or one.
            key: what every caller of /v1 and of the tokenizer must send as a bearer token, as with vLLM's --api-key;
                "": nothing.
            root: adapters and step scorers are loaded from inside this directory alone; None: from anywhere.
            names: host names it answers to beside this machine's own.
        """
        self._bases = engine if isinstance(engine, Bases) else Bases(engine)
        self._key = key
        self._root = None if root is None else root.resolve()
        self._names = _LOOPBACK_NAMES | set(names)
        self._metrics = EngineMetrics(self._bases)
        self._mailboxes: dict[Job, asyncio.Queue[list[Delta]]] = {}
        self._started_s = int(time.time())
        self._checks_host = is_loopback(host) or bool(names)
        self._is_stopping = False
        self.app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guard])
        self.app.add_routes(
            [
                web.post("/v1/completions", self.complete),
                web.post("/v1/chat/completions", self.chat),
                web.get("/v1/models", self.list_models),
                web.post("/v1/load_lora_adapter", self.load_adapter),
                web.post("/v1/unload_lora_adapter", self.unload_adapter),
                web.get("/v1/reward_heads", self.list_heads),
                web.post("/v1/load_reward_head", self.load_head),
                web.post("/v1/unload_reward_head", self.unload_head),
                web.post("/v1/score_steps", self.score_steps),
                web.post("/tokenize", self.tokenize),
                web.post("/detokenize", self.detokenize),
                web.get("/health", self.report_health),
                web.get("/metrics", self.report_metrics),
            ]
        )

    def start(self) -> None:
        """Start the engines' threads; to be called in the running event loop."""
        loop = asyncio.get_running_loop()
        self._bases.start(lambda events: _call_in(loop, self._deliver, events))

    async def stop(self, *, drain_s: float) -> bool:
        """Refuse new requests and let the running ones end; whether all did in time."""
        self._is_stopping = True
        loop = asyncio.get_running_loop()
        has_drained = await loop.run_in_executor(None, lambda: self._bases.stop(drain_s=drain_s))
        for job, mailbox in self._mailboxes.items():
            if not job.is_over:
                job.is_cancelled = True
                mailbox.put_nowait([])
        return has_drained

    # --- routes

    async def complete(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, read_completion)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, read_chat)

    async def list_models(self, _: web.Request) -> web.Response:
        told = {"object": "model", "created": self._started_s, "owned_by": "tentalis"}
        return _json({"object": "list", "data": [told | card for card in self._bases.list_cards()]})

    async def load_adapter(self, request: web.Request) -> web.Response:
        fields = Fields(await _read_json(request))
        name, path = fields.string("lora_name"), Path(fields.string("lora_path"))
        if fields.flag("load_inplace"):
            raise InvalidRequestError("adapters are immutable: load_inplace is not supported", param="load_inplace")
        fields.finish()
        self._require_inside(path, "lora_path")
        async with self._bases.hold_for(path) as engine:
            self._bases.require_free(engine, name)
            loaded = await asyncio.to_thread(engine.load_adapter, name, path)
            self._bases.note(engine, name, path)
        logger.info("loaded adapter %s from %s", name, path)
        return _text(f"Success: LoRA adapter '{name}' added successfully.", loaded.name)

    async def unload_adapter(self, request: web.Request) -> web.Response:
        fields = Fields(await _read_json(request))
        name = fields.string("lora_name")
        fields.take("lora_int_id")
        fields.finish()
        if not self._bases.forget(name):
            async with self._bases.hold(name) as engine:
                engine.unload_adapter(name)
                self._bases.note(engine, name, None)
        logger.info("unloaded adapter %s", name)
        return _text(f"Success: LoRA adapter '{name}' removed successfully.", name)

    async def list_heads(self, _: web.Request) -> web.Response:
        return _json(write_heads({name: head for one in self._bases.loaded() for name, head in one.heads.items()}))

    async def load_head(self, request: web.Request) -> web.Response:
        fields = Fields(await _read_json(request))
        name, path = fields.string("head_name"), Path(fields.string("head_path"))
        fields.finish()
        self._require_inside(path, "head_path")
        async with self._bases.hold_for(path) as engine:
            await asyncio.to_thread(engine.load_head, name, path)
            self._bases.note(engine, name, path, is_head=True)
        logger.info("loaded step scorer %s from %s", name, path)
        return _text(f"Success: step scorer '{name}' added successfully.", name)

    async def unload_head(self, request: web.Request) -> web.Response:
        fields = Fields(await _read_json(request))
        name = fields.string("head_name")
        fields.finish()
        async with self._bases.hold_head(name) as engine:
            engine.unload_head(name)
            self._bases.note(engine, name, None, is_head=True)
        logger.info("unloaded step scorer %s", name)
        return _text(f"Success: step scorer '{name}' removed successfully.", name)

    async def score_steps(self, request: web.Request) -> web.Response:
        """Our own addition to the dialect: a calibrated probability for every step of every answer."""
        name, asked = read_score_request(await _read_json(request))
        async with self._bases.hold_head(name) as engine:
            head = engine.find_head(name)
            job, features = engine.ask_features(asked)
            async with self._running(engine, job) as mailbox:
                while not job.is_over:
                    await mailbox.get()
        if job.is_cancelled:
            raise StoppingError("the engine stopped before the steps were scored", retry_after_s=5)
        job.finished_samples()
        logits = [head.stored.head.logits(features[index]).tolist() for index in range(len(asked))]
        return _json(write_scores(head, logits), adapter=head.name)

    async def tokenize(self, request: web.Request) -> web.Response:
        """vLLM's {prompt} or {messages} -> {tokens, token_strs, count, max_model_len}."""
        body = await _read_json(request)
        fields = Fields(body)
        async with self._bases.hold(name := fields.string("model", default="")) as engine:
            loaded, codec = engine.models.find(name or engine.base.name), engine.codec
        if isinstance(body, dict) and "messages" in body:
            chat = {"model": loaded.name, "messages": fields.take("messages"), "max_tokens": 0}
            chat |= {"tools": fields.take("tools"), "drop_params": fields.drops_hints}
            chat["add_generation_prompt"] = fields.flag("add_generation_prompt", default=True)
            tokens = list(read_chat(chat, engine.models.find, codec).prompts[0])
        else:
            adds_special = fields.flag("add_special_tokens", default=True)
            tokens = codec.encode([fields.string("prompt")], add_special_tokens=adds_special)[0]
        fields.take("return_token_strs")
        fields.finish()
        return _json(
            {
                "tokens": tokens,
                "token_strs": codec.split_pieces(tokens),
                "count": len(tokens),
                "max_model_len": loaded.model.context_length,
            }
        )

    async def detokenize(self, request: web.Request) -> web.Response:
        """vLLM's {tokens} -> {prompt}; special tokens stay."""
        fields = Fields(await _read_json(request))
        name, tokens = fields.string("model", default=""), fields.token_ids("tokens", fields.take("tokens"))
        fields.finish()
        async with self._bases.hold(name) as engine:
            return _json({"prompt": engine.codec.decode(tokens, skip_special=False)})

    async def report_health(self, _: web.Request) -> web.Response:
        if self._is_stopping:
            raise StoppingError("the engine is stopping", retry_after_s=5)
        for engine in self._bases.loaded():
            if not engine.is_running:
                raise EngineError(f"the thread of {engine.base.name} has died")
        return _json({"status": "ok"})

    async def report_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.expose(), headers={"Content-Type": self._metrics.content_type})

    # --- generating

    async def _answer(self, request: web.Request, read: Reader) -> web.StreamResponse:
        body = await _read_json(request)
        async with self._bases.hold(body.get("model") if isinstance(body, dict) else None) as engine:
            asked = read(body, engine.models.find, engine.codec)
            job = Job(asked.loaded, asked.prompts, asked.options, score_starts=asked.score_starts)
            writer = AnswerWriter(asked, job, engine.codec, identifier=uuid4().hex, created=int(time.time()))
            async with self._running(engine, job) as mailbox:
                if asked.options.streams:
                    return await self._stream(request, asked, job, writer, mailbox)
                while not job.is_over:
                    await mailbox.get()
                if job.is_cancelled:
                    raise StoppingError("the engine stopped before the answer was finished", retry_after_s=5)
                return _json(writer.write_whole(), adapter=job.loaded.name)

    @asynccontextmanager
    async def _running(self, engine: Served, job: Job) -> AsyncIterator[asyncio.Queue[list[Delta]]]:
        """A submitted job with its mailbox; leaving early (a client that went away) cancels its rows."""
        mailbox: asyncio.Queue[list[Delta]] = asyncio.Queue()
        engine.submit(job)
        self._mailboxes[job] = mailbox  # before the event loop runs again, so no news is missed
        try:
            yield mailbox
        finally:
            del self._mailboxes[job]
            if not job.is_over:
                cancel(engine, job)
            self._metrics.count_request(job)

    async def _stream(
        self,
        request: web.Request,
        asked: GenerationRequest,
        job: Job,
        writer: AnswerWriter,
        mailbox: asyncio.Queue[list[Delta]],
    ) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", ADAPTER_HEADER: job.loaded.name}
        response = web.StreamResponse(headers=headers)
        generated, open_choices, is_first = 0, len(job.samples), True
        await response.prepare(request)
        await _send(response, writer.write_opening())
        while open_choices and job.error is None and not job.is_cancelled:  # the job itself runs ahead of its mail
            deltas = await mailbox.get()
            open_choices -= sum(delta.finish_reason is not None for delta in deltas)
            if deltas and is_first:
                is_first = False
                self._metrics.note_first_token(job)
            generated += sum(len(delta.token_ids) for delta in deltas)
            await _send(response, [chunk for delta in deltas if (chunk := writer.write_delta(delta)) is not None])
        failure = job.error
        if job.is_cancelled:
            failure = StoppingError("the engine stopped before the answer was finished", retry_after_s=5)
        if failure is not None:
            await _send(response, [failure.to_json()])
        elif asked.includes_usage:
            await _send(response, [writer.write_usage(generated)])
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    def _deliver(self, events: Events) -> None:
        for job, deltas in events.items():
            if (mailbox := self._mailboxes.get(job)) is not None:
                mailbox.put_nowait(deltas)

    # --- the edge

    def _require_inside(self, path: Path, param: str) -> None:
        """Raises InvalidRequestError for a directory outside the one that adapters lie in."""
        try:
            found = path.resolve()
        except (OSError, ValueError) as error:
            raise InvalidRequestError(f"{param} cannot be read: {error}", param=param) from None
        if self._root is not None and not found.is_relative_to(self._root):
            raise InvalidRequestError(f"{param} must lie in the artifact directory", param=param)

    def _knows_key(self, request: web.Request) -> bool:
        """As vLLM: what tells health and figures is open, all else is not."""
        if not self._key or request.path in _OPEN_PATHS:
            return True
        scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            sent.strip().encode(errors="surrogateescape"), self._key.encode()
        )

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn every failure into OpenAI's error shape, and keep other sites' pages from using the engine."""
        try:
            if self._checks_host and _host_name(request) not in self._names:
                return _failure(403, f"host {request.host!r} is not this machine", "forbidden_host")
            if not self._knows_key(request):
                return _failure(401, "Unauthorized: wanted the engine's key as a bearer token", "unauthorized")
            if request.method == "POST" and request.content_type != "application/json":
                found = request.content_type
                return _failure(415, f"Content-Type must be application/json, found {found}", "unsupported_media_type")
            return await handler(request)
        except EngineError as error:
            headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
            return _json(error.to_json(), status=error.status, headers=headers)
        except web.HTTPException as error:
            return _failure(error.status, f"{request.method} {request.path}: {error.reason}", "http_error")
        except ConnectionError:
            raise
        except Exception:  # the edge: no trace reaches a client, the log has it
            logger.exception("%s %s failed", request.method, request.path)
            return _failure(500, "internal error", "internal_error")


async def _read_json(request: web.Request) -> object:
    try:
        return orjson.loads(await request.read())
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"the body is not JSON: {error}") from None


async def _send(response: web.StreamResponse, chunks: list[dict[str, Any]]) -> None:
    if chunks:
        await response.write(b"".join(b"data: " + _dump(chunk) + b"\n\n" for chunk in chunks))


def _dump(body: Any) -> bytes:
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def _json(
    body: Any, *, status: int = 200, adapter: str | None = None, headers: dict[str, str] | None = None
) -> web.Response:
    extra = dict(headers or {})
    if adapter is not None:
        extra[ADAPTER_HEADER] = adapter
    return web.Response(body=_dump(body), status=status, content_type="application/json", headers=extra)


def _text(message: str, adapter: str) -> web.Response:
    return web.Response(text=message, headers={ADAPTER_HEADER: adapter})


def _failure(status: int, message: str, code: str) -> web.Response:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return _json({"error": {"message": message, "type": kind, "param": None, "code": code}}, status=status)


def _host_name(request: web.Request) -> str:
    host = request.host
    return host[1 : host.index("]")] if host.startswith("[") and "]" in host else host.rsplit(":", 1)[0]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what is bound to this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _call_in(loop: asyncio.AbstractEventLoop, deliver: Callable[[Events], None], events: Events) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(deliver, events)
