"""How often one caller may ask: generous for work, tight where passwords are tried."""

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle, UserRateThrottle
from rest_framework.views import APIView


class CallerThrottle(UserRateThrottle):
    """By user, or by address for who is not signed in."""

    rate = "3000/min"


class SignInThrottle(SimpleRateThrottle):
    """By address."""

    scope = "sign-in"
    rate = "10/min"

    def get_cache_key(self, request: Request, view: APIView) -> str:
        return f"throttle_sign_in_{self.get_ident(request)}"
