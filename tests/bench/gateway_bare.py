"""The ceiling of `tests.bench.gateway`: the least that captures, with aiohttp and SQLite, and nothing else.

No keys, no routing, no limits, no sessions, no fail-over: it asks its one upstream for token ids and log-probs, takes
them out again, and answers when they are committed to SQLite (write-ahead log: a killed process loses nothing).
"""

import argparse
import asyncio
import queue
import sqlite3
import struct
import sys
import threading
from collections.abc import Iterator
from typing import Any

import aiohttp
import orjson
import uvloop
from aiohttp import web
from yarl import URL

MOST_BODY_BYTES = 2**26
BATCH = 256
Json = dict[str, Any]


class Store:
    """A thread that commits what was handed to it in batches, and says so."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._waiting: queue.SimpleQueue[tuple[bytes, list[bytes], asyncio.Future[None]]] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, daemon=True).start()

    async def keep(self, request: bytes, answer: list[bytes]) -> None:
        stored: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put((request, answer, stored))
        await stored

    def _run(self) -> None:
        database = sqlite3.connect(self._path, isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute(
            "CREATE TABLE IF NOT EXISTS trace (request BLOB, text TEXT, prompt BLOB, ids BLOB, logprobs BLOB)"
        )
        while True:
            batch = [self._waiting.get()]
            while len(batch) < BATCH and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            rows = [(request, *_pack(answer)) for request, answer, _ in batch]
            database.execute("BEGIN")
            database.executemany("INSERT INTO trace VALUES (?, ?, ?, ?, ?)", rows)
            database.execute("COMMIT")
            self._loop.call_soon_threadsafe(_tell, [stored for _, _, stored in batch])


def _tell(stored: list[asyncio.Future[None]]) -> None:
    for future in stored:
        if not future.done():
            future.set_result(None)


def _pack(answer: list[bytes]) -> tuple[str, bytes, bytes, bytes]:
    text = ""
    prompt: list[int] = []
    ids: list[int] = []
    logprobs: list[float] = []
    for chunk in _read(b"".join(answer)):
        prompt = chunk.get("prompt_token_ids") or prompt
        for choice in chunk["choices"]:
            text += (choice.get("message") or choice.get("delta") or {}).get("content") or ""
            ids += choice.get("token_ids") or ()
            logprobs += [entry["logprob"] for entry in (choice.get("logprobs") or {}).get("content") or ()]
    packed = struct.pack(f"<{len(prompt)}i", *prompt), struct.pack(f"<{len(ids)}i", *ids)
    return text, *packed, struct.pack(f"<{len(logprobs)}f", *logprobs)


def _read(answer: bytes) -> Iterator[Json]:
    if not answer.startswith(b"data:"):
        yield orjson.loads(answer)
        return
    for event in answer.split(b"\n\n"):
        if event and event != b"data: [DONE]":
            yield orjson.loads(event[6:])


def _strip(answer: Json) -> Json:
    answer.pop("prompt_token_ids", None)
    for choice in answer["choices"]:
        choice.pop("token_ids", None)
        choice["logprobs"] = None
    return answer


class Bare:
    def __init__(self, upstream: str, path: str) -> None:
        self._url = URL(f"{upstream}/v1/chat/completions")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), headers={"Content-Type": "application/json"}
        )
        self._store = Store(path)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.read()
        body = orjson.loads(raw)
        asked = orjson.dumps(body | {"logprobs": True, "return_token_ids": True})
        async with self._session.post(self._url, data=asked) as response:
            if body.get("stream"):
                return await self._stream(request, raw, response)
            answer = await response.read()
        stripped = orjson.dumps(_strip(orjson.loads(answer)))
        await self._store.keep(raw, [answer])
        return web.Response(body=stripped, content_type="application/json")

    async def _stream(
        self, request: web.BaseRequest, raw: bytes, response: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        out = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await out.prepare(request)
        kept, rest = [], b""
        async for data in response.content.iter_any():
            kept.append(data)
            *events, rest = (rest + data).split(b"\n\n")
            pieces = [
                b"data: %s\n\n" % orjson.dumps(_strip(orjson.loads(event[6:])))
                for event in events
                if event[6:7] == b"{"
            ]
            await out.write(b"".join(pieces))
        await self._store.keep(raw, kept)
        await out.write(b"data: [DONE]\n\n")
        await out.write_eof()
        return out


async def serve(upstream: str, path: str) -> None:
    bare = Bare(upstream, path)

    def make(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MOST_BODY_BYTES)

    runner = web.ServerRunner(web.Server(bare.answer, request_factory=make, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--database", required=True)
    options = parser.parse_args()
    uvloop.run(serve(options.upstream, options.database))
