"""The live socket: what happened, as it commits, to who may see it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db.utils import Error as DatabaseError

from apps.accounts.browser_sessions import hash_cookie
from apps.base.tasks import cancel_and_wait
from apps.console.live import Feed, Listener, current_feed
from apps.console.selectors.live import PAGE, Announcement, AnnouncementBatch, Sight, replay_announcements
from apps.console.socket_callers import choose_subprotocol

BAD_REQUEST = 4400
TRY_AGAIN = 1013
TOO_MANY = 4429


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """`/ws/live/?after=<audit id>`: replays from there, then tells what happens. Without `after` only the latter.

    A frame is one announcement, `{id, kind, subject, project, at}`; with `batched=1` it is a list of them, which is
    written once for all who may see the same. An announcement may come twice, none is left out. Who comes with a token
    hears what its user may, of its project and by its scopes.
    """

    is_batched = False
    listener: Listener | None = None
    sender: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        user = self.scope["user"]
        if not user.is_authenticated:
            await self.close()
            return
        await self.accept(subprotocol=choose_subprotocol(self.scope))
        asked = parse_qs(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = asked.get("after", [""])[0]
        if given and not (given.isascii() and given.isdigit() and len(given) < 19):
            await self.close(code=BAD_REQUEST, reason="after: wanted the id of an audit entry")
            return
        if asked.get("batched", ["1"]) != ["1"]:
            await self.close(code=BAD_REQUEST, reason="batched: wanted 1, or no such parameter")
            return
        self.is_batched = "batched" in asked
        session = self.scope.get("session")
        cookie = hash_cookie(session.session_key or "") if session is not None else ""
        listener = Listener(user.pk, cookie, self.scope.get("token"))
        if not current_feed().seat(listener):
            await self.close(
                code=TOO_MANY, reason="this browser, token or user has as many live sockets open as it may"
            )
            return
        self.listener = listener
        self.sender = asyncio.create_task(self._send_all(listener, int(given) if given else None))

    async def disconnect(self, code: int) -> None:
        await cancel_and_wait(self.sender)
        if self.listener is not None:
            await current_feed().leave(self.listener)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """A page has nothing to say."""

    async def _send_all(self, listener: Listener, after: int | None) -> None:
        feed = current_feed()
        try:
            await feed.join(listener)
            sight = await feed.find_sight(listener.user_id)
            listener.projects = sight.list_projects(listener.user_id)
            if after is not None:
                async for page in self._replay(feed, listener, sight, after):
                    await self._tell(AnnouncementBatch(page))
            while (batch := await listener.next()) is not None:
                await self._tell(batch)
        except DatabaseError:
            pass  # the page comes back and replays
        await self.close(code=TRY_AGAIN)

    async def _tell(self, batch: AnnouncementBatch) -> None:
        for text in [batch.text] if self.is_batched else [item.text for item in batch.announcements]:
            await self.send(text_data=text)

    async def _replay(
        self, feed: Feed, listener: Listener, sight: Sight, after: int
    ) -> AsyncIterator[list[Announcement]]:
        """From memory where that reaches back far enough; in pages, none of them empty."""
        recent = feed.recent.since(after)
        if recent is None:
            pages: Iterator[list[Announcement]] = replay_announcements(self.scope["user"], after, listener.token)
            while page := await database_sync_to_async(next)(pages, None):
                yield page
            return
        seen = [item for item in recent if sight.covers(listener.user_id, item, listener.token)]
        for start in range(0, len(seen), PAGE):
            yield seen[start : start + PAGE]
