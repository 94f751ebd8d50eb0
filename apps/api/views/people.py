"""The accounts of an installation's people, for its admins."""

from typing import Any, ClassVar

from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import people
from apps.accounts.models import User
from apps.accounts.rights import Right
from apps.accounts.services import let_make_projects
from apps.api.filters import RowFilterSet, filter_by
from apps.api.permissions import by_right, current_token, current_user
from apps.api.serializers.accounts import NewUserOut, ResetIn, UserChange, UserIn, UserOut
from apps.api.views.base import ResourceViewSet
from apps.base.errors import BadInputError, NotAllowedError


class UserViewSet(ResourceViewSet):
    """People of this installation: admins make them accounts, give another password, switch them off."""

    queryset = User.objects.filter(is_agent=False)
    serializer_class = UserOut
    filterset_class = filter_by(User, "username", "is_active", base=RowFilterSet)
    takes_proof = frozenset({"create", "partial_update", "reset_password"})
    secret_fields = frozenset({"password"})
    rights: ClassVar = by_right(
        {Right.MEMBERS_READ: "list retrieve", Right.MEMBERS_WRITE: "create partial_update reset_password"}
    )

    def get_queryset(self) -> QuerySet[Any]:
        rows = User.objects.filter(is_agent=False)
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        self._require_admin()
        return rows

    @extend_schema(request=UserIn, responses={201: NewUserOut})
    def create(self, request: Request) -> Response:
        """Make an account; its password is in this answer and nowhere else. Takes an admin of the installation."""
        self._require_admin()
        made = people.create_person(by=current_user(request), **self.read_body(UserIn))
        return self._show_made(made, 201)

    @extend_schema(request=UserChange)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Switch an account off or on, or let somebody make projects. Takes an admin of the installation."""
        user, by = self.get_object(), current_user(request)
        body = self.read_body(UserChange)
        with transaction.atomic():
            if "is_active" in body:
                user = people.set_active(user=user, is_active=body["is_active"], by=by)
            if "may_make_projects" in body:
                let_make_projects(user=user, may=body["may_make_projects"], by=by.handle)
        return self.show(user)

    @extend_schema(request=ResetIn, responses={200: NewUserOut})
    @action(detail=True, methods=["post"], url_path="reset-password")
    def reset_password(self, request: Request, pk: str) -> Response:
        """Give somebody another password. All they are signed in with ends. Takes an admin of the installation."""
        user = self.get_object()
        body = self.read_body(ResetIn)
        password = body.get("password", "")
        if bool(password) == body.get("draw", False):
            raise BadInputError.at("password", "wanted a password or draw: true, found both or neither")
        return self._show_made(people.reset_password(user=user, by=current_user(request), password=password), 200)

    def _show_made(self, made: people.Made, status: int) -> Response:
        made.user.password = made.password  # the text, on this unsaved copy alone
        return Response(NewUserOut(made.user).data, status=status)

    def _require_admin(self) -> None:
        people.require_admin(current_user(self.request))
        if (token := current_token(self.request)) is not None and token.project_id:
            raise NotAllowedError("a token bound to a project knows nobody beyond it")
