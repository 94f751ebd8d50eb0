"""Signing in for a token, and who one is then."""

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import Member, Role
from apps.accounts.rights import Right
from apps.accounts.services import revoke_token, sign_in
from apps.api.permissions import PUBLIC, SIGNED_IN, current_token, current_user, visible_projects
from apps.api.serializers.accounts import NewTokenOut, SignIn, WhoAmIOut
from apps.api.serializers.strict import NoFields
from apps.api.throttles import SignInThrottle
from apps.api.views.base import ApiView


class LoginView(ApiView):
    """A token for a name and password."""

    rights: ClassVar = {"post": PUBLIC}
    authentication_classes = []
    throttle_classes = [SignInThrottle]
    extra_problems: ClassVar = {"post": (401,)}

    @extend_schema(request=SignIn, responses={201: NewTokenOut}, operation_id="login", auth=[])
    def post(self, request: Request) -> Response:
        """Sign in. The token lives 30 days, has the scopes that your roles have or those you name, and ends with your
        password."""
        body = self.read_body(SignIn)
        token, text = sign_in(
            username=body["username"],
            password=body["password"],
            name=body.get("name", "sign-in"),
            scopes=body.get("scopes"),
        )
        token.token = text  # type: ignore[attr-defined]
        return Response(NewTokenOut(token).data, status=201)


class LogoutView(ApiView):
    """The end of the token that asks for it."""

    rights: ClassVar = {"post": SIGNED_IN}

    @extend_schema(request=NoFields, responses={204: None}, operation_id="logout")
    def post(self, request: Request) -> Response:
        """Revoke the token this request came with, and those made with it."""
        self.read_body(NoFields)
        if (token := current_token(request)) is not None:
            revoke_token(token=token, by=current_user(request))
        return Response(status=204)


class WhoAmIView(ApiView):
    """Who is asking."""

    rights: ClassVar = {"get": SIGNED_IN}

    @extend_schema(responses=WhoAmIOut, operation_id="whoami")
    def get(self, request: Request) -> Response:
        """The caller's name, scopes and roles."""
        self.check_no_parameters()
        user, token = current_user(request), current_token(request)
        roles = dict(Member.objects.filter(user=user).values_list("project", "role"))
        shown = {
            "username": user.username,
            "is_agent": user.is_agent,
            "is_superuser": user.is_superuser,
            "scopes": sorted(token.scopes if token else Right.values),
            "token_expires_at": token.expires_at if token else None,
            "memberships": [
                {"project": project.slug, "role": roles.get(project.pk, Role.OWNER)}
                for project in visible_projects(request)
            ],
        }
        return Response(WhoAmIOut(shown).data)
