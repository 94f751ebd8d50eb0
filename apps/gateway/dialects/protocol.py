"""What a dialect of the gateway, and a translator for a server's own dialect, can do."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from apps.base.errors import BadInputError

Json = dict[str, Any]
"""A JSON object."""
Body = Mapping[str, Any]
"""A JSON object that is only read."""


class BadRequestError(BadInputError):
    """The request cannot be put into the internal language.

    Attributes:
        param: path of the field at fault, as in `messages.0.content`; "" where no single field is.
        is_recorded: whether the request is kept as an exchange that failed.
    """

    code = "invalid_request"
    is_recorded = True

    def __init__(self, message: str, *, param: str = "") -> None:
        super().__init__(message, errors={param: [message]} if param else None)
        self.param = param


class AnswerStream(Protocol):
    """Chat chunks of one answer in, server-sent events of a dialect out. One object per answer, used once."""

    def feed(self, chunk: Body) -> bytes:
        """Events for one `chat.completion.chunk`; often none."""

    def finish(self) -> bytes:
        """The last events, after the server's `[DONE]`."""

    def fail(self, *, status: int, message: str, code: str = "") -> bytes:
        """The last events, instead of `finish`, of an answer that broke off."""

    def ping(self) -> bytes:
        """What keeps a silent connection open and changes nothing."""


class Dialect(Protocol):
    """How callers speak to the gateway. The internal language is OpenAI's chat completions.

    Attributes:
        name: as `Exchange.api` says it: chat, completions, responses or messages.
    """

    name: str

    def previous_id(self, body: Body) -> str | None:
        """Id of the earlier answer this request goes on from, whose messages `to_chat` then wants; else None."""

    def to_chat(self, body: Body, *, earlier: Sequence[Body] | None = None) -> Json:
        """The request as a chat request; `stream` is kept, and a stream is asked for its usage.

        Args:
            earlier: chat messages up to and with the answer that `previous_id` names; None: there is no such answer,
                which is refused if one is named.
        Raises:
            BadRequestError: naming the field.
        """

    def from_chat(self, answer: Body, request: Body, *, id: str) -> Json:
        """A chat answer in this dialect.

        Args:
            request: as the caller sent it, in this dialect.
            id: hex digits that become the answer's id, with this dialect's prefix (`answer_id`).
        """

    def make_stream(self, request: Body, *, id: str) -> AnswerStream:
        """Translator of one streamed answer; the arguments are `from_chat`'s."""

    def answer_id(self, id: str) -> str:
        """The name under which callers know an answer, and under which `previous_id` finds it."""

    def error(self, *, status: int, message: str, code: str = "", param: str = "") -> bytes:
        """An error object."""


class UpstreamStream(Protocol):
    """A server's own events of one answer in, chat chunks out. One object per answer, used once.

    Attributes:
        is_done: the server said that the answer is complete; without it, the stream broke off.
    """

    is_done: bool

    def feed(self, event: Body) -> list[Json]:
        """Chunks for one event's data; often none.

        Raises:
            UpstreamFailedError: the event says that the server failed.
        """


class Upstream(Protocol):
    """How a model server speaks that does not speak chat completions.

    Attributes:
        name: of the dialect it speaks.
        path: of its endpoint, behind the base URL.
        headers: what every request to it carries, the key aside.
    """

    name: str
    path: str
    headers: Mapping[str, str]

    def describe(self, body: Body) -> Json:
        """A request in the server's dialect, which is sent as it is, in chat for the record.

        Raises:
            BadRequestError: not even that can be made of it.
        """

    def from_chat(self, request: Body) -> Json:
        """A chat request in the server's dialect. Raises BadRequestError for what it cannot say."""

    def to_chat(self, answer: Body, *, created: int) -> Json:
        """The server's answer as a chat answer.

        Args:
            created: seconds since the epoch; the server may not tell.
        """

    def make_stream(self, *, created: int) -> UpstreamStream:
        """Translator of one streamed answer."""


class UpstreamFailedError(Exception):
    """A server reported a failure in the middle of a stream.

    Attributes:
        status: HTTP status it would have answered with.
        code: its own word for it.
    """

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
