"""Pure translators between what callers and servers speak and the internal language, OpenAI's chat completions.

A caller's request goes through `previous_id` (what is found there is given as `earlier`), `to_chat` and `fit_server` to
a server; its answer comes back through `from_chat` or, streamed, `make_stream`. A server that does not speak chat
completions has an `Upstream`. One that speaks the caller's own dialect needs neither. Nothing here reads a clock, a
socket or a database.
"""

from apps.gateway.dialects.chat import ChatDialect
from apps.gateway.dialects.completions import CompletionsDialect
from apps.gateway.dialects.errors import ErrorWords, read_error
from apps.gateway.dialects.fitting import fit_server
from apps.gateway.dialects.messages import MessagesDialect, MessagesUpstream
from apps.gateway.dialects.protocol import (
    AnswerStream,
    BadRequestError,
    Dialect,
    Upstream,
    UpstreamFailedError,
    UpstreamStream,
)
from apps.gateway.dialects.responses import ResponsesDialect

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (ChatDialect(), CompletionsDialect(), MessagesDialect(), ResponsesDialect())
}
"""By `Exchange.api`."""
UPSTREAMS: dict[str, Upstream] = {"messages": MessagesUpstream()}
"""By name of the dialect a server speaks; `chat` is not among them."""

__all__ = [
    "DIALECTS",
    "UPSTREAMS",
    "AnswerStream",
    "BadRequestError",
    "Dialect",
    "ErrorWords",
    "Upstream",
    "UpstreamFailedError",
    "UpstreamStream",
    "fit_server",
    "read_error",
]
