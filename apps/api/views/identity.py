"""Signing in for a token, and who one is then."""

from collections.abc import Callable
from typing import ClassVar

from django.http import HttpResponse, HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.browser_sessions import note_confirmed
from apps.accounts.confirmation import HOLDS, confirm_token, prove
from apps.accounts.models import Member, Role, User
from apps.accounts.rights import Right
from apps.accounts.services import sign_in
from apps.accounts.tokens import revoke_token
from apps.api.permissions import PUBLIC, SIGNED_IN, current_token, current_user, visible_projects
from apps.api.serializers.accounts import ConfirmedOut, ConfirmIn, NewTokenOut, SignIn, WhoAmIOut
from apps.api.serializers.strict import NoFields
from apps.api.throttles import SignInThrottle
from apps.api.views.base import ApiView


class LoginView(ApiView):
    """A token for a name and password."""

    rights: ClassVar = {"post": PUBLIC}
    authentication_classes = []
    throttle_classes = [SignInThrottle]
    extra_problems: ClassVar = {"post": (401, 403)}

    @extend_schema(request=SignIn, responses={201: NewTokenOut}, operation_id="login", auth=[])
    def post(self, request: Request) -> Response:
        """Sign in. The token lives 30 days, has the scopes that your roles have or those you name, and ends with your
        password. Where you have a second factor, 401 `second_factor_required` asks for `code` beside the password."""
        body = self.read_body(SignIn)
        token, text = sign_in(
            username=body["username"],
            password=body["password"],
            name=body.get("name", "sign-in"),
            scopes=body.get("scopes"),
            code=body.get("code", ""),
            address=str(request.META.get("REMOTE_ADDR", "")),
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


class ConfirmView(ApiView):
    """Proving anew who one is."""

    rights: ClassVar = {"post": SIGNED_IN}
    extra_problems: ClassVar = {"post": (401, 409)}

    def _once(self, user: User, key: str, handler: Callable[..., HttpResponse]) -> Callable[..., HttpResponseBase]:
        """Every try counts, an `Idempotency-Key` or not: one that failed is not undone."""
        return handler

    @extend_schema(request=ConfirmIn, responses=ConfirmedOut, operation_id="confirm")
    def post(self, request: Request) -> Response:
        """Prove who you are, for what answers 403 `confirmation_required`: promoting, keys, members, erasing. It holds
        15 minutes. A token that was made for a program needs none: 409."""
        body = self.read_body(ConfirmIn)
        proof = {"password": body.get("password", ""), "code": body.get("code", "")}
        address = str(request.META.get("REMOTE_ADDR", ""))
        token = current_token(request)
        if token is not None:
            at = confirm_token(token=token, address=address, **proof).confirmed_at
        else:
            prove(user=current_user(request), address=address, **proof)
            at = note_confirmed(request._request)
        return Response(ConfirmedOut({"confirmed_at": at, "confirmed_until": (at or timezone.now()) + HOLDS}).data)


class WhoAmIView(ApiView):
    """Who is asking."""

    rights: ClassVar = {"get": SIGNED_IN}

    @extend_schema(responses=WhoAmIOut, operation_id="whoami")
    def get(self, request: Request) -> Response:
        """The caller's name and scopes, and their roles in projects that are not archived."""
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
                for project in visible_projects(request).active()
            ],
        }
        return Response(WhoAmIOut(shown).data)
