"""Who is asking: a bearer token. (A console session is Django REST Framework's own, with its CSRF check.)"""

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from apps.accounts.models import ApiToken, User
from apps.accounts.tokens import find_token
from apps.base.errors import NotSignedInError

CHALLENGE = 'Bearer realm="tentalis"'


class TokenAuthentication(BaseAuthentication):
    """Reads `Authorization: Bearer tnt_…`."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return None
        if scheme.lower() != "bearer":
            raise NotSignedInError(f"wanted the header Authorization: Bearer <token>, found the scheme {scheme[:20]!r}")
        token = find_token(text.strip())
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the schema names it."""

    target_class = "apps.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "tnt_<key id>_<secret>"}
