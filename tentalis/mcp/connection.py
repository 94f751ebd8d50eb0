"""How a tool call reaches the platform: with the caller's token, and with errors the model can read."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from tentalis.client import ApiError, AsyncClient, ClientError, Json

Connect = Callable[[Context[Any, Any]], AbstractAsyncContextManager[AsyncClient]]
BEARER = "bearer "
MAX_PAGE = 200


def connect_with(url: str, token: str) -> Connect:
    """One token for every call: the server runs on its user's own machine."""

    @asynccontextmanager
    async def connect(_: Context[Any, Any]) -> AsyncIterator[AsyncClient]:
        with speaking_plainly():
            async with AsyncClient(url, token) as client:
                yield client

    return connect


def connect_as_caller(url: str) -> Connect:
    """Each call with the bearer token it came with: the server has no rights of its own."""

    @asynccontextmanager
    async def connect(context: Context[Any, Any]) -> AsyncIterator[AsyncClient]:
        token = read_bearer((context.headers or {}).get("authorization", ""))
        if not token:
            raise ToolError("wanted the header `Authorization: Bearer tnt_…`, found none")
        with speaking_plainly():
            async with AsyncClient(url, token) as client:
                yield client

    return connect


def read_bearer(header: str) -> str:
    """The token of an Authorization header; "" for none."""
    return header[len(BEARER) :].strip() if header.lower().startswith(BEARER) else ""


class speaking_plainly:  # noqa: N801 - read as a word: `with speaking_plainly():`
    """What the platform refused, said so that a model can correct itself."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ClientError):
            raise ToolError(say_error(error)) from error


def say_error(error: ClientError) -> str:
    """One line: what was wanted and found, then the platform's word for it and the number of its log line."""
    if not isinstance(error, ApiError):
        return str(error)
    said = [(name, str(words)) for name, messages in error.errors.items() for words in messages]
    fields = "; ".join(f"{name}: {words}" for name, words in said if words not in str(error))
    known = ", ".join(filter(None, (error.code, error.request_id and f"request {error.request_id}")))
    return f"{error}{f' ({fields})' if fields else ''}{f' [{known}]' if known else ''}"


async def choose_project(client: AsyncClient, given: str) -> str:
    """The project named, else the only one the token may be used in.

    Raises:
        ToolError: there is none or a choice.
    """
    if given:
        return given
    slugs = [str(one["project"]) for one in (await client.whoami())["memberships"]]
    if len(slugs) != 1:
        raise ToolError(f"name the project: this token may be used in {', '.join(slugs[:20]) or 'none'}")
    return slugs[0]


async def read_rows(list_rows: Callable[..., Awaitable[Json]], limit: int, **filters: Any) -> Sequence[Json]:
    """The first page of a list, without the filters nobody gave."""
    given = {name: value for name, value in filters.items() if value not in ("", None)}
    rows: Sequence[Json] = (await list_rows(**given, limit=min(limit, MAX_PAGE)))["results"]
    return rows
