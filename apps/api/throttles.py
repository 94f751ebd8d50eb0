"""How often one caller may ask: generous for work, tight where passwords are tried."""

import hashlib
import time

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from apps.base.counting import WINDOW_S, counter


class SharedThrottle(BaseThrottle):
    """At most `limit` requests a minute of one caller; see `name_caller`."""

    scope = ""
    limit = 0

    def allow_request(self, request: Request, view: APIView) -> bool:
        caller = hashlib.sha256(self.name_caller(request).encode()).hexdigest()[:32]
        return counter.take(f"{self.scope}:{caller}", self.limit, time.time())

    def wait(self) -> float:
        """Seconds after which to ask again."""
        return float(WINDOW_S - time.time() % WINDOW_S)

    def name_caller(self, request: Request) -> str:
        """By address: the one the server saw, whatever a header says."""
        return str(request.META.get("REMOTE_ADDR", ""))


class CallerThrottle(SharedThrottle):
    """By user, or by address for who is not signed in."""

    scope = "caller"
    limit = 3000

    def name_caller(self, request: Request) -> str:
        return f"user {request.user.pk}" if request.user.is_authenticated else super().name_caller(request)


class SignInThrottle(SharedThrottle):
    """By address."""

    scope = "sign-in"
    limit = 10
