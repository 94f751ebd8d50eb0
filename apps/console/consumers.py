"""The live socket: what happened, as it commits, to who may see it."""

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.db.utils import Error as DatabaseError

from apps.console.live import Listener, current_feed
from apps.console.selectors.live import Announcement, replay_announcements

BAD_REQUEST = 4400
TRY_AGAIN = 1013


class LiveConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]
    """`/ws/live/?after=<audit id>`: replays from there, then tells what happens. Without `after` only the latter."""

    listener: Listener | None = None
    sender: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        user = self.scope["user"]
        if not user.is_authenticated:
            await self.close()
            return
        await self.accept()
        given = parse_qs(self.scope["query_string"].decode("latin-1")).get("after", [""])[0]
        if given and not (given.isascii() and given.isdigit() and len(given) < 19):
            await self.close(code=BAD_REQUEST, reason="after: wanted the id of an audit entry")
            return
        self.listener = Listener(user.pk)
        self.sender = asyncio.create_task(self._send_all(self.listener, int(given) if given else None))

    async def disconnect(self, code: int) -> None:
        if self.sender is not None:
            self.sender.cancel()
            with suppress(asyncio.CancelledError):
                await self.sender
        if self.listener is not None:
            await current_feed().leave(self.listener)

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        """A page has nothing to say."""

    async def decode_json(self, text_data: str) -> Any:
        return None

    async def _send_all(self, listener: Listener, after: int | None) -> None:
        try:
            await current_feed().join(listener)
            if after is not None:
                pages = replay_announcements(self.scope["user"], after)
                while page := await self._next_page(pages):
                    for announcement in page:
                        await self.send_json(announcement.to_json())
            while (heard := await listener.next()) is not None:
                await self.send_json(heard.to_json())
        except DatabaseError:
            pass  # the page comes back and replays
        await self.close(code=TRY_AGAIN)

    @staticmethod
    async def _next_page(pages: Any) -> list[Announcement] | None:
        return await database_sync_to_async(next)(pages, None)  # type: ignore[no-any-return]
