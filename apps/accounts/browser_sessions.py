"""Sessions of browsers, kept so that a copy of the database opens none: a row is found by a keyed hash of its cookie.

Django's own database sessions otherwise. Who is signed in, from where and with what stands beside the sealed data, so
that people can look through their sessions and end them.
"""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from apps.accounts.models import BrowserSession, User

ORIGIN = "origin"
"""In the session's data: where it was signed in."""
CONFIRMED = "confirmed_at"
"""In the session's data: when its person last proved who they are."""
USE_IS_NOTED_EVERY = timedelta(minutes=1)
MAX_DEVICE_CHARS = 300


def hash_cookie(cookie: str) -> str:
    """HMAC-SHA256 under a key drawn from SECRET_KEY."""
    return salted_hmac("apps.accounts.browser_sessions", cookie, algorithm="sha256").hexdigest()


class SessionStore(db.SessionStore):
    """`session_key` is the cookie's text here, and its hash in the table."""

    @classmethod
    def get_model_class(cls) -> type[BrowserSession]:
        return BrowserSession

    def load(self) -> dict[str, Any]:
        found = self._find()
        if found is None:
            self._session_key = None
            return {}
        return dict(self.decode(found.session_data))

    def exists(self, session_key: str) -> bool:
        return BrowserSession.objects.filter(pk=hash_cookie(session_key)).exists()

    def create_model_instance(self, data: dict[str, Any]) -> BrowserSession:
        return self._make(data, self._get_or_create_session_key(), self.get_expiry_date())  # type: ignore[attr-defined]

    def delete(self, session_key: str | None = None) -> None:
        if cookie := session_key or self.session_key:
            BrowserSession.objects.filter(pk=hash_cookie(cookie)).delete()

    async def aload(self) -> dict[str, Any]:
        found = await self._live().afirst()
        if found is None:
            self._session_key = None
            return {}
        return dict(self.decode(found.session_data))

    async def aexists(self, session_key: str) -> bool:
        return await BrowserSession.objects.filter(pk=hash_cookie(session_key)).aexists()

    async def acreate_model_instance(self, data: dict[str, Any]) -> BrowserSession:
        return self._make(data, await self._aget_or_create_session_key(), await self.aget_expiry_date())  # type: ignore[attr-defined]

    async def adelete(self, session_key: str | None = None) -> None:
        if cookie := session_key or self.session_key:
            await BrowserSession.objects.filter(pk=hash_cookie(cookie)).adelete()

    def _live(self) -> QuerySet[BrowserSession]:
        return BrowserSession.objects.filter(pk=hash_cookie(self.session_key or ""), expire_date__gt=timezone.now())

    def _find(self) -> BrowserSession | None:
        found = self._live().first()
        if found is not None and found.seen_at < (now := timezone.now()) - USE_IS_NOTED_EVERY:
            BrowserSession.objects.filter(pk=found.pk).update(seen_at=now)
        return found

    def _make(self, data: dict[str, Any], cookie: str, expires_at: datetime) -> BrowserSession:
        origin = data.get(ORIGIN) or {}
        return BrowserSession(
            session_key=hash_cookie(cookie),
            session_data=self.encode(data),
            expire_date=expires_at,
            user_id=data.get(SESSION_KEY),
            address=origin.get("address", ""),
            device=origin.get("device", ""),
            signed_in_at=datetime.fromisoformat(origin["at"]) if origin else None,
        )


def note_origin(request: HttpRequest, *, address: str) -> None:
    """Remember where this browser signed in, and with what."""
    device = request.headers.get("User-Agent", "")[:MAX_DEVICE_CHARS]
    request.session[ORIGIN] = {"at": timezone.now().isoformat(), "address": address[:64], "device": device}


def note_confirmed(request: HttpRequest) -> datetime:
    """Whoever is at this browser proved who they are just now."""
    now = timezone.now()
    request.session[CONFIRMED] = now.isoformat()
    return now


def find_confirmed_at(request: HttpRequest) -> datetime | None:
    """When whoever is at this browser last proved who they are."""
    text = request.session.get(CONFIRMED)
    return datetime.fromisoformat(text) if text else None


def list_sessions(user: User) -> QuerySet[BrowserSession]:
    """Where this person is signed in, the latest first."""
    return BrowserSession.objects.filter(user=user, expire_date__gt=timezone.now()).order_by("-seen_at")
