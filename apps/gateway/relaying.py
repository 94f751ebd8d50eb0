"""An upstream's answer on its way to the caller: read once, stripped of what was asked on our account, translated."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from apps.gateway.asking import Json, Question
from apps.gateway.bounds import BeyondBoundsError, dump_flat, load_bounded, load_countable
from apps.gateway.dialects import Dialect, ErrorWords, Upstream, UpstreamFailedError
from apps.gateway.dialects.content import Usage, read_usage
from apps.gateway.dialects.errors import find_failure
from apps.gateway.dialects.wire import dump_event
from apps.gateway.merging import Merger
from apps.gateway.reading import read_json
from tentalis.outbound.events import EventSplitter

NOTHING_USED = Usage(0, 0, 0, 0, 0)
MALFORMED = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading an answer raises whose parts are not what they should be."""
_DONE = b"[DONE]"


class UnreadableAnswerError(Exception):
    """What came is no answer; the message says what was found. `words` where it is an error in an answer's clothes."""

    def __init__(self, message: str, words: ErrorWords | None = None) -> None:
        super().__init__(message)
        self.words = words


class UnboundedAnswerError(UnreadableAnswerError):
    """It has more values or levels than are read; nothing of it is kept."""


class Relay:
    """Carries one answer, whole or streamed, under an id by which it can be spoken of. Pure: bytes in, bytes out.

    Args:
        dialect: what the caller speaks. body: its request in that dialect.
        id: of the exchange. created: seconds since the epoch.
        upstream: what the server speaks, where that is not chat completions.
        passes_own: the caller speaks that too, so that the answer is only translated to be recorded.

    Attributes:
        kept: the answer in the question's form, with all that the server told.
        merger: the same, put together; None where not all of it could be read.
        served: model the answer names; "" before it names any.
        usage: tokens as the server counted them; zeros before it said.
        failure: what the server said went wrong in the middle of its stream.
    """

    def __init__(
        self,
        question: Question,
        dialect: Dialect,
        body: Json,
        *,
        id: str,
        created: int,
        upstream: Upstream | None = None,
        passes_own: bool = False,
    ) -> None:
        self.kept: list[bytes] = []
        self.merger: Merger | None = Merger()
        self.served = ""
        self.usage = NOTHING_USED
        self.failure: ErrorWords | None = None
        self._question = question
        self._dialect = dialect
        self._body = body
        self._id = id
        self._answer_id = dialect.answer_id(id)
        self._created = created
        self._upstream = upstream
        self._passes_own = passes_own
        self._is_native = dialect.name == question.form
        self._splitter = EventSplitter()
        self._source = upstream.make_stream(created=created) if upstream is not None and question.is_stream else None
        self._stream = dialect.make_stream(body, id=id)
        self._is_done = False
        self._has_finished = False
        self._unfinished: set[Any] = set()
        self._last = b""

    @property
    def is_done(self) -> bool:
        """The server said that its stream is over."""
        return self._is_done

    @property
    def is_whole(self) -> bool:
        """The stream did not break off: it was said to be over, or every choice came to its end."""
        if self.failure is not None:
            return False
        return self._is_done or (self._has_finished and not self._unfinished)

    def carry(self, raw: bytes) -> bytes:
        """A whole answer for the caller.

        Raises:
            UnreadableAnswerError: it is none.
        """
        answer, own = self._read(raw), raw
        own_id = answer.get("id")
        if self._upstream is not None:
            answer = self._upstream.to_chat(answer, created=self._created)
            raw = orjson.dumps(answer)
        words, has_choices = find_failure(answer), isinstance(answer.get("choices"), list)
        if has_choices:
            self.kept.append(raw)
            self._merge([answer])
            self.served = _read_model(answer)
            self.usage = read_usage(answer.get("usage"))
        if words is not None or not has_choices:
            raise UnreadableAnswerError(words.message if words else f"no choices in it: {raw[:200]!r}", words)
        if self._passes_own:
            return self._rename(own, own_id)
        if self._is_native and not (self._question.hides_ids or self._question.hides_logprobs):
            return self._rename(raw, own_id)
        self._question.strip([answer])
        if not self._is_native:
            self._require_flat(answer)
            return orjson.dumps(self._dialect.from_chat(answer, self._body, id=self._id))
        answer["id"] = self._answer_id
        return self._write(answer)

    def feed(self, data: bytes) -> bytes:
        """Whatever of a stream has come, as events for the caller; what ends the stream is left to `finish`."""
        if self._source is None:
            self.kept.append(data)
            return self._forward(self._parse(self._splitter.feed(data)))
        out: list[bytes] = []
        for event in self._parse(self._splitter.feed(data)):
            try:
                chunks = self._translate(event)
            except UpstreamFailedError as error:
                self.failure = ErrorWords(str(error), error.code, "")
                break
            out.append(self._forward(chunks))
            if self._passes_own:
                self._pass(event, out)
        return b"".join(out)

    def _merge(self, chunks: Iterable[Json]) -> None:
        if self.merger is not None:
            try:
                self.merger.add(chunks)
            except MALFORMED:
                self.merger = None

    def record(self) -> tuple[bytes, bool]:
        """What is kept of the answer, and whether it is put together; as it came where not all of it was read."""
        merger = self.merger
        if merger is None or not self.kept or self._splitter.has_rest:
            return b"".join(self.kept), False
        merger.envelope.is_done |= self._is_done
        try:
            return merger.dump(), True
        except TypeError:  # among its ids lies what no answer has
            return b"".join(self.kept), False

    def _rename(self, raw: bytes, own_id: object) -> bytes:
        """An answer as it came, under our id: written into it where the server's stands once and for all."""
        old, new = orjson.dumps(own_id), orjson.dumps(self._answer_id)
        return raw.replace(old, new) if isinstance(own_id, str) and raw.count(old) == 1 else raw

    def finish(self) -> bytes:
        """The last events of a stream that is whole."""
        return self._last if self._passes_own else self._stream.finish()

    def fail(self, *, status: int, message: str, code: str) -> bytes:
        """The last events of one that is not."""
        return self._stream.fail(status=status, message=message, code=code)

    def ping(self) -> bytes:
        return self._stream.ping()

    def _forward(self, chunks: Sequence[Json]) -> bytes:
        """What the caller gets of them."""
        hides_ids, hides_logprobs = self._question.hides_ids, self._question.hides_logprobs
        shown: list[Json] = []
        place = 0
        while place < len(chunks):
            pieces = self.merger.add_pieces(chunks, place) if self.merger is not None else ()
            for choice in pieces:
                if hides_ids:
                    choice.pop("token_ids", None)
                if hides_logprobs:
                    choice["logprobs"] = None
            end = place + len(pieces)
            shown += chunks[place:end]
            if end < len(chunks) and self._look_at(chunks[end]):
                shown += self._question.strip([chunks[end]])
            place = end + 1
        if self._passes_own or not shown:
            return b""
        if not self._is_native:
            self._require_flat(shown)
            return b"".join([self._stream.feed(chunk) for chunk in shown])
        for chunk in shown:
            chunk["id"] = self._answer_id
        return b"data: %s\n\n" % self._write_events(shown)

    def _look_at(self, chunk: Json) -> bool:
        """Merge a chunk, and note what it says of the answer; whether it is shown."""
        self._merge([chunk])
        unfinished = self._unfinished
        if not self.served:
            self.served = _read_model(chunk)
        for choice in chunk.get("choices") or ():
            if choice.get("finish_reason") is None:
                unfinished.add(choice.get("index"))
            else:
                self._has_finished = True
                unfinished.discard(choice.get("index"))
        if (usage := chunk.get("usage")) is not None:
            self.usage = read_usage(usage)
        if (words := find_failure(chunk)) is not None:
            self.failure = words
        return words is None

    def _write_events(self, chunks: list[Json]) -> bytes:
        """Chunks with their id as the data of events: all in one call, and cut where one begins with the id."""
        written = self._write(chunks)[1:-1]
        beginning = b'{"id":%s,' % orjson.dumps(self._answer_id)
        if written.startswith(beginning) and written.count(b"," + beginning) == len(chunks) - 1:
            return written.replace(b"," + beginning, b"\n\ndata: " + beginning)
        return b"\n\ndata: ".join([orjson.dumps(chunk) for chunk in chunks])

    def _pass(self, event: Json, out: list[bytes]) -> None:
        """An event as the server sent it; the one that ends the stream waits for `finish`."""
        if event.get("type") == "message_start" and isinstance(message := event.get("message"), dict):
            message["id"] = self._answer_id
        if self._is_done:
            self._last = dump_event(event)
        else:
            out.append(dump_event(event))

    def _translate(self, event: Json) -> Sequence[Json]:
        """Chunks of an event in the server's own dialect; they are what is recorded."""
        assert self._source is not None
        chunks = self._source.feed(event)
        for chunk in chunks:
            self.kept.append(b"data: " + orjson.dumps(chunk) + b"\n\n")
        if self._source.is_done and not self._is_done:
            self._is_done = True
            self.kept.append(b"data: [DONE]\n\n")
        return chunks

    def _parse(self, payloads: list[bytes]) -> list[Json]:
        """Events as objects, up to one that cannot be read, which is a failure; what follows [DONE] is passed over."""
        if self._is_done or not payloads:
            return []
        if _DONE in payloads:
            self._is_done = True
            payloads = payloads[: payloads.index(_DONE)]
        try:
            found = self._load(b"[%s]" % b",".join(payloads))  # half the time of one call each
        except orjson.JSONDecodeError:
            payloads = [payload for payload in payloads if payload.strip()]
            found = []
            for payload in payloads:
                try:
                    found.append(self._load_loosely(payload))
                except ValueError:
                    self.failure = ErrorWords(f"an event of its stream is no JSON: {payload[:80]!r}", "", "")
                    break
        events = [event for event in found if isinstance(event, dict)]
        if len(events) < len(payloads):
            self.merger = None
        return events

    def _read(self, raw: bytes) -> Json:
        try:
            answer = self._load_loosely(raw)
        except ValueError:
            raise UnreadableAnswerError(f"wanted JSON, found {raw[:80]!r}") from None
        if not isinstance(answer, dict):
            raise UnreadableAnswerError(f"wanted a JSON object, found {raw[:80]!r}")
        return answer

    def _load(self, raw: bytes) -> Any:
        """What it says; how deep that is, is looked at when the largest part of it is taken out. Raises as `_write`."""
        try:
            return load_countable(raw) if self._question.hides_logprobs else load_bounded(raw)
        except BeyondBoundsError as beyond:
            raise self._refuse_unbounded(beyond) from None

    def _load_loosely(self, raw: bytes) -> Any:
        """As `_load`; what orjson refuses, such as an emoji cut in halves, as it is recorded. Raises ValueError."""
        try:
            return self._load(raw)
        except orjson.JSONDecodeError:
            found = read_json(raw)
            self._write(found)
            return found

    def _write(self, value: Any) -> bytes:
        """As JSON. Raises UnboundedAnswerError where it lies too deep."""
        try:
            return dump_flat(value)
        except BeyondBoundsError as beyond:
            raise self._refuse_unbounded(beyond) from None

    def _require_flat(self, value: Any) -> None:
        """Raises as `_write`, where that was not looked at when it was read."""
        if self._question.hides_logprobs:
            self._write(value)

    def _refuse_unbounded(self, beyond: BeyondBoundsError) -> UnboundedAnswerError:
        self.kept.clear()
        return UnboundedAnswerError(f"wanted at most {beyond.most:,} {beyond.bound} in it, found more")


def _read_model(answer: Json) -> str:
    found = answer.get("model")
    return found if isinstance(found, str) else ""
